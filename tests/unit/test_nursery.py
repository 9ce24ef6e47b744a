"""What is born in the nursery is a process like any other, and nothing of it outlives whoever asked for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil

from tests.nursery import BornDaemon, NurserySandbox
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.testing import HUNG


class ExecutedSandbox(Sandbox):
    """One whose daemons are new interpreters."""

    daemon_processes = staticmethod(DaemonProcess)


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


def test_what_the_system_says_of_a_born_daemon_is_its_own(tmp_path: Path) -> None:
    """A daemon from the nursery has the environment, umask, signals, session, files and threads that an executed one has."""
    born, executed = (_told_of(kind, tmp_path / kind.__name__) for kind in (NurserySandbox, ExecutedSandbox))

    assert born == executed


def _told_of(kind: type[Sandbox], directory: Path) -> dict[str, object]:
    """What the system says of a daemon, with the names of its own places taken out."""
    with kind(directory) as sandbox:
        sandbox.configure("[adapters.tmux]\nenabled = false\n")
        sandbox.run("init")
        before = os.umask(0o027)
        try:
            daemon = sandbox.daemon(environment={"ONLY": "here"})
        finally:
            os.umask(before)
        assert isinstance(daemon, BornDaemon) == (kind is NurserySandbox)
        process = psutil.Process(daemon.pid)
        status = Path(f"/proc/{daemon.pid}/status")
        return {
            "environment": {name: value.replace(str(directory), "~") for name, value in process.environ().items()},
            "status": _KEPT.findall(status.read_text() if status.exists() else ""),
            "session": os.getsid(daemon.pid),
            "group": os.getpgid(daemon.pid),
            "directory": Path(process.cwd()).relative_to(directory),
            "files": sorted(
                re.sub(r"[0-9a-f-]{6,}", "N", one.path.removeprefix(str(directory))) for one in process.open_files()
            ),
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
        }


_KEPT: Final = re.compile(r"^((?:Umask|SigBlk|SigIgn|SigCgt):.*)$", re.MULTILINE)

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
