"""Ids are those of the library for them, which takes too long to import."""

from __future__ import annotations

import time

import pytest
from ulid import ULID

from wake_bridge.system.ulids import new_ulid


def test_an_id_is_a_ulid_of_now() -> None:
    """Any program that knows ULIDs reads the time from it."""
    before = time.time_ns() // 1_000_000
    made = new_ulid()
    after = time.time_ns() // 1_000_000

    assert len(made) == 26
    assert str(ULID.from_str(made)) == made
    assert before <= ULID.from_str(made).milliseconds <= after


def test_ids_sort_as_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one millisecond; none comes twice, also where the clock is set back."""
    instants = iter([*[1_800_000_000_000_000_000] * 1000, 1_700_000_000_000_000_000, *[1_800_000_000_000_000_000] * 10])
    monkeypatch.setattr(time, "time_ns", lambda: next(instants))
    made = [new_ulid() for _ in range(1011)]

    assert made[:1000] == sorted(made[:1000])
    assert len(set(made)) == 1011
