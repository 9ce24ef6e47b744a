"""What is born in the nursery is a process like any other, and nothing of it outlives whoever asked for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil

from tests.nursery import NurserySandbox
from wake_bridge.testing import HUNG


def test_a_daemon_from_the_nursery_starts_stops_and_dies_as_any_other(tmp_path: Path) -> None:
    """A process of its own, with its own exit codes and signals."""
    with NurserySandbox(tmp_path) as sandbox:
        sandbox.configure("[adapters.tmux]\nenabled = false\n")
        without_graph = sandbox.daemon_under_way()
        assert without_graph.process.wait(60) == 4, without_graph.log()
        assert without_graph.log().startswith("error: there is no graph")

        sandbox.run("init")
        stopped = sandbox.daemon()
        assert stopped.pid not in {0, without_graph.pid}
        assert stopped.stop(30) == 0
        killed = sandbox.daemon()
        killed.kill()
        assert killed.process.returncode == -signal.SIGKILL


_OPENS: Final = """
import sys, time
from pathlib import Path
from typing import Final
from tests.nursery import NurserySandbox
sandbox = NurserySandbox(Path(sys.argv[1]))
sandbox.configure("[adapters.tmux]\\nenabled = false\\n")
sandbox.run("init")
print(sandbox.daemon().pid, flush=True)
time.sleep(600)
"""


def test_the_nursery_and_all_born_there_end_with_whoever_opened_it_even_by_sigkill(tmp_path: Path) -> None:
    """A test runner that is killed leaves nothing behind."""
    command = [sys.executable, "-c", _OPENS, str(tmp_path)]
    opener = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    assert opener.stdout is not None
    born = psutil.Process(int(opener.stdout.readline()))
    started = [*psutil.Process(opener.pid).children(recursive=True)]
    assert born in started
    opener.kill()
    opener.wait()
    opener.stdout.close()

    deadline = time.monotonic() + HUNG
    while left := [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
