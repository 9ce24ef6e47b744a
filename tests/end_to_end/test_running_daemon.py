"""What must not disturb a daemon at work: a second one, a rehearsal beside it, a reload, good or bad.

One daemon serves all tests of this page; each has an agent of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK, DaemonProcess
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import Playground

AGENTS = ("rival", "twin", "rehearsal", "broken", "old")


@dataclass
class Running:
    """The daemon at work, and whom it serves."""

    world: Playground
    daemon: DaemonProcess

    def wakes(self, name: str) -> None:
        """It still does its work: an agent that was told nothing yet is woken, once."""
        self.world.sandbox.send(f"@{name}", f"still there, {name}?")
        agent = self.world.agents[name]
        agent.fake.waits_for("submit")
        self.world.sandbox.waits_for_delivery(target=f"@{name}", outcome="submitted")
        assert [f'"still there, {name}?"' in text for text in agent.fake.submits()] == [True]

    @contextmanager
    def configured(self, *texts: str) -> Iterator[None]:
        """Reload with one text after the other; afterwards the configuration is what it was, in force again."""
        file = self.world.sandbox.config_file
        whole = file.read_text()
        try:
            for text in texts:
                answers = self._answers()
                file.write_text(text)
                self.daemon.reload()
                self._waits_for_answer(answers + 1)
            yield
        finally:
            file.write_text(whole)
            reloads = len(self.daemon.entries("config_reloaded"))
            self.daemon.reload()
            self.daemon.waits_for_log("config_reloaded", reloads + 1)

    def _waits_for_answer(self, count: int) -> None:
        self.world.sandbox.waits_for(lambda: self._answers() >= count, what="an answer to the reload")

    def _answers(self) -> int:
        return len(self.daemon.entries("config_refused")) + len(self.daemon.entries("config_needs_restart"))


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Running]:
    """A daemon, and agents that sit idle long enough to be woken at once."""
    with Playground(tmp_path_factory.mktemp("running"), program) as world:
        world.sandbox.run("init")
        world.together(world.enlisted, AGENTS)
        world.agent("new")
        yield Running(world, world.sandbox.daemon())


def test_a_second_daemon_exits_5_naming_the_first_which_goes_on(running: Running) -> None:
    """One instance by an OS lock held for life; a second says who holds it, and kills nobody."""
    second = running.world.sandbox.run("run", expect=5)

    assert f"error: another wake-bridge serves this state directory: pid {running.daemon.pid} on " in second.stderr
    assert "hint: " in second.stderr
    assert str(running.world.sandbox.state_dir) in second.stderr
    running.world.sandbox.run("run", "--once", expect=5)
    running.wakes("rival")


def test_a_second_daemon_with_a_state_directory_of_its_own_does_not_wake_for_the_same_graph(
    running: Running, tmp_path: Path
) -> None:
    """One driver: what one ledger has told, another does not know; whoever comes second would tell it again."""
    own = {"WAKE_BRIDGE_DAEMON_STATE_DIR": str(tmp_path / "of its own")}
    second = running.world.sandbox.run("run", expect=5, environment=own)

    assert f"another wake-bridge serves this graph: pid {running.daemon.pid} on " in second.stderr
    assert f"with the state directory {running.world.sandbox.state_dir}: " in second.stderr
    assert str(running.world.sandbox.graph) in second.stderr
    running.world.sandbox.run("run", "--once", "--dry-run", environment=own)
    running.wakes("twin")


def test_a_rehearsal_beside_the_daemon_disturbs_nothing(running: Running) -> None:
    """One instance serves the state directory; a dry run is none, and takes neither its lock nor its socket."""
    sandbox = running.world.sandbox
    rehearsal = sandbox.daemon("--dry-run")
    status = sandbox.ask("status")
    assert rehearsal.stop() == 0

    assert (status["running"], status["pid"]) == ("yes", running.daemon.pid)
    assert (sandbox.state_dir / "daemon.sock").exists()
    assert sandbox.ask("status")["since"] == status["since"]
    assert sandbox.ask("presence", "@rehearsal")["state"] == "idle"
    running.wakes("rehearsal")


def test_a_reload_takes_over_targets_and_log_level_and_says_what_needs_a_restart(running: Running) -> None:
    """Graph, daemon and sockets need a restart, which is said; all else is in force from the next decision."""
    old, new = running.world.agents["old"], running.world.agents["new"]
    whole = running.world.sandbox.config_file.read_text()
    changed = f'daemon.log_level = "warning"\ngraph.poll_interval = 2.0\ntargets."@old".pane = "{new.session}"\n{whole}'
    with running.configured(changed):
        said = running.daemon.entries("config_needs_restart")[-1]
        lines = len(running.daemon.entries())
        running.world.sandbox.send("@old", "to your new home")
        new.fake.waits_for("submit")

        assert said["keys"] == ["graph.poll_interval"]
        assert [entry["event"] for entry in running.daemon.entries()[lines:] if entry["level"] == "info"] == []
        assert old.fake.bytes_received() == b""


def test_a_broken_file_keeps_the_old_configuration_and_stops_nothing(running: Running) -> None:
    """A bad file keeps the old one; what is wrong is logged, all of it."""
    reloads = len(running.daemon.entries("config_reloaded"))
    with running.configured(f'{QUICK}coalesce.window = "soon"\nlimits.strom = 3\n', "this is = no [toml"):
        two, one = (entry["problems"] for entry in running.daemon.entries("config_refused")[-2:])
        # every command refuses such a file; the graph has other writers
        with MemoryCore(running.world.sandbox.graph) as core:
            core.send("@rival", "@broken", "does it still work?")
        (submit,) = running.world.agents["broken"].fake.waits_for("submit")

        assert "does it still work?" in submit["text"]
        assert len(two) == 2
        assert any("coalesce.window" in problem for problem in two)
        assert any("limits.strom" in problem and "storm" in problem for problem in two)
        assert len(one) == 1
        assert len(running.daemon.entries("config_reloaded")) == reloads
    assert running.daemon.process.poll() is None
