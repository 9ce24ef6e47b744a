"""The daemon as a service manager starts it: the unit's command line, and nothing else in its environment."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK, DaemonProcess
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.service_manager import NotifyListener

WATCHDOG = 1.0
"""Seconds."""


@pytest.fixture
def world(
    tmp_path: Path, program: tuple[str, ...], tmux_program: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Playground]:
    """A playground whose tmux sockets lie where only `TMUX_TMPDIR` says."""
    if sys.platform != "linux":
        pytest.skip("the command prints a systemd unit on Linux alone")
    directory = tempfile.mkdtemp(prefix="wbt-")
    monkeypatch.setenv("TMUX_TMPDIR", directory)
    assert tmux_program
    with Playground(tmp_path, program) as playground:
        playground.sandbox.run("init")
        yield playground
    shutil.rmtree(directory)


def started_by_its_unit(world: Playground, given: Mapping[str, str] = {}) -> DaemonProcess:
    """ExecStart under `env -i`, with exactly the unit's Environment and what the manager adds (`given`)."""
    unit = str(world.sandbox.ask("service", "install", "--print")["text"])
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    environment = [shlex.split(line) for line in re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)]
    assignments = [word for words in environment for word in words]
    added = [f"{name}={value}" for name, value in given.items()]
    argv = ["/usr/bin/env", "-i", *assignments, *added, *shlex.split(command)]
    daemon = DaemonProcess(argv, {}, world.sandbox)
    world.sandbox.daemons.append(daemon)
    return daemon


def test_the_units_command_line_alone_finds_tmux_and_its_socket_and_wakes_a_pane(world: Playground) -> None:
    """The unit's ExecStart under `env -i` finds tmux and socket, wakes a pane."""
    agent = world.enlisted("a")
    with NotifyListener() as manager:
        daemon = started_by_its_unit(world, manager.environment)
        manager.waits_for("READY=1")
        world.sandbox.send("@a", "good morning")

        assert len(agent.fake.waits_for("submit")) == 1
        assert world.sandbox.ask("status")["pid"] == daemon.pid
        # under a service the log goes to a file as well, which `logs` shows
        assert "daemon_started" in world.sandbox.run("logs").stdout


def test_the_manager_is_told_ready_status_signs_of_life_at_half_the_interval_and_stopping(world: Playground) -> None:
    """READY, STATUS, WATCHDOG at half the interval while the tail progresses, STOPPING."""
    with NotifyListener(watchdog=WATCHDOG) as manager:
        daemon = started_by_its_unit(world, manager.environment)
        manager.waits_for("READY=1")
        manager.waits_for("STATUS=tailing")
        manager.waits_for(f"MAINPID={daemon.pid}")
        for count in range(1, 9):
            manager.waits_for("WATCHDOG=1", count)
        beats = manager.said("WATCHDOG=1")
        gaps = [later - earlier for earlier, later in pairwise(beats)]

        assert sum(gaps) / len(gaps) == pytest.approx(WATCHDOG / 2, rel=0.1)
        assert max(gaps) < WATCHDOG
        assert manager.said("STOPPING=1") == []
        assert daemon.stop() == 0
        manager.waits_for("STOPPING=1")


def test_an_end_that_no_other_start_would_mend_is_a_zero_where_launchd_asks_for_it(world: Playground) -> None:
    """Launchd starts anew after any exit but 0; systemd is told of 3 and 5 by their numbers."""
    first = world.sandbox.daemon()
    second = world.sandbox.run("run", expect=5)
    third = world.sandbox.run("run", "--final-exit-zero")
    assert third.stderr == second.stderr
    assert "another wake-bridge serves this state directory" in third.stderr
    assert first.stop() == 0

    world.sandbox.configure(f"{QUICK}\ngraph.pth = 'x'\n")
    wrong = world.sandbox.run("run", expect=3)
    assert world.sandbox.run("run", "--final-exit-zero").stderr == wrong.stderr
    assert "graph.pth" in wrong.stderr
    world.sandbox.configure()
    world.sandbox.graph.unlink()
    # a graph that is away may come back
    world.sandbox.run("run", "--final-exit-zero", expect=4)
