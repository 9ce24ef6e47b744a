"""When a usage limit resets, as programs print it; what is not understood word by word stays unknown."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wake_bridge.domain.attention import Episode
from wake_bridge.domain.names import DAY, HOUR, MINUTE, AttentionKind, Identity, Instant
from wake_bridge.domain.usage_limits import FARTHEST, Reset, clock_time, free_at, is_met_again, is_same_limit, reset_in
from wake_bridge.system.clock import MachineZone
from wake_bridge.testing.hostile import hostile_subjects

BERLIN = ZoneInfo("Europe/Berlin")
NOW = Instant(int(datetime(2026, 11, 29, 1, tzinfo=BERLIN).timestamp() * 1000))


def shown(text: str, now: Instant = NOW, zone: ZoneInfo = BERLIN) -> str | None:
    reset = reset_in(text, now, zone)
    return None if reset is None else f"{datetime.fromtimestamp(reset.at / 1000, BERLIN):%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("You've hit your limit · resets 3am (Europe/Berlin)", "2026-11-29 03:00:00"),
        ("You’ve hit your session limit · resets 8:30pm (Asia/Tokyo)", "2026-11-29 12:30:00"),
        ("You've hit your weekly limit · resets Dec 2 at 10am (Asia/Tokyo)", "2026-12-02 02:00:00"),
        ("Weekly limit reached ∙ resets Dec 6, 1pm", "2026-12-06 13:00:00"),
        ("Your limit will reset at 3pm (America/New_York).", "2026-11-29 21:00:00"),
        ("Claude AI usage limit reached|1795928400", "2026-11-29 06:00:00"),
        ("or try again at 2:51 PM.", "2026-11-29 14:51:00"),
        ("or try again at Dec 5th, 2026 2:51 PM.", "2026-12-05 14:51:00"),
        ("Try again in 2 days 3 hours 12 minutes.", "2026-12-01 04:12:00"),
        ("Your quota will reset after 2h13m20s.", "2026-11-29 03:13:20"),
        ("Access resets at 3:00 PM GMT+1.", "2026-11-29 15:00:00"),
        ("resets at 2026-11-29T03:00:00Z", "2026-11-29 04:00:00"),
        ("resets 12am", "2026-11-30 00:00:00"),
        ("resets 12:30pm", "2026-11-29 12:30:00"),
        ("resets 03:00", "2026-11-29 03:00:00"),
        ("resets Jan 2 at 9am", "2027-01-02 09:00:00"),
        ("resets\n  3am (Europe/Berlin)\n  /upgrade for more", "2026-11-29 03:00:00"),
        ("resets 3am · resets 3am", "2026-11-29 03:00:00"),
    ],
)
def test_the_times_that_programs_print_are_read(text: str, at: str) -> None:
    """A time of day, with a zone or in the machine's own; a date; a length; a count of seconds."""
    assert shown(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You've hit your limit",
        "try again later.",
        "resets 3am tomorrow",
        "resets 3am PDT",
        "resets 3am (Nowhere/Land)",
        "resets 3am (../../etc/passwd)",
        "resets 3",
        "resets 3:00",
        "resets 25:00",
        "resets 13pm",
        "resets Feb 30 at 3am",
        "resets Mar 30 at 3am",
        "resets 3am, resets 5am",
        "resets in a while",
        "resets in 99999999999999999999 days",
        "resets 2020-01-01T00:00:00Z",
        "it reset 3am yesterday",
        "presets 3am",
    ],
)
def test_what_is_not_understood_as_a_whole_is_unknown(text: str) -> None:
    """No time is guessed: words behind it, a zone that nobody knows, two times that differ, one too far away."""
    assert shown(text) is None


def test_a_local_time_that_is_skipped_or_comes_twice_is_never_too_early() -> None:
    """In spring 02:30 is the moment after the gap, in autumn the second 02:30."""
    spring = Instant(int(datetime(2026, 3, 29, 1, tzinfo=BERLIN).timestamp() * 1000))
    autumn = Instant(int(datetime(2026, 10, 25, 1, tzinfo=BERLIN).timestamp() * 1000))
    assert shown("resets 2:30am", spring) == "2026-03-29 03:30:00"
    assert reset_in("resets 2:30am", autumn, BERLIN) == Reset(Instant(autumn + 150 * MINUTE), is_dated=False)
    assert reset_in("resets 3am", spring, BERLIN) == Reset(Instant(spring + HOUR), is_dated=False)
    assert reset_in("resets 3am", autumn, BERLIN) == Reset(Instant(autumn + 3 * HOUR), is_dated=False)


ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


