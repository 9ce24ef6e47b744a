"""Ends what a test run started and did not live to end: a run that is killed leaves no tmux server and no daemon.

A process of its own reads from a pipe what is to be ended; when the pipe closes, its writer has ended, however.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil


def end_process_with_us(pid: int) -> None:
    """Have a process killed once this one has ended, if it still runs then."""
    with suppress(psutil.NoSuchProcess):
        _tell(f"process {pid} {psutil.Process(pid).create_time()}")


def end_tmux_with_us(socket: Path) -> None:
    """Have the tmux server of that socket ended once this process has ended, if it still runs then."""
    _tell(f"tmux {socket}")


def _tell(line: str) -> None:
    pipe = _reaper().stdin
    assert pipe is not None  # noqa: S101
    pipe.write(f"{line}\n".encode())
    pipe.flush()


@functools.cache
def _reaper() -> subprocess.Popen[bytes]:
    # kept as a whole: Python complains of a process that nobody knows any more while it runs.
    # a session of its own: what interrupts the run must not interrupt who cleans up after it
    command = [sys.executable, "-m", "wake_bridge.testing.reaper"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _reap() -> None:
    for line in sys.stdin.read().splitlines():
        kind, _, what = line.partition(" ")
        if kind == "tmux" and Path(what).exists():
            subprocess.run(["tmux", "-S", what, "kill-server"], capture_output=True, check=False)  # noqa: S607
        elif kind == "process":
            pid, started = what.split()
            with suppress(psutil.Error):
                found = psutil.Process(int(pid))
                # a number that was given to another process since is not ours
                if found.create_time() == float(started):
                    found.kill()


if __name__ == "__main__":
    _reap()
