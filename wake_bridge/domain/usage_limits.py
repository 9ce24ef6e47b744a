"""When a usage limit resets, as a program prints it, and when an agent that stands at one may be woken again. Pure.

What is not recognised word by word stays unknown: a wake that waits for a wrong time is late, one that comes too early costs
a turn that fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from hashlib import blake2b
from typing import Final

from wake_bridge.domain.attention import Episode
from wake_bridge.domain.names import DAY, HOUR, MINUTE, SECOND, AttentionKind, Instant
from wake_bridge.domain.values import dataclass

FARTHEST: Final = 35 * DAY
"""Milliseconds: a reset that is further ahead is none, and so is one that was a day ago."""

BACKOFF: Final = (5 * MINUTE, 15 * MINUTE, 45 * MINUTE)
"""Milliseconds to wait where no time is shown: at first, after one turn that failed, after more."""

AGAIN_WITHIN: Final = 10 * MINUTE
"""Milliseconds between the end of one stretch at a limit and the next, for which both are the same limit met again."""

SAME_RESET: Final = 2 * MINUTE
"""Milliseconds by which two agents of one account may tell the same reset differently."""

_JITTER: Final = (MINUTE, 5 * MINUTE)

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS: Final = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}

_MONTH: Final = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DAY: Final = rf"(?:{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(?P<year>20\d\d))?(?:,|\s+at)?\s+)?"
_HOURS: Final = (
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d))?\s?(?P<half>[ap]m)|(?P<hour24>[01]\d|2[0-3]):(?P<minute24>[0-5]\d))"
)
_ZONE: Final = r"(?:\s*\((?P<zone>[A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*|UTC)\)|\s+(?P<offset>(?:UTC|GMT)(?:[+-]\d{1,2}(?::[0-5]\d)?)?))?"
_ISO: Final = r"(?P<iso>20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?P<isozone>Z|[+-]\d\d:?\d\d)?)"
_LENGTH: Final = (
    r"(?P<length>\d+\s?(?:d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)"
    r"(?:,?\s*(?:and\s+)?\d+\s?(?:d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?))*)"
)
# nothing may go on behind it that says more: "3am tomorrow", "3am PDT"
_END: Final = r"(?=\s*(?:$|\n|[.,;·∙|)/│┃]))"
_BEGIN: Final = r"\b(?:resets?|(?:will\s+)?reset|try\s+again|available\s+again)\s+"

_AT: Final = re.compile(rf"{_BEGIN}(?:(?:at|on)\s+)?(?:{_ISO}|{_DAY}{_HOURS}{_ZONE}){_END}", re.IGNORECASE)
_IN: Final = re.compile(rf"{_BEGIN}(?:in|after)\s+{_LENGTH}{_END}", re.IGNORECASE)
_SECONDS: Final = re.compile(r"\blimit reached\|(?P<seconds>1\d{9})\b")
_PART: Final = re.compile(r"(\d+)\s?([dhms])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reset:
    """When a limit resets, in UTC milliseconds of the wall clock; `is_dated` unless only a time of day was shown."""

    at: Instant
    is_dated: bool = True


def reset_in(text: str, now: Instant, zone: tzinfo) -> Reset | None:
    """Read when a limit resets.

    Args:
        text: what the program prints of the limit, rows as they stand.
        now: when it was printed, by the wall clock.
        zone: the machine's time zone, for times without one.

    Returns:
        None where no time is shown, where it is not understood as a whole, and where two are shown that differ. A local
        time that comes twice counts as the later one, one that is skipped as the moment after the gap.
    """
    found = [
        *(_at(match, now, zone) for match in _AT.finditer(text)),
        *(_in(match, now) for match in _IN.finditer(text)),
        *(Reset(Instant(int(match["seconds"]) * SECOND)) for match in _SECONDS.finditer(text)),
    ]
    first = found[0] if found else None
    if first is None or any(one != first for one in found):
        return None
    return first if now - DAY < first.at <= now + FARTHEST else None


def _in(match: re.Match[str], now: Instant) -> Reset:
    parts = _PART.findall(match["length"])
    return Reset(Instant(now + sum(int(count) * _UNITS[unit.lower()] for count, unit in parts)))


def _at(match: re.Match[str], now: Instant, zone: tzinfo) -> Reset | None:
    try:
        if match["iso"]:
            moment = datetime.fromisoformat(match["iso"].replace(" ", "T"))
            return Reset(_instant(moment, zone))
        where = _zone(match, zone)
        hour, minute = _clock(match)
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(where).replace(tzinfo=None)
        shown = today.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if not match["month"]:
            return _next(shown, now, where)
        month = _MONTHS.index(match["month"][:3].lower()) + 1
        years = [int(match["year"])] if match["year"] else [today.year - 1, today.year, today.year + 1]
        day = int(match["day"])
        dated = (
            _instant(shown.replace(year=one, month=month, day=day), where) for one in years if _has(one, month, day)
        )
        at = next((one for one in dated if one > now - DAY), None)
        return Reset(at) if at is not None else None
    except (ValueError, KeyError, OverflowError, OSError):
        # a day, an hour or a zone that there is not
        return None


def _has(year: int, month: int, day: int) -> bool:
    try:
        return bool(date(year, month, day))
    except ValueError:
        return False


def _next(shown: datetime, now: Instant, zone: tzinfo) -> Reset | None:
    """The next instant at which local clocks show that."""
    days = (_instant(shown + timedelta(days=one), zone) for one in (0, 1))
    return next((Reset(at, is_dated=False) for at in days if at > now), None)


def _clock(match: re.Match[str]) -> tuple[int, int]:
    if match["hour24"]:
        return int(match["hour24"]), int(match["minute24"])
    hour = int(match["hour"])
    if not 1 <= hour <= 12:  # noqa: PLR2004 - as clocks with halves of the day have it
        raise ValueError(hour)
    return hour % 12 + (12 if match["half"].lower() == "pm" else 0), int(match["minute"] or 0)


def _zone(match: re.Match[str], zone: tzinfo) -> tzinfo:
    """The zone that is named, else the machine's. Raises `ValueError`, or `KeyError` for one that nobody knows."""
    if match["zone"]:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - commands judge limits, and read none

        return ZoneInfo(match["zone"])
    if not match["offset"]:
        return zone
    hours, _, minutes = match["offset"][3:].partition(":")
    sign = -1 if hours.startswith("-") else 1
    return timezone(sign * timedelta(hours=abs(int(hours or 0)), minutes=int(minutes or 0)))


