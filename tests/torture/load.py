"""The curve: what idling costs and how long wakes take, by the number of panes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.torture.crowd import MEGABYTE, Crowd
from tests.torture.wakes import SETTLED_WITHIN, UNCHANGED, Wakes, wake_at_once, wake_in_turn
from wake_bridge.demo.tmux_server import PrivateTmux

SETTLES: Final = 12.0
"""Seconds until a start is history."""

FEW: Final = 20
"""Wakes whose calls of tmux are counted."""


@dataclass(frozen=True, slots=True)
class Step:
    """One number of panes: what it costs while nothing happens, and how long wakes take."""

    panes: int
    idle_cpu: tuple[float, ...]
    """Percent of a core, tmux clients included, stretch by stretch."""
    tmux_cpu: tuple[float, ...]
    """Percent of a core that the tmux server uses meanwhile."""
    resident: float
    """Megabytes."""
    calls_a_minute: float
    calls: Mapping[str, int]
    """The idle minute's calls of tmux by their first command."""
    calls_a_wake: float
    known_after: float
    """Seconds from the start of the daemon until it has looked at every pane."""
    lost: int
    load: float

    def figures(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def curve(
    directory: Path, program: Sequence[str], sizes: Sequence[int], *, stretch: float, stretches: int, counted: float
) -> list[Step]:
    """Measure each number of panes, all side by side: who idles disturbs nobody.

    Idling is measured in `stretches` of `stretch` seconds, its calls of tmux in `counted` seconds.
    """

    def measured(size: int) -> Step:
        with PrivateTmux() as tmux, Crowd(directory / str(size), tmux, program, size) as crowd:
            return _measure(crowd, stretch, stretches, counted)

    with ThreadPoolExecutor(len(sizes)) as pool:
        return list(pool.map(measured, sizes))


@dataclass(frozen=True, slots=True)
class Latency:
    """How long wakes take with so many panes, and what one of those that come all at once uses."""

    panes: int
    in_turn: Wakes
    at_once: Wakes
    processor_ms: float
    """Processor time of daemon, tmux clients and tmux server for each of them."""

    def figures(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "in_turn": self.in_turn.figures(), "at_once": self.at_once.figures()}


def latencies(
    directory: Path, tmux: PrivateTmux, program: Sequence[str], sizes: Sequence[int], *, wakes: int
) -> list[Latency]:
    """Only the wakes, for each number of panes in turn: some minutes in which the machine must do nothing else."""
    found = []
    with Crowd(directory, tmux, program, sizes[0]) as crowd:
        for size in sizes:
            crowd.grow(size)
            daemon = crowd.daemon()
            time.sleep(SETTLES)
            in_turn = wake_in_turn(crowd, crowd.members, wakes)
            time.sleep(UNCHANGED)
            before = _used(daemon.pid, crowd.tmux.server_pid)
            at_once = wake_at_once(crowd, crowd.members)
            used = 1000 * (_used(daemon.pid, crowd.tmux.server_pid) - before) / size
            daemon.stop()
            found.append(Latency(size, in_turn, at_once, round(used, 1)))
            print(found[-1].figures(), flush=True)
    return found


def _used(daemon: int, server: int) -> float:
    """Seconds of processor time, the daemon's ended children included."""
    return sum(psutil.Process(daemon).cpu_times()[:4]) + sum(psutil.Process(server).cpu_times()[:2])


def _measure(crowd: Crowd, stretch: float, stretches: int, counted: float) -> Step:
    load = os.getloadavg()[0]
    with crowd.counting() as calls:
        daemon = crowd.daemon()
        began = time.monotonic()
        panes = {crowd.pane_of(one) for one in crowd.members}
        looked: set[str] = set()
        while panes - looked and time.monotonic() - began < SETTLED_WITHIN:
            looked |= {pane for call in calls() for pane in panes - looked if f"-t {pane} " in call}
            time.sleep(0.1)
        known_after = time.monotonic() - began
        # each pane is looked at once a minute, from a minute after the first look on
        time.sleep(max(SETTLES, counted))
        calls()
        time.sleep(counted)
        idle = calls()
        waking = time.monotonic()
        few = wake_in_turn(crowd, crowd.members, FEW)
        for_wakes = len(calls()) - len(idle) / counted * (time.monotonic() - waking)
        daemon.stop()
    daemon = crowd.daemon()
    server = psutil.Process(crowd.tmux.server_pid)
    time.sleep(max(SETTLES, known_after))
    own, served = [], []
    for _ in range(stretches):
        before = sum(server.cpu_times()[:2])
        watched = crowd.watch(daemon, stretch, every=stretch)
        own.append(round(watched.share(), 2))
        served.append(round(100 * (sum(server.cpu_times()[:2]) - before) / stretch, 2))
    resident = psutil.Process(daemon.pid).memory_info().rss / MEGABYTE
    daemon.stop()
    return Step(
        panes=len(crowd.members),
        idle_cpu=tuple(own),
        tmux_cpu=tuple(served),
        resident=round(resident, 1),
        calls_a_minute=round(60 * len(idle) / counted, 1),
        calls=dict(Counter(_command_of(call) for call in idle)),
        calls_a_wake=round(for_wakes / FEW, 1),
        known_after=round(known_after, 1),
        lost=few.lost,
        load=round(max(load, os.getloadavg()[0]), 1),
    )


def _command_of(call: str) -> str:
    """The first tmux command of a call: `-u -S SOCKET display-message …`."""
    words = call.split()
    return words[3] if len(words) > 3 else call
