"""What the daemon costs while nothing happens (issue 2, "Speed and size")."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks.figures import MEGABYTE, Figures
from tests.benchmarks.office import Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SETTLES: Final = 12.0
"""Seconds until the start and the agents' first screens are history."""

STRETCH: Final = 30.0
"""Seconds of one trial: the longest period of anything the daemon does by the clock while idle."""

TRIALS: Final = 3


@dataclass(frozen=True, slots=True)
class Account:
    """What a process has used up to one moment."""

    at: float
    own: float
    children: float
    switches: int

    @classmethod
    def of(cls, process: psutil.Process) -> Account:
        """Take it now; a thread's voluntary switches are the times it was woken."""
        times = process.cpu_times()
        switches = 0
        for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
            line = next(one for one in status.read_text().splitlines() if one.startswith("voluntary"))
            switches += int(line.split()[1])
        children = times.children_user + times.children_system
        return cls(time.monotonic(), times.user + times.system, children, switches)


def test_idle_cost(office: Office, figures: Figures) -> None:
    """Idle with 5 bound panes: ≤ 0.5 % of one core, children included, and RSS ≤ 70 MB; 50 panes beside it."""
    office.sandbox.configure()
    bounds = {0: None, 5: 0.5, 50: None}
    panes = 0
    for count, bound in bounds.items():
        while panes < count:
            office.agent(f"agent{panes}")
            panes += 1
        daemon, _ = office.daemon()
        process, server = psutil.Process(daemon.pid), psutil.Process(office.tmux.server_pid) if panes else None
        time.sleep(SETTLES)
        total, own, served, woken, resident = [], [], [], [], []
        for _ in range(TRIALS):
            before, server_before = Account.of(process), _used(server)
            time.sleep(STRETCH)
            after, server_after = Account.of(process), _used(server)
            seconds = after.at - before.at
            own.append(100 * (after.own - before.own) / seconds)
            total.append(own[-1] + 100 * (after.children - before.children) / seconds)
            served.append(100 * (server_after - server_before) / seconds)
            woken.append((after.switches - before.switches) / seconds)
            resident.append(process.memory_info().rss / MEGABYTE)
        figures.add(f"{count} panes: CPU, children included", total, "% core", at_most=bound, quantile=1.0)
        figures.add(f"{count} panes: of it the daemon itself", own, "% core")
        figures.add(f"{count} panes: the tmux server meanwhile", served, "% core")
        figures.add(f"{count} panes: wakeups of its threads", woken, "/s")
        figures.add(f"{count} panes: RSS", resident, "MB", at_most=70 if bound else None, quantile=1.0)
        daemon.stop()


def _used(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return times.user + times.system
