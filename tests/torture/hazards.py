"""What can happen to one attempt between its look and its proof, each at its worst moment.

Each hazard strikes, and is taken away again; `bouts` says how that is judged.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.torture.bouts import HELD_THEN_ONCE, HELPED, ONCE, RESULTS, UNKNOWN, Bout, Hazard, Strike, run_hazard
from tests.torture.report import Table, run_in_lanes
from tests.torture.rig import Agent, Rig, going_on, since
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.crash_points import Point

PASTED: Final = Point("staged", "after")
LOOKED: Final = Point("intent_stage", "after")
ALMOST: Final = Point("intent_submit", "after")

ABOUT: Final = (
    "The daemon stands still at that moment (or the agent behaves like that), the hazard strikes, and is taken away again."
    " The agent must get the digest once at most and alone, and once if the ledger says so; no dialog may be answered, no"
    " Enter may meet an empty composer, no shell and no other agent may get a byte; what cannot be decided is unknown."
)
ABOUT_STANDSTILL: Final = (
    "The tmux server is stopped for 11 s, longer than a call and an attempt may take, and goes on with whatever it was asked."
    " Judged as above."
)
LANES: Final = 6
LEASE: Final = 10
STANDSTILL: Final = 11.0
"""Seconds; longer than one call to tmux may take, and than the attempt."""

LOOKS: Final = 2.5
"""Seconds in which a hold is looked at again at least once."""


# -- the harness itself ----------------------------------------------------------------------------------------------


def swallows(bout: Bout) -> None:
    """An Enter is not taken: no second one comes but from a person."""
    bout.agent.fake.turn(swallow_enter=1)
    _is_reported(bout)
    time.sleep(LOOKS)
    enters = sum(
        bytes.fromhex(one["hex"]).count(b"\r") for one in since(bout.agent.fake.records(), bout.start, "bytes")
    )
    assert enters == 1, f"{enters} Enters were pressed"
    bout.waits_for_end()


def slow_to_paste(milliseconds: int) -> Strike:
    """The paste shows up that much later."""

    def strike(bout: Bout) -> None:
        bout.agent.fake.turn(paste_delay=milliseconds)
        bout.waits_for_end()

    return strike


def slow_to_take_keys(milliseconds: int) -> Strike:
    """Enter is read, and taken that much later."""

    def strike(bout: Bout) -> None:
        bout.agent.fake.turn(echo_delay=milliseconds)
        bout.waits_for_end()
        time.sleep(2 * milliseconds / 1000)

    return strike


def asks_after_a_late_enter(bout: Bout) -> None:
    """Enter takes its time, and the turn it begins asks at once: whatever else was pressed meanwhile would approve."""
    before = len(bout.agent.fake.events("submit"))
    bout.agent.fake.turn(echo_delay=1500)
    bout.agent.fake.waits_for("submit", before + 1, 40)
    bout.agent.fake.shows("approval")
    bout.waits_for_end()
    time.sleep(3)


def asks_after_the_paste(bout: Bout) -> None:
    """A dialog comes up right after the paste: it is reported, left alone, and a person rejects it."""
    bout.agent.fake.turn(dialog_after_paste=True)
    _dialog_is_left_alone(bout)


def shows(mode: str) -> Strike:
    """The agent shows something else over our text, until a person has dealt with it."""

    def strike(bout: Bout) -> None:
        bout.reach()
        bout.agent.fake.shows(mode, keep=True)
        _is_reported(bout)
        time.sleep(LOOKS)
        bout.agent.fake.shows("idle", keep=True)

    return strike


def asks(bout: Bout) -> None:
    """A dialog comes up over our text."""
    bout.reach()
    bout.agent.fake.shows("approval", keep=True)
    _dialog_is_left_alone(bout)


def _dialog_is_left_alone(bout: Bout) -> None:
    _is_reported(bout)
    time.sleep(LOOKS)
    state = bout.agent.fake.state()
    assert state["mode"] == "approval", f"the dialog was answered: {state}"
    bout.agent.fake.turn(dialog_after_paste=False)
    bout.agent.fake.shows("idle", keep=True)


def _is_reported(bout: Bout) -> None:
    standing = bout.waits_for_hold("staged")
    assert standing is not None, "lost"
    assert standing.hold == "staged", f"reported as {standing}"


# -- what happens to the pane ----------------------------------------------------------------------------------------


def leaves_by(mode: str) -> Strike:
    """The agent ends and leaves its shell: nothing is typed there."""

    def strike(bout: Bout) -> None:
        bout.reach()
        bout.agent.fake.shows(mode)
        _shell_stays_untouched(bout)
        restart(bout.rig, bout.agent)

    return strike


def restarts(bout: Bout) -> None:
    """Another agent stands in the same pane when the daemon goes on: it may not submit what was meant for the first."""
    bout.reach()
    bout.agent.fake.shows("exit")
    restart(bout.rig, bout.agent)
    begun = len(bout.agent.fake.records())
    bout.waits_for_end()
    got = b"".join(bytes.fromhex(one["hex"]) for one in since(bout.agent.fake.records(), begun, "bytes"))
    assert b"\r" not in got, f"the new agent got {got!r}"


def _shell_stays_untouched(bout: Bout) -> None:
    pane = bout.agent.pane
    bout.rig.tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "sh", 10, "its shell")
    time.sleep(0.5)  # its prompt may stand anywhere in the picture of an agent that crashed
    before = bout.rig.tmux.look(pane)
    with going_on(bout.halt):
        bout.rig.waits_until_settled(bout.message, 12)
    after = bout.rig.tmux.look(pane)
    assert after.text == before.text, f"the shell shows\n{after.text}"


def restart(rig: Rig, agent: Agent) -> None:
    """Start the agent again from the shell it left to, as a person does."""
    begun = len(agent.fake.events("started"))
    # what is typed while the agent leaves is thrown away with its terminal's settings
    rig.tmux.waits_until(agent.pane, lambda look: look.flags["pane_current_command"] == "sh", 30, "its shell")
    rig.tmux.run("send-keys", "-t", agent.pane_id, "-l", shlex.join(agent.fake.command()))
    rig.tmux.run("send-keys", "-t", agent.pane_id, "Enter")
    agent.fake.waits_for("started", begun + 1)
    agent.fake.state()


def resizes(bout: Bout) -> None:
    """The window changes its size in the middle of the attempt."""
    bout.reach()
    for width, height in ((63, 20), (140, 40), (100, 24), (80, 30)):
        bout.rig.tmux.run("resize-window", "-t", bout.agent.pane_id, "-x", str(width), "-y", str(height))
        time.sleep(0.05)
    bout.waits_for_end()


def scrolls_back(bout: Bout) -> None:
    """A person scrolls back; the wake waits until they leave copy mode by themselves."""
    bout.reach()
    bout.rig.tmux.run("copy-mode", "-t", bout.agent.pane_id)
    with going_on(bout.halt):
        time.sleep(LOOKS)
        assert bout.rig.tmux.look(bout.agent.pane).flags["pane_in_mode"] == "1", "copy mode was left"
        bout.rig.tmux.run("send-keys", "-t", bout.agent.pane_id, "-X", "cancel")
    bout.waits_for_end()


HAZARDS: Final = (
    Hazard("Enter is swallowed", (HELPED,), swallows),
    *(Hazard(f"the paste shows after {delay} ms", (ONCE,), slow_to_paste(delay)) for delay in (200, 800, 2500)),
    Hazard("the paste shows after 4000 ms", (HELD_THEN_ONCE,), slow_to_paste(4000)),
    *(
        Hazard(f"Enter is taken after {delay} ms", (ONCE,), slow_to_take_keys(delay))
        for delay in (300, 800, 1500, 2500)
    ),
    Hazard("the agent asks right after a late Enter", (ONCE, UNKNOWN), asks_after_a_late_enter),
    Hazard("a dialog right after the paste", (HELD_THEN_ONCE,), asks_after_the_paste),
    Hazard("a dialog between paste and last look", (HELD_THEN_ONCE,), asks, PASTED),
    Hazard("a dialog between last look and Enter", (HELD_THEN_ONCE,), asks, ALMOST),
    Hazard("a menu between last look and Enter", (HELD_THEN_ONCE,), shows("menu"), ALMOST),
    Hazard("a turn begins between paste and last look", (HELD_THEN_ONCE,), shows("busy"), PASTED),
    Hazard("crash to the shell between look and paste", (ONCE, UNKNOWN), leaves_by("crash"), LOOKED),
    Hazard("crash to the shell between paste and Enter", (UNKNOWN,), leaves_by("crash"), PASTED),
    Hazard("crash to the shell between last look and Enter", (UNKNOWN,), leaves_by("crash"), ALMOST),
    Hazard("exit to the shell between last look and Enter", (UNKNOWN,), leaves_by("exit"), ALMOST),
    Hazard("agent restarted between look and paste", (UNKNOWN,), restarts, LOOKED),
    Hazard("agent restarted between paste and Enter", (UNKNOWN,), restarts, PASTED),
    Hazard("agent restarted between last look and Enter", (UNKNOWN,), restarts, ALMOST),
    Hazard("resized between look and paste", (ONCE, HELD_THEN_ONCE), resizes, LOOKED),
    Hazard("resized between paste and last look", (ONCE, HELD_THEN_ONCE), resizes, PASTED),
    Hazard("resized between last look and Enter", (ONCE, HELD_THEN_ONCE), resizes, ALMOST),
    Hazard("copy mode between look and paste", (ONCE, HELD_THEN_ONCE), scrolls_back, LOOKED),
    Hazard("copy mode between last look and Enter", (HELD_THEN_ONCE,), scrolls_back, ALMOST),
)


def meet_hazards(directory: Path, tmux: PrivateTmux, *, times: int) -> Table:
    """Each of `HAZARDS` so many times."""
    table = Table("Hazards between look and proof", ABOUT, "what happens", RESULTS, map(str, HAZARDS))
    with ExitStack() as stack:
        rigs = [
            stack.enter_context(Rig(directory / f"hazard{at}", tmux, [f"hazard{at}"], before_shell=True, is_born=True))
            for at in range(LANES)
        ]
        run_in_lanes(table, rigs, HAZARDS * times, run_hazard)
    return table


# -- a server that stands still --------------------------------------------------------------------------------------


def stands_still(bout: Bout) -> None:
    """The server answers nothing for longer than the daemon waits, and then does all it was asked meanwhile."""
    bout.reach()
    server = bout.rig.tmux.server_pid
    os.kill(server, signal.SIGSTOP)
    try:
        with going_on(bout.halt):
            time.sleep(STANDSTILL)
    finally:
        os.kill(server, signal.SIGCONT)
    bout.waits_for_end(60)


STANDSTILLS: Final = (
    Hazard("tmux stands still between look and paste", (ONCE, HELD_THEN_ONCE, UNKNOWN), stands_still, LOOKED),
    Hazard("tmux stands still between paste and last look", (ONCE, HELD_THEN_ONCE), stands_still, PASTED),
    Hazard(
        "tmux stands still between last look and Enter", (ONCE, HELD_THEN_ONCE, HELPED, UNKNOWN), stands_still, ALMOST
    ),
)


def stop_tmux(directory: Path, *, times: int) -> Table:
    """Each of `STANDSTILLS` so many times, every lane with a tmux server of its own."""
    table = Table("A tmux server that stands still", ABOUT_STANDSTILL, "what happens", RESULTS, map(str, STANDSTILLS))
    with ExitStack() as stack:
        rigs = [
            stack.enter_context(
                Rig(
                    directory / f"still{at}",
                    stack.enter_context(PrivateTmux()),
                    [f"still{at}"],
                    lease=LEASE,
                    before_shell=True,
                )
            )
            for at in range(LANES)
        ]
        run_in_lanes(table, rigs, STANDSTILLS * times, run_hazard)
    return table
