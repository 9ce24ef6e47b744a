"""The fence where the key is: only the daemon whose entry stands in the pane's option pastes and presses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tables import TmuxConfig
from wake_bridge_adapters.tmux.adapter import TmuxAdapter
from wake_bridge_adapters.tmux.attempt import DriverProcess
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.occupants import started_at
from wake_bridge_adapters.tmux.pane_facts import DRIVER_OPTION

from wake_bridge.domain.delivery import Hold, HoldReason, Progress, Step
from wake_bridge.domain.names import Identity
from wake_bridge.ports.adapter import AdapterContext, Delivered, Refused
from wake_bridge.system.clock import SteadyClock

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Resident, Scene

GRAPH, OTHER_GRAPH = "803-1a2b", "803-9f"
DEAD = f"{GRAPH}/4194305/1"


def drives(scene: Scene, graph: str = GRAPH) -> None:
    """From now on the scene's adapter is that of a daemon for this graph."""
    context = AdapterContext(10, 10, "", os.environ, SteadyClock(), graph=lambda: graph)
    scene.adapter = TmuxAdapter(TmuxConfig(socket_name=scene.tmux.socket_name), context)


def driver(agent: Resident) -> str:
    """Who drives the pane, as tmux knows it."""
    return str(agent.tmux.run("display-message", "-p", "-t", agent.id, f"#{{{DRIVER_OPTION}}}")).rstrip("\n")


def set_driver(agent: Resident, text: str) -> None:
    agent.tmux.run("set-option", "-p", "-t", agent.id, DRIVER_OPTION, text)


@contextmanager
def a_living_daemon(graph: str) -> Iterator[DriverProcess]:
    """Another process, with the entry that a daemon for that graph would have."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield DriverProcess(graph, process.pid, started_at(process.pid))
        process.kill()


def test_a_wake_leaves_the_daemons_entry_in_the_pane_and_costs_no_call_more(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set by compare-and-set inside tmux, in the very call that pastes."""
    drives(scene)
    agent = scene.resident()
    pastes: list[Sequence[Sequence[str]]] = []
    ask = TmuxServer.ask

    async def counted(self: TmuxServer, *commands: Sequence[str], stdin: str = "") -> CallResult:
        if any("paste-buffer" in word for command in commands for word in command):
            pastes.append(commands)
        return await ask(self, *commands, stdin=stdin)

    monkeypatch.setattr(TmuxServer, "ask", counted)
    for _ in range(2):
        assert isinstance(scene.deliver(agent.id, scene.wake()), Delivered)

    assert driver(agent) == str(DriverProcess.here(GRAPH))
    assert [sum("set-option" in command[-1] for command in commands) for commands in pastes] == [1, 0]


def test_a_pane_that_a_living_daemon_drives_for_the_same_graph_gets_no_byte(scene: Scene) -> None:
    """Whoever does not own the pane can neither paste nor press, though every lock was lost."""
    drives(scene)
    agent = scene.resident()
    with a_living_daemon(GRAPH) as other:
        set_driver(agent, str(other))
        outcome = scene.deliver(agent.id, scene.wake())
        assert isinstance(outcome, Refused)
        assert (outcome.reason, f"pid {other.pid}" in outcome.detail) == (HoldReason.OTHER_DRIVER, True)
        assert agent.is_untouched()
        assert driver(agent) == str(other)

    assert isinstance(scene.deliver(agent.id, scene.wake()), Delivered)
    assert driver(agent) == str(DriverProcess.here(GRAPH))


def test_a_dead_daemons_entry_gives_way_also_where_its_text_stands_staged(scene: Scene) -> None:
    """After SIGKILL the next run submits what the last one pasted; a pid that somebody else has is dead."""
    drives(scene)
    agent = scene.resident()
    wake = scene.wake()

    def dies() -> None:
        raise KeyboardInterrupt

    scene.journal.on[Step.INTENT_SUBMIT] = dies
    with pytest.raises(KeyboardInterrupt):
        scene.deliver(agent.id, wake)
    scene.journal.on.clear()
    set_driver(agent, f"{GRAPH}/{os.getppid()}/1 {DEAD}")

    assert isinstance(scene.go_on(agent.id, wake, Progress.STAGED), Delivered)
    assert driver(agent) == str(DriverProcess.here(GRAPH))
    assert agent.fake.submits() == [wake.text]


def test_daemons_for_two_graphs_take_turns_in_one_pane(scene: Scene) -> None:
    """Two graphs whose identities share a pane are legitimate; each keeps its entry."""
    agent = scene.resident()
    with a_living_daemon(OTHER_GRAPH) as other:
        set_driver(agent, str(other))
        drives(scene)
        assert isinstance(scene.deliver(agent.id, scene.wake()), Delivered)
        assert driver(agent) == f"{other} {DriverProcess.here(GRAPH)}"


@pytest.mark.parametrize("step", [Step.INTENT_STAGE, Step.INTENT_SUBMIT])
def test_whoever_lost_the_pane_after_the_look_neither_pastes_nor_presses(scene: Scene, step: Step) -> None:
    """The guard inside tmux compares the option in the step that pastes, and in the one that presses."""
    drives(scene)
    agent = scene.resident()
    with a_living_daemon(GRAPH) as other:
        scene.journal.on[step] = lambda: set_driver(agent, str(other))
        outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert agent.enters() == 0
    assert agent.is_untouched() == (step is Step.INTENT_STAGE)
    assert driver(agent) == str(other)


@pytest.mark.parametrize("text", ["mine", "#{pid}/1/1", f"{DEAD},}}", f"{DEAD}  {DEAD}", f'{DEAD}" ; kill-server'])
def test_an_option_that_no_daemon_wrote_is_neither_believed_nor_overwritten(scene: Scene, text: str) -> None:
    """No text that others choose goes into a condition or a command."""
    drives(scene)
    agent = scene.resident()
    set_driver(agent, text)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.OTHER_DRIVER
    held = Hold(outcome.reason, outcome.detail, "agents:1.2", cause=outcome.cause)
    assert "`tmux set-option -p -u -t agents:1.2 @wake_bridge_driver`" in held.remedy(Identity("@one"))
    assert agent.is_untouched()
    assert driver(agent) == text


def test_unbinding_and_leaving_take_the_entry_off_the_pane(scene: Scene) -> None:
    """`unbind` takes it off the identity's pane, `uninstall` off every one."""
    drives(scene)
    agent, other = scene.resident("one"), scene.resident("two")
    for one in (agent, other):
        set_driver(one, DEAD)
    asyncio.run(scene.adapter.mark_identity(scene.place(agent.id), Identity("@one")))

    asyncio.run(scene.adapter.unmark_identity(Identity("@one"), None))
    assert (driver(agent), driver(other)) == ("", DEAD)

    told = asyncio.run(scene.adapter.take_marks_back([]))
    assert told == [scene.place(other.id).label]
    assert driver(other) == ""
    assert asyncio.run(scene.adapter.take_marks_back([])) == []
