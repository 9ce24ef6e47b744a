"""Another waker on the same graph and pane: `make bench AGAINST='…'`, by default the simplest one there is."""

from __future__ import annotations

import pytest

from tests.benchmarks.contest import NAIVE, Course, compared, contest
from tests.benchmarks.figures import Figures
from tests.benchmarks.office import LIMITS, Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]


def test_against_another_waker(
    office: Office, figures: Figures, program: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Both are given the same and judged by the same recording; printed beside each other, with ratios."""
    other = request.config.getoption("against", default="") or NAIVE
    print(f"\nagainst: {other}")
    office.sandbox.configure(LIMITS)
    ours, theirs = contest(office, [(*program, "run"), ("/bin/sh", "-c", f"exec {other}")], Course())
    compared(figures, ours, theirs)
