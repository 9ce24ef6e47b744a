"""How soon the daemon is ready, and the command line answers (issue 2, "Speed and size")."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks.figures import MEGABYTE, Figures
from tests.benchmarks.office import Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

STARTS: Final = 15
PANES: Final = 5
PROGRAM: Final = Path(sys.executable).with_name("wake-bridge")
"""The installed command."""


def test_ready_and_commands(office: Office, figures: Figures) -> None:
    """Ready ≤ 1 s, with 5 panes to be bound; `wake-bridge --version` ≤ 250 ms."""
    office.sandbox.configure()
    office.agents(PANES)
    office.daemon()[0].stop()
    starts = [_start(office) for _ in range(STARTS)]
    figures.add("start → ready", [ready for ready, _, _ in starts], "s", at_most=1.0)
    figures.add("start → at the tip", [tip for _, tip, _ in starts], "s")
    figures.add("RSS at the tip", [resident for _, _, resident in starts], "MB")
    for arguments, bound in ((("--version",), 250), (("--help",), None), (("status",), None), (("deliveries",), None)):
        took = [_takes(office, *arguments) for _ in range(STARTS)]
        name = f"`wake-bridge {' '.join(arguments)}`"
        figures.add(name, [wall for wall, _ in took], "ms", at_most=bound)
        figures.add(f"{name}: CPU", [used for _, used in took], "ms")


def _start(office: Office) -> tuple[float, float, float]:
    """Seconds until the service manager would be told that it is ready, and until the tip; megabytes then."""
    path = office.directory / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        started = time.monotonic()
        environment = {**office.sandbox.environment, "NOTIFY_SOCKET": str(path)}
        with (office.directory / "run.log").open("w+b") as log:
            daemon = subprocess.Popen([PROGRAM, "run"], env=environment, stdout=log, stdin=subprocess.DEVNULL)
            while b"READY=1" not in manager.recv(4096):
                pass
            ready = time.monotonic() - started
            while b'"caught_up"' not in Path(log.name).read_bytes():
                time.sleep(0.005)
            at_tip = time.monotonic() - started
            resident = psutil.Process(daemon.pid).memory_info().rss / MEGABYTE
            daemon.terminate()
            daemon.wait(20)
    path.unlink()
    return ready, at_tip, resident


def _takes(office: Office, *arguments: str) -> tuple[float, float]:
    """Milliseconds of one command, and how many of them the processor worked for it."""
    before, began = _used_by_children(), time.monotonic()
    subprocess.run(
        [PROGRAM, *arguments], env=office.sandbox.environment, capture_output=True, check=True, stdin=subprocess.DEVNULL
    )
    return (time.monotonic() - began) * 1000, (_used_by_children() - before) * 1000


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
