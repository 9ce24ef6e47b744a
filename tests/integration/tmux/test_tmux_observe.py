"""Every veto is seen with its own reason, and not one byte reaches the pane."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tmux import stillness
from wake_bridge_adapters.tmux.command import TmuxServer

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import Delivered, Refused
from wake_bridge.testing import HUNG, until

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Resident, Scene


def test_an_idle_harness_is_seen_idle_twice_alike(scene: Scene) -> None:
    """Idle needs positive proof, and two looks that agree."""
    agent = scene.resident()

    first, second = scene.observe(agent.id), scene.observe(agent.id)

    assert scene.verdict(agent.id).vote is PresenceState.IDLE
    assert first.fingerprint == second.fingerprint != ""
    assert first.where == "agents:0.0"
    assert first.capabilities == ("fake",)


MODES = {
    "busy": HoldReason.ACTIVE,
    "streaming": HoldReason.ACTIVE,
    "approval": HoldReason.WAITING_ON_APPROVAL,
    "draft": HoldReason.USER_TYPING,
    "shell": HoldReason.USER_TYPING,
    "menu": HoldReason.UNKNOWN,
    "vim-normal": HoldReason.UNKNOWN,
}


@pytest.mark.parametrize(("mode", "reason"), MODES.items())
def test_a_screen_that_is_not_idle_gets_no_byte(scene: Scene, mode: str, reason: HoldReason) -> None:
    """Dialog, draft, busy and whatever is not recognised are vetoes."""
    agent = scene.resident()
    agent.fake.shows(mode)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is reason
    assert scene.journal.names == []
    assert agent.is_untouched()


def copy_mode(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("copy-mode", "-t", agent.id)


def input_off(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("select-pane", "-d", "-t", agent.id)


def died_in_its_pane(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("set-option", "-g", "remain-on-exit", "on")
    agent.fake.shows("exit")
    agent.tmux.waits_until(agent.pane, lambda look: look.flags["pane_dead"] == "1")


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        (copy_mode, HoldReason.COPY_MODE),
        (input_off, HoldReason.INPUT_OFF),
        (died_in_its_pane, HoldReason.PANE_DEAD),
    ],
)
def test_a_pane_that_cannot_take_a_key_says_why(
    scene: Scene, obstacle: Callable[..., None], reason: HoldReason
) -> None:
    """Dead, in a mode, input off, no agent; each a reason a person can act on."""
    agent = scene.resident()
    obstacle(scene, agent)

    outcome = scene.deliver(agent.id, scene.wake())

    assert scene.verdict(agent.id).hold is reason
    assert isinstance(outcome, Refused)
    assert outcome.reason is reason
    assert outcome.where == "agents:0.0"
    assert scene.journal.names == []
    assert agent.is_untouched()


def test_an_agent_that_quit_to_its_shell_is_no_agent(scene: Scene) -> None:
    """Quitting leaves `pane_pid` as it was, and the dead program's picture may still be there."""
    agent = scene.resident(shell=True)
    assert scene.verdict(agent.id).vote is PresenceState.IDLE
    agent.fake.shows("crash")
    agent.tmux.waits_until(agent.pane, lambda look: look.flags["pane_current_command"] in {"sh", "dash", "bash"})

    verdict = scene.verdict(agent.id)
    outcome = scene.deliver(agent.id, scene.wake())

    assert verdict.hold is HoldReason.NO_AGENT
    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.NO_AGENT
    assert agent.is_untouched()


@pytest.mark.parametrize("program", ["bash", "ssh", "tmux", "sudo", "vim", "less"])
def test_programs_that_are_no_agents_are_vetoed_even_for_a_named_harness(scene: Scene, program: str) -> None:
    """An explicit `[targets].harness` replaces the recognition, never the vetoes."""
    link = scene.directory / program
    link.symlink_to("/bin/sleep")
    pane = scene.tmux.new_pane([str(link), "60"])

    # tmux tells its name before it has its terminal
    until(lambda: program in scene.verdict(str(pane.pane_id), harness="fake").saw, "the program at its terminal")

    assert scene.verdict(str(pane.pane_id), harness="fake").hold is HoldReason.NO_AGENT


