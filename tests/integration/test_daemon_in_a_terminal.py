"""A daemon in a terminal lives as long as the terminal, and SIGHUP from a person reads the configuration."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from wake_bridge.control.instance_lock import holder
from wake_bridge.testing import HUNG
from wake_bridge.testing.playground import Playground


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Playground]:
    with Playground(tmp_path, program) as made:
        made.sandbox.run("init")
        yield made


def started_in_a_pane(world: Playground, start: str = "exec {}") -> psutil.Process:
    """`wake-bridge run` as the only program of a session called wake-bridge; its process, once it tails."""
    box = world.sandbox
    log = box.home / "wake-bridge.log"
    box.configure(f'daemon.log_file = "{log}"')
    words = ["env", "-i", *(f"{name}={value}" for name, value in box.environment.items()), *box.command, "run"]
    world.tmux.run("new-session", "-d", "-s", "wake-bridge", start.format(shlex.join(words)))
    box.waits_for(lambda: log.exists() and "caught_up" in log.read_text(encoding="utf-8"), what="the daemon")
    running = holder(box.state_dir)
    assert running is not None
    return psutil.Process(running.pid)


def events(world: Playground) -> str:
    return (world.sandbox.home / "wake-bridge.log").read_text(encoding="utf-8")


def test_a_daemon_ends_cleanly_with_the_terminal_it_was_started_in(world: Playground) -> None:
    """No daemon is left over that no terminal can stop with Ctrl-C."""
    daemon = started_in_a_pane(world)

    world.tmux.run("kill-session", "-t", "=wake-bridge")

    psutil.wait_procs([daemon], timeout=HUNG)
    assert not daemon.is_running()
    assert "daemon_stopped" in events(world)


def test_a_signal_in_a_terminal_that_is_there_reads_the_configuration_again(world: Playground) -> None:
    """SIGHUP = reload."""
    daemon = started_in_a_pane(world)

    os.kill(daemon.pid, signal.SIGHUP)

    world.sandbox.waits_for(lambda: "config_reloaded" in events(world), what="the reload")
    assert daemon.is_running()


@pytest.mark.skipif(sys.platform != "linux", reason="nohup of other systems may take the terminal's place differently")
def test_with_nohup_it_outlives_its_terminal(world: Playground) -> None:
    """Who says nohup means it."""
    daemon = started_in_a_pane(world, "exec 9<>/dev/tty; exec nohup {} >/dev/null 2>&1")
    assert daemon.terminal()

    world.tmux.run("kill-session", "-t", "=wake-bridge")

    world.sandbox.waits_for(
        lambda: daemon.terminal() is None and "config_reloaded" in events(world), what="the hang-up"
    )
    try:
        assert daemon.is_running()
        assert "daemon_stopping" not in events(world)
    finally:
        daemon.terminate()
        psutil.wait_procs([daemon], timeout=HUNG)
