"""Issue "A day with it", Must show: a week on the turned clock, a laptop that sleeps every night, 5,000 messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.report import Record
from tests.torture.week import week

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1800)]

MEGABYTE = 1024 * 1024


def test_a_week_with_a_laptop_that_sleeps_every_night(record: Record, directory: Path) -> None:
    """0 lost, wakes within budget, one digest each in the morning, ledger size bounded by the retention."""
    found = week(directory, days=7, hours=15, messages=5000, seed=record.seed)

    print(f"\nsent {found.sent}, lost {len(found.lost)}, submits {found.submits}, unknown {found.unknown}")
    print(f"most wakes of a pane: {found.most_per_minute}/min, {found.most_per_hour}/h, {found.most_per_day}/d")
    print(f"wakes of each in the first two minutes of a day: {found.morning_wakes}")
    print(f"ledger after each day, MB: {[round(size / MEGABYTE, 1) for size in found.sizes]}, rows: {found.rows}")
    assert (found.sent, found.lost, found.unknown) == (5000, [], 0)
    assert found.most_per_minute <= 8
    assert found.most_per_hour <= 20
    assert found.most_per_day <= 150
    assert max(found.morning_wakes) == 1
    # two days are kept: from the third on it grows no more
    assert max(found.rows[3:]) <= 1.25 * found.rows[2]
    assert max(found.sizes[3:]) <= 1.25 * found.sizes[2] + MEGABYTE
