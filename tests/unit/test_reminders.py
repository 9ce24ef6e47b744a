"""When reminders are due: by a person's own clock, through both nights of its change, and after a time without a daemon."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from wake_bridge.domain.digest import grouped, phrase
from wake_bridge.domain.names import DAY, EPOCH_START, HOUR, MINUTE, Epoch, Identity, Instant
from wake_bridge.domain.nudges import pulse_for
from wake_bridge.domain.reminders import (
    Due,
    Reminder,
    after_firing,
    at_time,
    due_now,
    event_for,
    next_after,
    require_five_fields,
    words_of,
)

BERLIN = "Europe/Berlin"
SPRING, AUTUMN = "2026-03-29", "2026-10-25"


def instant(local: str, *, second_time: bool = False) -> Instant:
    moment = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(BERLIN), fold=int(second_time))
    return Instant(int(moment.timestamp() * 1000))


def local(at: Instant) -> str:
    return f"{datetime.fromtimestamp(at / 1000, ZoneInfo(BERLIN)):%Y-%m-%d %H:%M %Z}"


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 9 * * 1-5", "2026-11-27 12:00", "2026-11-30 09:00 CET"),
        ("0 9 * * 1", "2026-11-29 12:00", "2026-11-30 09:00 CET"),
        ("0 9 * * 0", "2026-11-27 12:00", "2026-11-29 09:00 CET"),
        ("30 2 * * *", f"{SPRING} 01:00", f"{SPRING} 03:00 CEST"),
        ("30 2 * * *", f"{SPRING} 03:00", "2026-03-30 02:30 CEST"),
        ("30 2 * * *", f"{AUTUMN} 01:00", f"{AUTUMN} 02:30 CEST"),
        ("0 9 * * *", f"{SPRING} 01:00", f"{SPRING} 09:00 CEST"),
        ("0 9 * * *", f"{AUTUMN} 01:00", f"{AUTUMN} 09:00 CET"),
    ],
)
def test_the_next_time_is_meant_by_the_clock_on_the_wall(cron: str, after: str, expected: str) -> None:
    """Week days count from Sunday; a skipped local time comes after the gap, one that is there twice comes once."""
    assert local(next_after(cron, BERLIN, instant(after))) == expected


def test_a_local_time_that_is_there_twice_comes_once() -> None:
    """Whenever one asks within the hour that comes twice, the next one is tomorrow's."""
    first = next_after("30 2 * * *", BERLIN, instant(f"{AUTUMN} 01:00"))
    asked = [first, Instant(first + 40 * MINUTE), instant(f"{AUTUMN} 02:29", second_time=True)]
    assert {local(next_after("30 2 * * *", BERLIN, one)) for one in asked} == {"2026-10-26 02:30 CET"}


@given(
    start=some.sampled_from([SPRING, AUTUMN]).map(lambda day: instant(f"{day} 00:00")),
    offset=some.integers(0, 5 * HOUR),
    cron=some.sampled_from(["*/5 * * * *", "30 2 * * *", "0 * * * *", "15 1-3 * * *", "0 2,3 * * 0"]),
)
def test_every_next_time_is_later_than_the_one_before(start: Instant, offset: int, cron: str) -> None:
    """No instant is due twice, whenever one begins to ask."""
    at = Instant(start + offset)
    for _ in range(8):
        after = next_after(cron, BERLIN, at)
        assert after > at
        at = after


def test_a_time_of_day_is_the_next_one_and_a_date_is_that_day() -> None:
    """`--at`: today or tomorrow; a day that is over or does not exist is an error."""
    now = instant("2026-11-29 17:00")
    assert local(at_time("18:00", BERLIN, now)) == "2026-11-29 18:00 CET"
    assert local(at_time("9:00", BERLIN, now)) == "2026-11-30 09:00 CET"
    assert local(at_time("2026-12-24 18:00", BERLIN, now)) == "2026-12-24 18:00 CET"
    assert local(at_time("02:30", BERLIN, instant("2026-03-28 12:00"))) == f"{SPRING} 03:00 CEST"
    assert local(at_time("2031-07-01 08:05", BERLIN, now)) == "2031-07-01 08:05 CEST"
    for wrong, why in (
        ("24:00", "is no time such as 18:00 or 2026-12-24 18:00"),
        ("6pm", "is no time such as 18:00 or 2026-12-24 18:00"),
        ("", "is no time such as"),
        ("2026-11-28 18:00", "is over$"),
        ("2026-11-29 17:00", "is over$"),
        ("0001-01-01 00:00", "is over$"),
        ("2026-02-30 10:00", "is no day of the calendar: write it as year-month-day, 2026-12-24 18:00"),
        ("2026-13-24 10:00", "is no day of the calendar"),
        ("0000-01-01 10:00", "is no day of the calendar"),
    ):
        with pytest.raises(ValueError, match=why):
            at_time(wrong, BERLIN, now)
    for cron, zone in (("61 * * * *", BERLIN), ("* * *", BERLIN), ("0 0 30 2 *", BERLIN), ("0 9 * * *", "Mars/Base")):
        with pytest.raises(ValueError, match=r"is no cron|is never due|no time zone"):
            next_after(cron, zone, now)


