"""What the daemon costs while nothing happens."""

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

STRETCH: Final = 60.0
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
    """Idle with 5 bound panes: ≤ 0.15 % of one core, children included, and RSS ≤ 50 MB; with 200 ≤ 0.5 %; beside them none and 50."""
    office.sandbox.configure()
    _measure(office, figures, "no panes")
    office.agents(5)
    _measure(office, figures, "5 idle panes", cpu=0.15, memory=50)
    for number in range(5, 50):
        office.agent(f"agent{number}", "--quiet")
    _measure(office, figures, "50 idle panes", cpu=0.5)
    for number in range(50, 200):
        office.agent(f"agent{number}", "--quiet")
    _measure(office, figures, "200 idle panes", cpu=0.5)


def test_cost_while_agents_work(office: Office, figures: Figures) -> None:
    """What five panes that never stand still cost while nothing waits for them."""
    office.sandbox.configure()
    for agent in office.agents(5):
        agent.shows("busy")
    _measure(office, figures, "5 panes at work")


def _measure(
    office: Office, figures: Figures, name: str, *, cpu: float | None = None, memory: float | None = None
) -> None:
    """Run a daemon for some stretches of time, and take down what it and the tmux server used."""
    daemon, _ = office.daemon()
    process = psutil.Process(daemon.pid)
    pid = office.tmux.server_pid
    server = psutil.Process(pid) if pid else None
    time.sleep(SETTLES)
    total, own, served, woken, resident = [], [], [], [], []
    for _ in range(TRIALS):
        before, served_before = Account.of(process), _used(server)
        time.sleep(STRETCH)
        after, served_after = Account.of(process), _used(server)
        seconds = after.at - before.at
        own.append(100 * (after.own - before.own) / seconds)
        total.append(own[-1] + 100 * (after.children - before.children) / seconds)
        served.append(100 * (served_after - served_before) / seconds)
        woken.append((after.switches - before.switches) / seconds)
        resident.append(process.memory_info().rss / MEGABYTE)
    daemon.stop()
    figures.add(f"{name}: CPU, children included", total, "% core", at_most=cpu)
    figures.add("  of it the daemon itself", own, "% core")
    figures.add("  the tmux server meanwhile", served, "% core")
    figures.add("  wakeups of the daemon's threads", woken, "/s")
    figures.add("  RSS", resident, "MB", at_most=memory, quantile=1.0)


def _used(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return times.user + times.system
