"""What can happen to one attempt between its look and its proof (DESIGN §6), each at its worst moment.

A trial sends one message, lets the hazard strike, and afterwards takes the obstacle away. The rules are the same for all:
what was submitted is the digest, alone and once; nobody's dialog is answered; no shell and no other agent gets a byte; what
cannot be decided is unknown; all else arrives in the end.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Agent, Rig, Standing, since
from tests.torture.typists import going_on
from wake_bridge.domain.delivery import Outcome
from wake_bridge.testing.crash_points import Halt, Point
from wake_bridge.testing.fake_harness.keys import PASTE_END, PASTE_START
from wake_bridge.testing.sandbox import DaemonProcess
from wake_bridge.testing.tmux_server import PrivateTmux

ONCE: Final = "submitted once"
HELD_THEN_ONCE: Final = "held, then submitted once"
UNKNOWN: Final = "unknown"
RESULTS: Final = (ONCE, HELD_THEN_ONCE, UNKNOWN, "broken rule")

PASTED: Final = Point("staged", "after")
LOOKED: Final = Point("intent_stage", "after")
ALMOST: Final = Point("intent_submit", "after")


LANES: Final = 6
LOOKS: Final = 2.5
"""Seconds in which a hold is looked at again at least once."""


@dataclass(slots=True)
class Bout:
    """One trial under way."""

    rig: Rig
    agent: Agent
    message: str
    start: int
    halt: Halt | None

    def reach(self) -> None:
        """Wait until the daemon stands still."""
        assert self.halt is not None
        self.halt.waits_until_reached()

    def waits_for_hold(self, reason: str, timeout: float = 20) -> Standing | None:
        """How the message stands once it is held for that reason."""
        with going_on(self.halt):
            return self.rig.waits_for(self.message, lambda one: one.is_settled or one.hold == reason, timeout)

    def waits_for_end(self, timeout: float = 40) -> Standing | None:
        """How it stands at its end."""
        with going_on(self.halt):
            return self.rig.waits_until_settled(self.message, timeout)


Strike = Callable[[Bout], None]


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing that can happen.

    Attributes:
        name: the row.
        expected: what may come of it.
        strike: does it and takes it away again; raises `AssertionError` when a rule of its own is broken.
        at: where the daemon stands still meanwhile; None where the harness itself is the hazard.
    """

    name: str
    expected: Sequence[str]
    strike: Strike
    at: Point | None = None

    def __str__(self) -> str:
        return self.name


def meet_hazards(directory: Path, tmux: PrivateTmux, *, times: int) -> Table:
    """Each of `HAZARDS` so many times."""
    table = Table("Hazards between look and proof", "what happens", RESULTS, map(str, HAZARDS))
    with ExitStack() as stack:
        rigs = [
            stack.enter_context(Rig(directory / f"hazard{at}", tmux, [f"hazard{at}"], before_shell=True))
            for at in range(LANES)
        ]
        run_in_lanes(table, rigs, HAZARDS * times, run_hazard)
    return table


def run_hazard(rig: Rig, hazard: Hazard) -> tuple[str, Verdict]:
    """One trial in a rig with one agent that is started before a shell."""
    (agent,) = rig.agents
    agent.clear()
    start = len(agent.fake.records())
    message = rig.send(agent, f"hazard: {hazard.name}")
    daemon, halt = _daemon(rig, hazard)
    bout = Bout(rig, agent, message, start, halt)
    try:
        hazard.strike(bout)
        standing = bout.waits_for_end()
        wrongs = list(_wrongs(bout, standing))
    except AssertionError as rule:
        standing, wrongs = rig.standing(message), [str(rule)]
    finally:
        with going_on(halt):
            daemon.stop()
        _recover(agent)
    result = _result(bout, standing)
    if not wrongs and result not in hazard.expected:
        wrongs.append(f"{result} instead of {' or '.join(hazard.expected)}")
    shown = tuple(f"{one}\n{rig.story(message)}\n{daemon.log()[-1500:]}" for one in wrongs)
    return hazard.name, Verdict("broken rule" if wrongs else result, shown)


def _daemon(rig: Rig, hazard: Hazard) -> tuple[DaemonProcess, Halt | None]:
    return rig.halting(hazard.at) if hazard.at is not None else (rig.daemon(), None)