@pytest.mark.parametrize("argv", [["cat"], [sys.executable, "-i"], ["sh", "-c", "cat; true"]])
def test_what_reads_lines_for_itself_is_no_agent_even_for_a_named_harness(scene: Scene, argv: list[str]) -> None:
    """A REPL and a pager got the paste; they veto, behind a script as well."""
    pane = scene.tmux.new_pane(argv)
    program = "cat" if "cat" in argv[-1] else "python"
    first = psutil.Process(int(scene.tmux.look(pane).flags["pane_pid"]))
    until(lambda: any(program in one.name() for one in (first, *first.children(recursive=True))), program)

    verdict = scene.verdict(str(pane.pane_id), harness="fake")
    assert verdict.hold is HoldReason.NO_AGENT
    assert "although `harness` says so" in verdict.saw


def test_a_harness_under_another_name_is_recognised_when_it_is_told(scene: Scene) -> None:
    """An explicit `[targets].harness` replaces the recognition."""
    agent = scene.resident()
    other = scene.directory / "unheard-of.py"
    other.write_text("import runpy; runpy.run_module('wake_bridge.demo.fake_harness', run_name='__main__')\n")
    agent = scene.resident("renamed")
    command = agent.fake.command()
    agent.fake.shows("exit")
    pane = scene.tmux.new_pane([command[0], str(other), *command[3:]])
    agent.fake.control()

    assert scene.verdict(str(pane.pane_id)).hold is HoldReason.NO_AGENT
    assert scene.verdict(str(pane.pane_id), harness="fake").vote is PresenceState.IDLE
    assert "no screen profile" in scene.verdict(str(pane.pane_id), harness="nonsense").saw


def test_an_agent_started_by_a_script_is_found_behind_it(scene: Scene) -> None:
    """The foreground process group counts, and a wrapper script shares it with what it runs."""
    agent = scene.resident(script=True)

    assert agent.look().flags["pane_current_command"] != "python3"
    assert scene.verdict(agent.id).vote is PresenceState.IDLE


def test_a_stopped_agent_is_no_agent(scene: Scene) -> None:
    """Stopped or dead = no agent, although its picture is still there."""
    agent = scene.resident(script=True)
    assert scene.verdict(agent.id).vote is PresenceState.IDLE
    agent.stops()

    verdict = scene.verdict(agent.id)

    assert verdict.hold is HoldReason.NO_AGENT
    assert "stopped" in verdict.saw
    os.kill(agent.pid, signal.SIGCONT)


def test_synchronized_panes_are_refused(scene: Scene) -> None:
    """Enter in a synchronised pane would be pressed in every pane of the window."""
    agent = scene.resident()
    scene.tmux.run("split-window", "-t", agent.id, "cat")
    scene.tmux.run("set-option", "-w", "-t", agent.id, "synchronize-panes", "on")

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert "synchronize-panes" in outcome.detail
    assert agent.is_untouched()


def test_a_program_that_does_not_read_its_terminal_is_not_idle(scene: Scene) -> None:
    """Exit 0 proves nothing; what a program has not read yet would surface later on another screen."""
    agent = scene.resident(script=True)
    agent.stops()  # behind a script: tmux sets its own children going again
    scene.tmux.run("send-keys", "-t", agent.id, "-l", "x")

    def votes() -> dict[str, object]:
        return {one.rule: one.vote for one in scene.observe(agent.id).evidence}

    until(lambda: "unread-input" in votes(), "the key at its terminal")
    assert votes()["unread-input"] is PresenceState.ACTIVE
    os.kill(agent.pid, signal.SIGCONT)


