"""How soon the daemon is ready, and the command line answers."""

from __future__ import annotations

import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks.figures import MEGABYTE, Figures
from tests.benchmarks.office import Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

STARTS: Final = 15
PANES: Final = 5
PROGRAM: Final = str(Path(sys.executable).with_name("wake-bridge"))
"""The installed command."""

FLOOR: Final = "`python -c pass`"
COMMANDS: Final = {
    "`python -I -S -c pass`": (sys.executable, "-I", "-S", "-c", "pass"),
    FLOOR: (sys.executable, "-c", "pass"),
    **{
        f"`wake-bridge {words}`": (PROGRAM, *words.split())
        for words in (
            "--version",
            "--help",
            "deliveries",
            "ack 01",
            "inbox @nobody",
            "inbox @agent0",
            "send @agent1 --from @nobody --subject x",
            "wake @agent1 x --from @nobody",
            "status",
            "agent list",
            "list",
            "activity",
            "next --json",
            "notify @agent1 --source build x",
            "why @agent0",
            "presence @agent0",
            "routes @agent0",
            "panes",
            "pause @agent1",
            "resume @agent1",
            "subscribe @agent1 --trigger SENT_TO_ME",
            "channels list",
            "reminders list",
            "sources list",
            "hosts list",
            "push-capable",
            "logs",
            "config check",
            "doctor",
        )
    },
}
"""In one round each is run once, so that what else the machine does falls on all alike."""

BOUNDS: Final = {"`wake-bridge --version`": 60.0}
MOST: Final = 120.0
"""Milliseconds of every other command."""

LOOKS_ITSELF: Final = {"`wake-bridge doctor`", "`wake-bridge config check`"}
"""What is asked to look for itself, whatever a daemon has seen or checked."""


def test_start_of_the_daemon(office: Office, figures: Figures) -> None:
    """Ready ≤ 1 s, with 5 panes to be bound."""
    office.sandbox.configure()
    office.agents(PANES)
    office.daemon()[0].stop()
    starts = [_start(office) for _ in range(STARTS)]
    figures.add("start → ready", [ready for ready, _, _ in starts], "s", at_most=1.0)
    figures.add("start → at the tip", [tip for _, tip, _ in starts], "s")
    figures.add("RSS at the tip", [resident for _, _, resident in starts], "MB")


def test_commands(office: Office, figures: Figures) -> None:
    """The cheapest command ≤ 60 ms as a whole process, every other one ≤ 120 ms where a daemon runs; all of them beside an interpreter that does nothing."""
    office.sandbox.configure()
    office.agents(2)
    with office.core() as core:
        core.identity("@nobody")
        core.send("@nobody", "@agent0", "Review request")
    office.daemon()
    office.sandbox.waits_for(
        lambda: sum(one["looks"] == 2 for one in office.sandbox.lines("panes")) == 2, 60, "two looks at each"
    )
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(STARTS):
        for name, argv in COMMANDS.items():
            took[name].append(_takes(office, argv))
    floors = [used for _, used in took[FLOOR]]
    for name, times in took.items():
        is_held = name.startswith("`wake-bridge") and name not in LOOKS_ITSELF
        bound = BOUNDS.get(name, MOST) if is_held else None
        figures.add(name, [wall for wall, _ in times], "ms", at_most=bound)
        figures.add(f"{name}: CPU", [used for _, used in times], "ms")
        if name != FLOOR:
            ratios = [used / floor for (_, used), floor in zip(times, floors, strict=True)]
            figures.add(f"{name}: CPU, of a {FLOOR}", [statistics.median(ratios)], "×")


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


def _takes(office: Office, argv: Sequence[str]) -> tuple[float, float]:
    """Milliseconds of one command, and how many of them the processor worked for it."""
    before, began = _used_by_children(), time.monotonic()
    subprocess.run(argv, env=office.sandbox.environment, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return (time.monotonic() - began) * 1000, (_used_by_children() - before) * 1000


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