@pytest.mark.parametrize(
    ("cron", "count"), [("0 0 9 * * 1-5", "6 fields"), ("0 9 * *", "4 fields"), ("@daily", "1 field")]
)
def test_a_cron_expression_has_five_fields(cron: str, count: str) -> None:
    """What the library takes besides, such as seconds in front, would mean something else than was written."""
    with pytest.raises(ValueError, match=f"has {count}: a cron expression has five, minute, hour"):
        require_five_fields(cron)
    require_five_fields(" 0  9 * * 1-5")


DAILY = Reminder("01R", "tea", BERLIN, instant("2026-11-20 09:00"), "@docs", cron="0 9 * * *")
ONCE = replace(DAILY, cron="")


@pytest.mark.parametrize(
    ("reminder", "now", "tells", "was", "coming"),
    [
        (DAILY, "2026-11-20 08:59", None, "", ""),
        (DAILY, "2026-11-20 09:00", True, "2026-11-20 09:00 CET", "2026-11-21 09:00 CET"),
        (DAILY, "2026-11-20 23:00", True, "2026-11-20 09:00 CET", "2026-11-21 09:00 CET"),
        (DAILY, "2026-11-24 08:00", True, "2026-11-23 09:00 CET", "2026-11-24 09:00 CET"),
        (replace(DAILY, cron="0 9 1 * *"), "2026-11-24 08:00", False, "2026-11-20 09:00 CET", "2026-12-01 09:00 CET"),
        (ONCE, "2026-11-21 09:00", True, "2026-11-20 09:00 CET", ""),
        (ONCE, "2026-11-21 09:01", False, "2026-11-20 09:00 CET", ""),
    ],
)
def test_what_was_missed_by_a_day_comes_once_and_late_and_older_rolls_on(
    reminder: Reminder, now: str, tells: bool | None, was: str, coming: str
) -> None:
    """Missed by up to 24 h: once, the last of all that were missed; older: not at all."""
    due = due_now(reminder, instant(now))
    if tells is None:
        assert due is None
        return
    assert due is not None
    assert (due.tells, local(due.was_due_at)) == (tells, was)
    assert (local(due.next_at) if due.next_at else "") == coming
    after = after_firing(reminder, due, instant(now))
    assert (after.ended_at is None) is bool(coming)
    assert due_now(after, instant(now)) is None or not coming


def test_a_late_one_says_so() -> None:
    """More than a minute late: when it was due, by the person's own clock."""
    due = Due(tells=True, was_due_at=instant("2026-11-20 09:00"), next_at=None)
    assert words_of(ONCE, due, instant("2026-11-20 09:01")) == "tea"
    assert words_of(ONCE, due, instant("2026-11-20 11:00")) == "tea (late: it was due at 09:00 on 2026-11-20)"


def test_each_reminder_of_a_wake_is_told_in_full_beside_mail_and_a_pulse() -> None:
    """Its text stands in no inbox: no other news may push it out of the digest."""
    now = instant("2026-11-20 09:00")
    events = []
    for number, text in enumerate(("tea", "stand up")):
        due = Due(tells=True, was_due_at=now, next_at=None)
        reminder = replace(ONCE, id=f"R{number}", text=text)
        events.append(event_for(reminder, due, f"E{number}", Epoch(1), now, now, window=5))
    pulse = pulse_for(Identity("@docs"), "01P", Epoch(1), now)
    groups = grouped([*events, pulse])
    assert [phrase(one, 80, now, set()) for one in groups] == ['2 reminders ("tea"; "stand up")']
    assert {one.subject_key for one in events} == {f"reminder:R0:{now}", f"reminder:R1:{now}"}


def test_times_are_stored_in_utc() -> None:
    """A zone that changes its rules changes no instant that is stored."""
    at = next_after("0 9 * * *", BERLIN, EPOCH_START)
    assert datetime.fromtimestamp(at / 1000, UTC).hour == 8
    assert DAY == 24 * HOUR
    assert all(one < other for one, other in pairwise([EPOCH_START, at]))
