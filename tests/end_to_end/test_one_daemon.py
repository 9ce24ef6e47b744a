"""One daemon serves a graph, however many are started, from whatever environment; nothing is told twice."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from wake_bridge.control.graph_lock import daemon_of
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.testing.playground import AgentPane, Playground

ROUNDS = 3
WITHOUT_LOCK = """
import sys
from wake_bridge.control.graph_lock import GraphLock
GraphLock.acquire = lambda self: None
GraphLock.rival = lambda self: ""
from wake_bridge.cli.start import main
sys.argv = ["wake-bridge", *sys.argv[1:]]
sys.exit(main())
"""
"""The program without its lock on the graph: what is left is the fence inside tmux."""


class Contest:
    """One graph, one agent, and daemons that would serve it, each from an environment and a state directory of its own."""

    def __init__(self, world: Playground, directory: Path) -> None:
        self.world = world
        self._directory = directory
        world.sandbox.run("init")
        self.agent: AgentPane = world.enlisted("neo")
        self.subjects: list[str] = []

    def environments(self) -> list[dict[str, str]]:
        """A person's shell, another HOME without XDG_RUNTIME_DIR, and what a service inherits: nothing but PATH."""
        box = self.world.sandbox
        own: dict[str, str] = {**box.environment, "XDG_RUNTIME_DIR": str(self._directory)}
        moved = {**box.environment, "HOME": str(self._directory / "home"), "TMPDIR": str(self._directory)}
        moved.pop("XDG_RUNTIME_DIR", None)
        clean = {name: value for name, value in box.environment.items() if name in {"PATH", "TMUX_TMPDIR", "LANG"}}
        clean |= {"HOME": "/"}
        named = {"WAKE_BRIDGE_CONFIG": str(box.config_file), "WAKE_BRIDGE_GRAPH_PATH": str(box.graph)}
        (self._directory / "home").mkdir(exist_ok=True)
        states = [str(self._directory / f"state-{at}") for at in range(3)]
        return [
            {**one, **named, "WAKE_BRIDGE_DAEMON_STATE_DIR": state}
            for one, state in zip((own, moved, clean), states, strict=True)
        ]

    def starting(self, environment: Mapping[str, str], *command: str) -> DaemonProcess:
        """One daemon under way: the program as it is installed, or this command."""
        box = self.world.sandbox
        daemon = box.daemon_processes([*(command or box.command), "run"], environment, box)
        box.daemons.append(daemon)
        return daemon

    def send(self, subject: str) -> None:
        """Mail for the agent."""
        self.subjects.append(subject)
        self.world.sandbox.send("@neo", subject)

    def arrived(self, subject: str) -> int:
        """How often the agent was told of it."""
        return sum(f'"{subject}"' in text for text in self.agent.fake.submits())

    def waits_for(self, subject: str) -> None:
        """Until the agent was told of it."""
        self.world.sandbox.waits_for(lambda: self.arrived(subject), what=f"{subject!r} to arrive")


@pytest.fixture
def contest(playground: Playground, tmp_path: Path) -> Contest:
    """Nobody serves the graph yet."""
    directory = tmp_path / "contest"
    directory.mkdir()
    return Contest(playground, directory)


def test_of_daemons_that_start_in_one_instant_one_serves_the_graph(contest: Contest) -> None:
    """Other HOME, one without XDG_RUNTIME_DIR, one as a service; exit 5 names the one that serves it."""
    for turn in range(ROUNDS):
        # new interpreters, and then some whose imports are behind them: they meet at the lock itself
        with pytest.MonkeyPatch.context() as patch:
            if turn == 0:
                patch.setattr(Sandbox, "daemon_processes", staticmethod(DaemonProcess))
            racers = [contest.starting(one) for one in contest.environments()]
        left = contest.world.sandbox.waits_for(partial(only_one_left, racers), what="one daemon")
        for loser in racers:
            if loser is not left:
                assert loser.process.returncode == 5, loser.log()
                assert f"another wake-bridge serves this graph: pid {left.pid} " in loser.log()
        serving = daemon_of(contest.world.sandbox.graph)
        assert serving is not None
        assert serving.pid == left.pid
        contest.send(f"round {turn}")
        contest.waits_for(f"round {turn}")
        # whoever serves it next has another ledger, and would tell what is still unread; nobody tidies up before it
        contest.world.sandbox.run("inbox", "@neo", "--consume")
        left.kill()
    assert [contest.arrived(one) for one in contest.subjects] == [1] * ROUNDS
    assert daemon_of(contest.world.sandbox.graph) is None