def test_a_title_in_a_plain_c_locale_keeps_its_glyphs(scene: Scene) -> None:
    """Without `-u` tmux turns every glyph of a format into `_`, and a spinner would not be seen."""
    agent = scene.resident()
    scene.adapter = scene.new_adapter(LC_ALL="C", LANG="C")

    assert scene.verdict(agent.id).vote is PresenceState.IDLE
    agent.fake.shows("streaming")
    assert scene.verdict(agent.id).vote is PresenceState.ACTIVE


def test_a_server_of_a_plain_c_locale_tells_glyphs_as_well(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is started in such a locale by cron, by a service, by ssh."""
    with monkeypatch.context() as plain:
        plain.setenv("LC_ALL", "C")
        plain.setenv("LANG", "C")
        scene.tmux.run("new-session", "-d", "-s", "agents", "cat")
        scene.adapter = scene.new_adapter()
    agent = scene.resident()
    wake = scene.wake("漢字 é ⇒ {mark} ok")

    idle = scene.verdict(agent.id)
    outcome = scene.deliver(agent.id, wake)

    assert idle.vote is PresenceState.IDLE
    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]


def test_a_title_is_only_text(scene: Scene) -> None:
    """A title that looks like our own formats or separators changes nothing."""
    agent = scene.resident()
    scene.tmux.run("select-pane", "-t", agent.id, "-T", "▪ ~0123456789abcdef~ #{pid} %s ' ; }")

    assert scene.verdict(agent.id).vote is PresenceState.IDLE


def test_the_survey_changes_when_a_new_look_could_show_something_new(scene: Scene) -> None:
    """One `list-panes -a` per socket tells when a capture is worth it."""
    agent, other = scene.resident(), scene.resident("other")
    places = [scene.place(agent.id), scene.place(other.id)]

    def survey() -> dict[str, str]:
        return dict(asyncio.run(scene.adapter.survey(places)))

    first = survey()
    agent.fake.shows("draft")
    second = survey()
    scene.tmux.run("kill-pane", "-t", other.id)

    assert set(first) == {place.key for place in places}
    assert first[places[0].key] != second[places[0].key]
    assert set(survey()) == {places[0].key}


def test_the_survey_tells_of_a_change_in_the_very_second_of_the_look_before(scene: Scene) -> None:
    """Activity is told in whole seconds: what is drawn after a look, in its second, must be looked at in the next."""
    agent = scene.resident()
    place = scene.place(agent.id)
    terminal = Path(scene.tmux.run("display-message", "-p", "-t", agent.id, "#{pane_tty}").strip())

    def draw(row: int) -> str:
        """Draw a line, the cursor stays where it is; the second of the window's last activity."""
        terminal.write_text(f"\x1b7\x1b[{row};1Hdrawn\x1b8")
        scene.tmux.waits_until(agent.pane, lambda look: look.text.count("drawn") >= row)
        return scene.tmux.run("display-message", "-p", "-t", agent.id, "#{window_activity}").strip()

    def survey() -> str:
        return asyncio.run(scene.adapter.survey([place]))[place.key]

    row = 2
    second, before = draw(1), survey()
    while draw(row) != second:
        row += 2
        second, before = draw(row - 1), survey()
    until(lambda: time.time() >= int(second) + 1)

    assert survey() != before


def test_a_server_that_has_slept_since_is_not_asked_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it drew or read would have cost it processor time; our own looks do not count, and a while later it is asked all the same."""
    agent = scene.resident()
    place = scene.place(agent.id)
    lists = 0
    really_ask = TmuxServer.ask

    async def ask(server: TmuxServer, *commands: Sequence[str], stdin: str = "") -> CallResult:
        nonlocal lists
        lists += commands[0][0] == "list-panes"
        return await really_ask(server, *commands, stdin=stdin)

    monkeypatch.setattr(TmuxServer, "ask", ask)

    async def survey() -> tuple[str, int]:
        before = lists
        return (await scene.adapter.survey([place]))[place.key], lists - before

    async def comes(wanted: Callable[[str, int], bool]) -> str:
        async with asyncio.timeout(HUNG):
            told, asked = await survey()
            while not wanted(told, asked):
                await asyncio.sleep(2 * stillness.SETTLES)
                told, asked = await survey()
            return told

    async def play() -> None:
        # the shell that starts the program leaves without a sign
        first = await comes(lambda told, asked: asked == 0 and "bash" not in told.splitlines())
        await scene.adapter.observe(place, Address(Identity("@agent")))
        assert await comes(lambda _, asked: asked == 0) == first
        agent.fake.shows("draft")
        await comes(lambda told, asked: told != first and asked == 1)
        await comes(lambda _, asked: asked == 0)
        monkeypatch.setattr(stillness, "COUNTS_FOR", 0.0)
        agent.fake.shows("idle")
        await comes(lambda _, asked: asked == 1)
        for _ in range(3):
            await asyncio.sleep(2 * stillness.SETTLES)
            assert (await survey())[1] == 1

    asyncio.run(play())


def test_a_look_at_a_pane_that_is_gone_says_so(scene: Scene) -> None:
    """Whatever is not known is unknown, with its reason."""
    agent, _other = scene.resident(), scene.resident("other")
    place = scene.place(agent.id)
    scene.tmux.run("kill-pane", "-t", agent.id)

    observed = asyncio.run(scene.adapter.observe(place, scene.address()))

    assert [one.hold for one in observed.evidence] == [HoldReason.UNREACHABLE]
    assert observed.fingerprint == ""


def test_a_look_costs_one_call(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observe in one tmux call, also where nobody was looked at before."""
    agent = scene.resident()
    place, address = scene.place(agent.id), scene.address()
    calls: list[object] = []
    ask = TmuxServer.ask

    async def counted(self: TmuxServer, *commands: Sequence[str], stdin: str = "") -> CallResult:
        calls.append(commands)
        return await ask(self, *commands, stdin=stdin)

    monkeypatch.setattr(TmuxServer, "ask", counted)
    for number in range(1, 4):
        asyncio.run(scene.adapter.observe(place, address))
        assert len(calls) == number


def test_of_a_pane_that_is_gone_nothing_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tmux never gives a pane's number again, and a daemon runs for years."""
    agent, other, crashed = scene.resident(), scene.resident("other"), scene.resident("crashed", shell=True)
    for one in (agent, other, crashed):
        scene.observe(one.id)
    places = [scene.place(one.id) for one in (agent, other)]
    occupants, looks = scene.adapter._occupants, scene.adapter._last_looks
    crashed.fake.shows("crash")
    crashed.tmux.waits_until(crashed.pane, lambda look: look.flags["pane_current_command"] in {"sh", "dash", "bash"})
    scene.observe(crashed.id)
    assert {pane for _, pane, _ in occupants._remembered} == {agent.id, other.id}
    assert {pane for _, pane in occupants._lost_terminal} == {crashed.id}
    assert {one.key for one in places} < set(looks)
    for one in (agent, crashed):
        scene.tmux.run("kill-pane", "-t", one.id)
    monkeypatch.setattr("wake_bridge_adapters.tmux.adapter._COMPARABLE_FOR", -1)

    assert list(asyncio.run(scene.adapter.survey(places))) == [places[1].key]

    assert {pane for _, pane, _ in occupants._remembered} == {other.id}
    assert not occupants._lost_terminal
    assert scene.adapter._last_looks == {}


def test_who_is_in_a_pane_can_be_asked_while_a_thread_looks_at_another(scene: Scene) -> None:
    """Panes are looked at in threads, which write down whom they find; the loop reads that meanwhile."""
    agent = scene.resident()
    scene.observe(agent.id)
    occupants = scene.adapter._occupants
    ((key, found),) = occupants._remembered.items()

    class Meanwhile(str):
        """A socket's path; another pane is written down in the moment in which it is compared."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            occupants._remembered[key[0], f"%{1000 + len(occupants._remembered)}", ""] = found
            return str.__eq__(self, other)

    assert occupants.known(Meanwhile(key[0]), agent.id) == found.agent
