"""What the benchmarks share: a set-up, and a table that is printed at the end of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import Office
from tests.benchmarks.record import Run, keep
from wake_bridge.demo.tmux_server import PrivateTmux


@pytest.fixture(scope="module", autouse=True)
def as_a_person_starts_it(executed_daemons: None) -> None:
    """What is measured is what a person starts."""


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
    """A table that is printed when the benchmark ends, and kept in `figures.json` if it came to its end."""
    name = re.sub(r"[_\[\]]+", " ", request.node.name.removeprefix("test_")).strip()
    figures, run = Figures(), Run(name)
    failed_before = request.session.testsfailed
    yield figures
    facts = run.facts(figures.rows)
    print(figures.table(f"{name} (load {facts['load'][0]} → {facts['load'][1]}, one loop {facts['loop_ms']} ms)"))
    if figures.rows and request.session.testsfailed == failed_before:
        keep(facts)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--against CMD`: another waker, to be timed on the same graph and pane (docs/performance.md says what it is given)."""
    parser.addoption("--against", metavar="CMD", default="", help="time another waker beside wake-bridge")
