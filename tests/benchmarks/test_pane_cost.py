"""How soon `panes` and `setup` answer, with five agents: alone, and beside a daemon that has looked already."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Final

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

TIMES: Final = 10
PANES: Final = 5
MANY: Final = 50
FLOOR: Final = (sys.executable, "-c", "pass")
COMMANDS: Final = {"panes": 1.0, "setup --dry-run": 2.0}
"""With the seconds that each may take."""


def test_panes_and_setup(office: Office, figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    """`panes` ≤ 1 s, `setup` ≤ 2 s, with five agents; `panes` ≤ 0.3 s with fifty and a daemon; what the processor works, beside an interpreter that does nothing."""
    monkeypatch.chdir(office.sandbox.home)
    office.sandbox.configure()
    office.agents(PANES)
    floor = min(_takes(office, FLOOR)[1] for _ in range(TIMES))
    _measure(office, figures, "no daemon", floor)
    office.daemon()
    office.sandbox.waits_for(
        lambda: sum(one["looks"] == 2 for one in office.sandbox.lines("panes")) == PANES, 60, "two looks at each"
    )
    _measure(office, figures, "a daemon", floor)
    for number in range(PANES, MANY):
        office.agent(f"agent{number}", "--quiet")
    office.sandbox.waits_for(
        lambda: sum(one["looks"] == 2 for one in office.sandbox.lines("panes")) == MANY, 120, "two looks at each"
    )
    took = [_takes(office, (*office.sandbox.command, "panes")) for _ in range(TIMES)]
    figures.add(f"`panes`, a daemon, {MANY} panes", [wall for wall, _ in took], "s", at_most=0.3)


def _measure(office: Office, figures: Figures, beside: str, floor: float) -> None:
    for words, bound in COMMANDS.items():
        took = [_takes(office, (*office.sandbox.command, *words.split())) for _ in range(TIMES)]
        figures.add(f"`{words}`, {beside}", [wall for wall, _ in took], "s", at_most=bound)
        figures.add(f"`{words}`, {beside}: CPU, of a `python -c pass`", [min(used for _, used in took) / floor], "×")


def _takes(office: Office, argv: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of one command, and how many of them the processor worked for it."""
    before, began = _used_by_children(), time.monotonic()
    subprocess.run(argv, env=office.sandbox.environment, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return time.monotonic() - began, _used_by_children() - before


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
