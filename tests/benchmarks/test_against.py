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
    """All are given the same and judged by the same recording; printed beside each other, with ratios."""
    wakers = {"the naive loop": NAIVE}
    if other := request.config.getoption("against", default=""):
        wakers["the other"] = other
    print(f"\nagainst: {wakers}")
    office.sandbox.configure(LIMITS)
    ours, *others = contest(
        office, [(*program, "run"), *(("/bin/sh", "-c", f"exec {one}") for one in wakers.values())], Course()
    )
    compared(figures, ours, dict(zip(wakers, others, strict=True)))
