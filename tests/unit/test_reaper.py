"""A run of tests that is killed leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from wake_bridge.testing import until

_STARTS = """
import subprocess, sys, time, psutil
from wake_bridge.demo.sandbox import end_process_with_us
from wake_bridge.demo.tmux_server import PrivateTmux
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
end_process_with_us(sleeper.pid)
server = PrivateTmux()
server.new_pane(["script", "-q", "-c", "sleep 600", "/dev/null"])
while not (behind := psutil.Process(server.server_pid).children(recursive=True)[1:]):
    time.sleep(0.05)
print(sleeper.pid, behind[-1].pid, server.server_pid, server.socket_path, flush=True)
time.sleep(600)
"""


def test_what_a_killed_run_had_started_ends(tmux_program: str) -> None:  # noqa: ARG001 - asked for what it demands
    """Processes that tests start end by id, also after a time-out: no tmux server, no daemon is left."""
    run = subprocess.Popen([sys.executable, "-c", _STARTS], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    *pids, socket = run.stdout.readline().split()
    started = [psutil.Process(int(pid)) for pid in pids]
    assert Path(socket).exists()

    run.kill()
    run.wait()
    run.stdout.close()

    until(lambda: not any(_lives(one) for one in started), "the end of what was started")


def _lives(process: psutil.Process) -> bool:
    """Whether it runs; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
