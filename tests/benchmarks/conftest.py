"""What the benchmarks share: a set-up, and a table that is printed at the end of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import Office
from wake_bridge.testing.tmux_server import PrivateTmux


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