def _instant(moment: datetime, zone: tzinfo) -> Instant:
    if moment.tzinfo is not None:
        return Instant(int(moment.timestamp() * 1000))
    both = (moment.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return Instant(int(max(both) * 1000))


def is_same_limit(one: Episode, other: Episode) -> bool:
    """Whether two agents stand at one limit of one account: the same program shows the same reset, or neither shows any.

    Nothing else tells accounts apart from outside.
    """
    if {one.kind, other.kind} != {AttentionKind.LIMITED} or one.program != other.program:
        return False
    if one.resets_at is None or other.resets_at is None:
        return one.resets_at is other.resets_at
    return abs(one.resets_at - other.resets_at) <= SAME_RESET


def is_met_again(former: Episode, latter: Episode) -> bool:
    """Whether an agent that had begun a turn in between has met the same limit again."""
    return (
        former.ended_at is not None
        and latter.began_at - former.ended_at <= AGAIN_WITHIN
        and is_same_limit(former, latter)
    )


def free_at(episode: Episode, wakes: Sequence[Instant]) -> Instant:
    """When an agent at its limit may be woken again.

    At the reset, and 1 to 5 minutes later, so that agents of one account come one by one: always the same for one agent at
    one limit. Where no time is shown after a while that grows with each turn that met the limit.

    Args:
        episode: its stretch at the limit.
        wakes: when its wakes were begun, in any order.
    """
    if episode.resets_at is not None:
        return Instant(episode.resets_at + _jitter(episode))
    since = [at for at in wakes if at > episode.began_at]
    step = min(episode.tries + len(since), len(BACKOFF) - 1)
    return Instant(max([episode.began_at, *since]) + BACKOFF[step])


def _jitter(episode: Episode) -> int:
    least, most = _JITTER
    drawn = int.from_bytes(blake2b(f"{episode.identity} {episode.id}".encode(), digest_size=8).digest(), "big")
    return least + drawn % (most - least + 1)


def clock_time(instant: Instant, now: Instant, wall: Instant, local: datetime) -> str:
    """`03:04`, with `tomorrow` or the date where it is another day, as a clock of this machine will show it.

    Args:
        instant: on the steady clock, in milliseconds.
        now: the steady clock's present.
        wall: the same by the wall clock.
        local: the same in the machine's time zone, which knows the offset of other days.
    """
    shown = datetime.fromtimestamp((instant - now + wall) / 1000, local.tzinfo)
    days = (shown.date() - local.date()).days
    return f"{shown:%H:%M}{' tomorrow' if days else ''}" if days in {0, 1} else f"{shown:%Y-%m-%d %H:%M}"