def test_without_the_lock_the_fence_inside_tmux_alone_keeps_every_wake_single(contest: Contest) -> None:
    """Whoever does not own the pane can neither paste nor press; it holds, and says whose the pane is."""
    daemons = [contest.starting(one, sys.executable, "-c", WITHOUT_LOCK) for one in contest.environments()]
    for one in daemons:
        one.waits_until_tailing()
    for turn in range(ROUNDS):
        contest.send(f"round {turn}")
        contest.waits_for(f"round {turn}")
    box = contest.world.sandbox

    def others_hold() -> bool:
        held = [one for one in daemons if any(e.get("reason") == "other_driver" for e in refusals_of(one))]
        return len(held) == len(daemons) - 1

    box.waits_for(others_hold, what="the others to hold")
    assert [one.process.poll() for one in daemons] == [None] * len(daemons)
    assert [contest.arrived(one) for one in contest.subjects] == [1] * ROUNDS
    assert contest.agent.fake.bytes_received().count(b"\r") == ROUNDS


def test_a_graph_that_is_replaced_under_its_daemon_stays_its_own(contest: Contest) -> None:
    """Locked again when the inode changes; a second daemon on the new file is refused as before."""
    own, moved, _ = contest.environments()
    first = contest.starting(own)
    first.waits_until_tailing()
    box = contest.world.sandbox
    copy = box.graph.with_name("copy.sqlite")
    with closing(sqlite3.connect(box.graph)) as graph:
        graph.execute("VACUUM INTO ?", [str(copy)])
    copy.replace(box.graph)

    box.waits_for(lambda: serves(first, box.graph), what="the new file to be locked")
    second = contest.starting(moved)
    assert second.process.wait(30) == 5
    assert f"pid {first.pid} " in second.log()
    contest.send("in the new file")
    contest.waits_for("in the new file")
    assert contest.arrived("in the new file") == 1


def test_uninstall_takes_the_daemons_mark_off_the_panes(contest: Contest) -> None:
    """A leftover of a daemon that was killed is taken back as all else."""
    box = contest.world.sandbox
    daemon = box.daemon()
    contest.send("before the end")
    contest.waits_for("before the end")
    box.waits_for_delivery(target="@neo", outcome="submitted")
    daemon.kill()
    asked = ("display-message", "-p", "-t", contest.agent.id, "#{@wake_bridge_driver}")
    assert f"/{daemon.pid}/" in contest.world.tmux.run(*asked)

    said = box.run("uninstall").stdout

    assert "removed the daemon's mark from neo" in said
    assert contest.world.tmux.run(*asked).strip() == ""


def only_one_left(racers: list[DaemonProcess]) -> DaemonProcess | None:
    """The daemon that tails, once all others have ended."""
    left = [one for one in racers if one.process.poll() is None]
    return left[0] if len(left) == 1 and '"caught_up"' in left[0].log() else None


def refusals_of(daemon: DaemonProcess) -> list[dict[str, object]]:
    """Attempts that were refused before a key was sent."""
    return daemon.entries("attempt_refused")


def serves(daemon: DaemonProcess, graph: Path) -> bool:
    """Whether it holds the lock of the file that lies there now."""
    found = daemon_of(graph)
    return found is not None and found.pid == daemon.pid
