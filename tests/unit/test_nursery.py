"""What is born in the nursery is a process like any other, and nothing of it outlives whoever asked for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.nursery import NurserySandbox
from tests.torture.report import DOCS


def test_a_daemon_from_the_nursery_starts_stops_and_dies_as_any_other(tmp_path: Path) -> None:
    """Issue "Prove the promise" 1: a process of its own, with its own exit codes and signals."""
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


def test_the_nursery_ends_with_whoever_opened_it_even_by_sigkill() -> None:
    """A test runner that is killed leaves nothing behind."""
    code = "from tests.nursery import nursery; nursery(); print('open', flush=True); import time; time.sleep(600)"
    opener = subprocess.Popen([sys.executable, "-c", code], cwd=DOCS.parent, stdout=subprocess.PIPE, text=True)
    assert opener.stdout is not None
    assert opener.stdout.readline() == "open\n"
    (child,) = psutil.Process(opener.pid).children()
    opener.kill()
    opener.wait()
    opener.stdout.close()

    deadline = time.monotonic() + 20
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            pytest.fail("the nursery outlived whoever opened it")
        time.sleep(0.05)