@given(MOMENTS, ZONES, st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_is_the_next_one_at_which_clocks_there_show_it(
    moment: datetime, name: str, hour: int, minute: int
) -> None:
    """Within a day and the hour by which it may be longer; skipped times are the moment after the gap."""
    now = Instant(int(moment.timestamp() * 1000))
    half = "am" if hour < 12 else "pm"
    reset = reset_in(f"resets {hour % 12 or 12}:{minute:02}{half} ({name})", now, BERLIN)
    assert reset is not None
    assert now < reset.at <= now + 26 * HOUR
    local = datetime.fromtimestamp(reset.at / 1000, ZoneInfo(name))
    gap = local.utcoffset() != (local - timedelta(hours=2)).astimezone(UTC).astimezone(ZoneInfo(name)).utcoffset()
    assert (local.hour, local.minute) == (hour, minute) or gap or local.dst() != (local + timedelta(hours=3)).dst()


@given(MOMENTS, st.integers(1, 60 * 24 * 30))
def test_a_date_and_a_length_are_what_they_say(moment: datetime, minutes: int) -> None:
    """Written and read again, whatever the day."""
    now = Instant(int(moment.timestamp() * 1000))
    at = moment.replace(second=0, microsecond=0) + timedelta(minutes=minutes)
    dated = reset_in(f"resets {at:%b} {at.day} at {at.hour % 12 or 12}:{at:%M%p} (UTC)", now, BERLIN)
    assert dated == Reset(Instant(int(at.timestamp() * 1000)))
    length = reset_in(f"try again in {minutes // 60}h {minutes % 60}m.", now, BERLIN)
    assert length == Reset(Instant(now + minutes * MINUTE))


@given(st.text(max_size=200), st.sampled_from(["", "resets ", "try again at ", "resets in "]))
def test_no_text_raises_and_no_answer_is_out_of_bounds(text: str, before: str) -> None:
    """A screen may hold anything."""
    reset = reset_in(before + text, NOW, BERLIN)
    assert reset is None or NOW - DAY < reset.at <= NOW + FARTHEST


def test_hostile_text_is_no_time() -> None:
    """What stands in subjects is printed on screens as well."""
    assert all(reset_in(text, NOW, BERLIN) is None for text in hostile_subjects(200, seed=3))


def at_limit(who: str = "@a", **changes: object) -> Episode:
    made = Episode(f"01{who}", Identity(who), AttentionKind.LIMITED, NOW, "seen", program="claude")
    return replace(made, **changes)  # type: ignore[arg-type]


def test_agents_come_one_to_five_minutes_after_the_reset_and_each_always_at_its_own_time() -> None:
    """Drawn from the identity and its stretch at the limit, so that a restart draws nothing anew."""
    resets = Instant(NOW + HOUR)
    waits = [free_at(at_limit(f"@a{one}", resets_at=resets), []) - resets for one in range(200)]
    assert all(MINUTE <= one <= 5 * MINUTE for one in waits)
    assert len(set(waits)) > 190
    assert waits == [free_at(at_limit(f"@a{one}", resets_at=resets), [NOW]) - resets for one in range(200)]


def test_without_a_time_the_wait_grows_with_each_wake_that_met_the_limit() -> None:
    """5, 15, 45 minutes, and no longer; wakes before it count for nothing."""
    begun = at_limit()
    assert free_at(begun, [Instant(NOW - 1)]) == NOW + 5 * MINUTE
    assert free_at(begun, [Instant(NOW + 6 * MINUTE)]) == NOW + 21 * MINUTE
    assert free_at(replace(begun, tries=2), []) == NOW + 45 * MINUTE
    assert free_at(replace(begun, tries=9), [Instant(NOW + 1), Instant(NOW + 2)]) == NOW + 2 + 45 * MINUTE


def test_one_account_is_the_same_program_at_the_same_reset() -> None:
    """Nothing else tells accounts apart; a minute of rounding is none."""
    one = at_limit("@a", resets_at=Instant(NOW + HOUR))
    assert is_same_limit(one, at_limit("@b", resets_at=Instant(NOW + HOUR + MINUTE)))
    assert not is_same_limit(one, at_limit("@b", resets_at=Instant(NOW + 2 * HOUR)))
    assert not is_same_limit(one, at_limit("@b", resets_at=Instant(NOW + HOUR), program="codex"))
    assert not is_same_limit(one, at_limit("@b"))
    assert is_same_limit(at_limit("@a"), at_limit("@b"))
    assert not is_same_limit(one, replace(one, kind=AttentionKind.FAILED))
    assert is_met_again(replace(one, ended_at=NOW), replace(one, began_at=Instant(NOW + MINUTE)))
    assert not is_met_again(replace(one, ended_at=NOW), replace(one, began_at=Instant(NOW + HOUR)))
    assert not is_met_again(one, one)


def test_a_time_is_told_as_a_clock_of_the_machine_will_show_it() -> None:
    """Of another day with `tomorrow` or its date; over a night in which clocks change too."""
    local = datetime(2026, 3, 28, 23, tzinfo=BERLIN)
    now = Instant(int(local.timestamp() * 1000))
    assert clock_time(Instant(now + 30 * MINUTE), now, now, local) == "23:30"
    assert clock_time(Instant(now + 4 * HOUR), now, now, local) == "04:00 tomorrow"
    assert clock_time(Instant(now + 3 * DAY), now, now, local) == "2026-04-01 00:00"
    assert clock_time(Instant(5 * HOUR), Instant(0), now, local) == "05:00 tomorrow"


def test_the_zone_of_the_machine_knows_the_nights_in_which_clocks_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixed offset would be an hour off on the other side of such a night."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    zone = MachineZone()
    for night in ("2026-03-29", "2026-10-25"):
        evening = datetime.fromisoformat(f"{night}T00:30")
        assert evening.replace(tzinfo=zone).timestamp() == evening.replace(tzinfo=BERLIN).timestamp()
        later = datetime.fromisoformat(f"{night}T12:00")
        assert later.replace(tzinfo=zone).timestamp() == later.replace(tzinfo=BERLIN).timestamp()
        utc = datetime.fromisoformat(f"{night}T01:30").replace(tzinfo=UTC)
        assert utc.astimezone(zone).replace(tzinfo=None) == utc.astimezone(BERLIN).replace(tzinfo=None)
        assert utc.astimezone(zone).timestamp() == utc.timestamp()
    monkeypatch.undo()
    time.tzset()
