"""A laptop that sleeps every night; the week itself is torture, this is its short form."""

from __future__ import annotations

from pathlib import Path

from tests.torture.week import week


def test_mail_over_a_night_is_lost_to_nobody_and_storms_nobody(tmp_path: Path) -> None:
    """One catch-up digest in the morning; every message is announced, within the budget."""
    found = week(tmp_path, days=2, hours=2, messages=60, seed=1)

    assert (found.sent, found.lost, found.unknown) == (60, [], 0)
    assert found.most_per_hour <= 20
    assert found.most_per_minute <= 8
    assert max(found.morning_wakes) == 1