def _recover(agent: Agent) -> None:
    agent.fake.turn(swallow_enter=0, paste_delay=0, echo_delay=0, dialog_after_paste=False)
    agent.clear()


def _result(bout: Bout, standing: Standing | None) -> str:
    delivery = standing.delivery if standing else None
    if delivery is None or not delivery.state.is_terminal:
        return "still held"
    if delivery.outcome is Outcome.UNKNOWN:
        return UNKNOWN
    was_held = any(
        entry.step == "held" and entry.detail.get("reason") == "staged" for entry in bout.rig.journal(delivery.id)
    )
    return HELD_THEN_ONCE if was_held else ONCE


def _wrongs(bout: Bout, standing: Standing | None) -> Iterator[str]:
    """How the rules for all were broken."""
    received = bout.agent.fake.records()[bout.start :]
    delivery = standing.delivery if standing else None
    submits = [one["text"] for one in since(received, 0, "submit")]
    if delivery is None:
        yield "lost"
        return
    if delivery.outcome is Outcome.SUBMITTED and submits != [delivery.digest]:
        yield f"said to be submitted, but the agent got {submits!r}"
    if delivery.outcome is Outcome.UNKNOWN and len(submits) > 1:
        yield f"submitted more than once: {submits!r}"
    yield from (
        f"the agent saw a {event!r}" for event in ("approved", "shell", "empty-enter") if since(received, 0, event)
    )
    if left := list(bout.rig.work.iterdir()):
        yield f"a command was run: {left}"


# -- the harness itself ----------------------------------------------------------------------------------------------


def swallowing(count: int) -> Strike:
    """So many Enters are not taken."""

    def strike(bout: Bout) -> None:
        bout.agent.fake.turn(swallow_enter=count)
        bout.waits_for_end()
        swallowed = since(bout.agent.fake.records(), bout.start, "swallowed")
        assert len(swallowed) == count, f"{len(swallowed)} Enters were swallowed"

    return strike


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
    bout.agent.fake.waits_for("submit", before + 1, 20)
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
    *(Hazard(f"{count} Enters are swallowed", (ONCE,), swallowing(count)) for count in (1, 2, 3)),
    Hazard("5 Enters are swallowed", (HELD_THEN_ONCE,), swallowing(5)),
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


# -- two bridges on one pane -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rivals:
    """Two set-ups with state of their own, both with a daemon at work, both with the same pane."""

    host: Rig
    guest: Rig


def wake_at_once(directory: Path, tmux: PrivateTmux, *, count: int) -> Table:
    """Two bridges with state of their own wake one agent at the same time."""
    table = Table("Two bridges on one pane", "what happens", ("both submitted once", "broken rule"))
    with ExitStack() as stack:
        lanes = []
        for at in range(LANES // 2):
            host = stack.enter_context(Rig(directory / f"host{at}", tmux, [f"host{at}"]))
            guest = stack.enter_context(Rig(directory / f"guest{at}", tmux, [], guests=host.agents))
            host.daemon()
            guest.daemon()
            lanes.append(Rivals(host, guest))
        run_in_lanes(table, lanes, range(count), run_rivals)
    return table


def run_rivals(rivals: Rivals, trial: int) -> tuple[str, Verdict]:
    """Two messages at the same time, one to each: both wakes arrive, one after the other, never into each other."""
    (agent,) = rivals.host.agents
    start = len(agent.fake.records())
    messages = {rig: rig.send(agent, f"rivals {trial}") for rig in (rivals.host, rivals.guest)}
    digests = []
    wrongs = []
    for rig, message in messages.items():
        standing = rig.waits_until_settled(message)
        delivery = standing.delivery if standing else None
        if delivery is None or delivery.outcome is not Outcome.SUBMITTED:
            wrongs.append(f"not submitted\n{rig.story(message)}")
        else:
            digests.append(delivery.digest)
    received = agent.fake.records()[start:]
    submits = [one["text"] for one in since(received, 0, "submit")]
    if sorted(submits) != sorted(digests):
        wrongs.append(f"submitted were {submits!r}")
    stream = b"".join(bytes.fromhex(one["hex"]) for one in since(received, 0, "bytes"))
    frames = b"".join(PASTE_START + text.encode() + PASTE_END + b"\r" for text in submits)
    if stream != frames:
        wrongs.append(f"interleaved: {stream!r}")
    return "two wakes at the same time", Verdict("broken rule" if wrongs else "both submitted once", tuple(wrongs))
