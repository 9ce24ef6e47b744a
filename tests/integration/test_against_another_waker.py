"""`make bench AGAINST='…'`: whatever keeps the contract of docs/performance.md is timed beside wake-bridge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.contest import NAIVE, Course, compared, contest
from tests.benchmarks.figures import Figures
from tests.benchmarks.office import LIMITS, Office
from wake_bridge.demo.tmux_server import PrivateTmux

SHORT = Course(wakes=1, drafts=1, idle=0.2, unchanged=2.0)


@pytest.fixture
def office(tmp_path: Path, tmux: PrivateTmux, program: tuple[str, ...]) -> Iterator[Office]:
    """A graph and a tmux server without anybody in it."""
    office = Office(tmp_path, tmux, program)
    office.sandbox.configure(LIMITS)
    yield office
    office.close()


def test_a_waker_that_looks_at_nothing_is_timed_beside_ours_and_types_into_a_draft(
    office: Office, program: tuple[str, ...]
) -> None:
    """Both get the same graph and pane, and the recording harness judges both."""
    ours, naive = contest(office, [(*program, "run"), ("/bin/sh", "-c", f"exec {NAIVE}")], SHORT)
    figures = Figures()
    compared(figures, ours, {"the naive loop": naive})

    assert (len(ours.first_bytes), ours.nobody_woken, ours.woken_again, ours.drafts_typed_into) == (1, 0, 0, 0)
    assert (len(naive.first_bytes), naive.nobody_woken, naive.woken_again, naive.drafts_typed_into) == (1, 0, 0, 1)
    assert ours.enters[0] > 300 > naive.enters[0], "only ours leaves the harness its gap"
    (ratio,) = [one.values[0] for one in figures.rows if one.name.startswith("first byte → Enter") and one.unit == "×"]
    assert ratio == pytest.approx(naive.enters[0] / ours.enters[0])


def test_a_waker_that_ends_is_told_with_what_it_said(office: Office) -> None:
    """Whoever compares learns why there is nothing to compare with."""
    with pytest.raises(AssertionError, match=r"woke nobody:\s+it is too early"):
        contest(office, [("/bin/sh", "-c", 'echo "it is too early for $WAKE_IDENTITY"; exit 3')], SHORT)
