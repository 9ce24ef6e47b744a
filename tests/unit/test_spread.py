"""Which tests of a run stay together, and which begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spread import ROOT, begins, is_shared


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("tests/end_to_end/test_kill_points.py", True),
        ("tests/end_to_end/test_remembered_panes.py", False),
        ("tests/integration/doctor/test_doctor.py", True),
        ("tests/unit/test_spread.py", True),
        ("tests/screens/test_screen_captures.py", True),
    ],
)
def test_a_file_stays_together_where_its_tests_share_a_room_or_are_over_at_once(path: str, shared: bool) -> None:
    """A room that two workers need is furnished twice."""
    assert is_shared(path) == shared


def test_every_file_with_a_fixture_for_the_whole_file_stays_together() -> None:
    """However the fixture is written, as long as ruff formats it."""
    found = [str(one.relative_to(ROOT)) for one in (ROOT / "tests").rglob("test_*.py")]
    rooms = [one for one in found if "scope=" in (ROOT / one).read_text(encoding="utf-8")]

    assert rooms
    assert [one for one in rooms if not is_shared(one)] == []


def test_what_takes_minutes_begins_and_what_is_over_at_once_fills_the_gaps() -> None:
    """Rooms before single tests of their folder, unit tests last."""
    names = ["tests/unit/test_text.py", "tests/end_to_end/test_typist.py", "tests/end_to_end/test_kill_points.py"]
    items: list[Any] = [SimpleNamespace(nodeid=f"{one}::test_it", path=Path(one)) for one in names]

    assert [one.nodeid.partition("::")[0] for one in sorted(items, key=begins)] == names[::-1]
