"""What the benchmarks share: a table of figures, and a person's set-up with agents in panes of a tmux server of its own."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from wake_bridge.testing.fake_harness import FakeHarness
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.sandbox import DaemonProcess, Sandbox
from wake_bridge.testing.tmux_server import PrivateTmux

PATIENCE: Final = 60.0
"""Seconds to wait for what must come."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was measured, how often, and the bound of the issue that one of its quantiles is held to."""

    name: str
    values: tuple[float, ...]
    unit: str
    at_most: float | None
    quantile: float

    def row(self) -> tuple[str, ...]:
        at_quantile = quantile_of(self.values, self.quantile)
        return (
            self.name,
            str(len(self.values)),
            *(shown(value) for value in (min(self.values), statistics.median(self.values))),
            shown(quantile_of(self.values, 0.99)),
            shown(max(self.values)),
            self.unit,
            "" if self.at_most is None else f"{_called(self.quantile)} ≤ {shown(self.at_most)}",
            "" if self.at_most is None else ("met" if at_quantile <= self.at_most else "MISSED"),
        )


class Figures:
    """Collects figures and prints them as one table. They are compared with the bounds, never asserted."""

    HEAD: Final = ("figure", "n", "min", "median", "p99", "max", "unit", "bound", "")

    def __init__(self) -> None:
        self.rows: list[Figure] = []

    def add(
        self, name: str, values: Sequence[float], unit: str, *, at_most: float | None = None, quantile: float = 0.5
    ) -> None:
        """Take down what one thing measured over several trials; `at_most` bounds that quantile of them."""
        self.rows.append(Figure(name, tuple(values), unit, at_most, quantile))

    def table(self, title: str) -> str:
        """All rows, as Markdown."""
        return markdown(title, self.HEAD, [figure.row() for figure in self.rows])


def markdown(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join(["", f"### {title}", "", line(head), rule, *map(line, rows), ""])


def quantile_of(values: Sequence[float], quantile: float) -> float:
    """The smallest value that at least that share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]


def shown(value: float) -> str:
    """Three figures that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _called(quantile: float) -> str:
    return {0.5: "median", 1.0: "max"}.get(quantile, f"p{quantile * 100:.0f}")


class Office:
    """One person's set-up: agents in panes, a foreign graph written by its own server, a daemon."""

    def __init__(self, directory: Path, tmux: PrivateTmux, program: Sequence[str]) -> None:
        self.directory = directory
        self.tmux = tmux
        self.sandbox = Sandbox(directory, tmux.socket_name, program)
        self.sandbox.graph.parent.mkdir(parents=True)
        self.sandbox.state_dir.mkdir(parents=True, mode=0o700)
        MemoryCore.create(self.sandbox.graph).close()

    def core(self) -> MemoryCore:
        """The graph's writer; close it."""
        return MemoryCore(self.sandbox.graph)

    def agent(self, name: str, *options: str) -> FakeHarness:
        """An idle agent `@name` in a window of its own, subscribed to its mail with window 0; `options` as it takes."""
        harness = FakeHarness(self.directory, name)
        pane = self.tmux.new_pane(harness.command(*options), session="agents", width=100, height=30)
        self.tmux.run("set-option", "-p", "-t", str(pane.pane_id), "@wake_identity", f"@{name}")
        harness.waits_for("started", timeout=PATIENCE)
        with self.core() as core:
            core.identity(f"@{name}")
            core.subscribe(f"@{name}", harnessTargetMetadata={"adapter": "tmux", "coalesceWindow": 0})
        return harness

    def agents(self, count: int, *options: str) -> list[FakeHarness]:
        """Several of them."""
        return [self.agent(f"agent{number}", *options) for number in range(count)]

    def daemon(self) -> tuple[DaemonProcess, float]:
        """A daemon that has reached the tip, and when it was started, in UTC seconds."""
        started = time.time()
        daemon = self.sandbox.daemon()
        assert daemon.process.poll() is None, daemon.log()
        return daemon, started

    def close(self) -> None:
        self.sandbox.close()


@pytest.fixture
def office(tmp_path: Path, tmux: PrivateTmux, program: tuple[str, ...]) -> Iterator[Office]:
    """A set-up without agents; all it starts is ended afterwards."""
    office = Office(tmp_path, tmux, program)
    try:
        yield office
    finally:
        office.close()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    """A table that is printed when the benchmark ends."""
    figures = Figures()
    yield figures
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    title = f"{request.node.name.removeprefix('test_').replace('_', ' ')} ({psutil.cpu_count()} cores, load {load})"
    print(figures.table(title))
