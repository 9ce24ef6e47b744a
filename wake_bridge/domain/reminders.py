"""Reminders: when the next one is due, by a person's own clock and through its changes; and what is still told of one that was missed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wake_bridge.domain.events import REMINDER, PulseDetail, WakeEvent
from wake_bridge.domain.names import DAY, EPOCH_START, MINUTE, Epoch, EventKind, Identity, Instant, LogId
from wake_bridge.domain.values import dataclass

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

MISSED_FOR: Final = DAY
"""Milliseconds for which one that was missed is still told, once and late."""

ON_TIME: Final = MINUTE
"""Milliseconds after which one counts as late."""

LONGEST_TEXT: Final = 200
"""Characters of a reminder: all of it stands in one wake."""

_CRON_FIELDS: Final = 5

_AT: Final = re.compile(r"(?:(\d{4})-(\d{2})-(\d{2})[ T])?([01]?\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Reminder:
    """One reminder: for an agent (`identity`), or for a person by a channel (empty: the default).

    `due_at` and all else here are of the wall clock, in UTC. `zone` is the IANA name of the zone in which `cron` is meant,
    which is empty for one that comes once. `by` is the agent that set it, empty for a person.
    """

    id: str
    text: str
    zone: str
    due_at: Instant
    identity: str = ""
    channel: str = ""
    cron: str = ""
    by: str = ""
    created_at: Instant = EPOCH_START
    last_at: Instant | None = None
    ended_at: Instant | None = None
    ending: str = ""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done with a reminder now: tell it or not, and when it is due next; `next_at` None ends it."""

    tells: bool
    was_due_at: Instant
    next_at: Instant | None

    def is_late(self, now: Instant) -> bool:
        """Whether it is told so late that it says so."""
        return now - self.was_due_at > ON_TIME


def next_after(cron: str, zone: str, after: Instant) -> Instant:
    """The first time after an instant, strictly, at which a cron expression is due in a zone.

    A local time that a clock skips counts at the end of the gap; one that it shows twice counts once, the first time.

    Raises:
        ValueError: the expression is none, or is never due; or there is no such zone.
    """
    return next(_times(cron, zone, after))


def require_five_fields(cron: str) -> None:
    """Raise `ValueError` for an expression of another length; the library would take six, with seconds."""
    if (count := len(cron.split())) != _CRON_FIELDS:
        raise ValueError(
            f"{cron!r} has {count} field{'s' * (count != 1)}: a cron expression has five, minute, hour, day of the month, month and"
            " day of the week"
        )


def _times(cron: str, zone: str, after: Instant) -> Iterator[Instant]:
    # every command knows reminders, and few ask for a time
    from cronsim import CronSim, CronSimError  # noqa: PLC0415

    where = _zone(zone)
    try:
        times = CronSim(cron, datetime.fromtimestamp(after / 1000, UTC).astimezone(where))
        for time in times:
            at = Instant(int(time.timestamp() * 1000))
            # within the hour that comes twice the library may answer what was before
            if at > after:
                yield at
    except CronSimError as wrong:
        raise ValueError(f"{cron!r} is no cron expression ({wrong})") from wrong
    raise ValueError(f"{cron!r} is never due")


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - as above

    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as unknown:
        raise ValueError(f"there is no time zone {name!r}") from unknown


def at_time(text: str, zone: str, now: Instant) -> Instant:
    """When `18:00`, or `2026-12-24 18:00`, comes next in a zone, by the rules of `next_after`.

    Raises:
        ValueError: it is no such time, or it is over.
    """
    found = _AT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no time such as 18:00 or 2026-12-24 18:00")
    year, month, day, hour, minute = found.groups()
    if year is None:
        return next_after(f"{int(minute)} {int(hour)} * * *", zone, now)
    where = _zone(zone)
    try:
        midnight = datetime(int(year), int(month), int(day), tzinfo=where)
    except ValueError:
        raise ValueError(f"{text!r} is no day of the calendar: write it as year-month-day, 2026-12-24 18:00") from None
    if midnight.date() < datetime.fromtimestamp(now / 1000, where).date():
        raise ValueError(f"{text!r} is over")
    before = Instant(int((midnight - timedelta(minutes=1)).timestamp() * 1000))
    at = next_after(f"{int(minute)} {int(hour)} {int(day)} {int(month)} *", zone, before)
    if at <= now:
        raise ValueError(f"{text!r} is over")
    return at


def due_now(reminder: Reminder, now: Instant) -> Due | None:
    """What is to be done now; None while it is not due.

    However many times were missed, it is told once: the last of them, if that was within a day.
    """
    if reminder.due_at > now:
        return None
    if not reminder.cron:
        return Due(now - reminder.due_at <= MISSED_FOR, reminder.due_at, None)
    was_due, coming = reminder.due_at, reminder.due_at
    for at in _times(reminder.cron, reminder.zone, Instant(max(reminder.due_at, now - MISSED_FOR - 1))):
        coming = at
        if at > now:
            break
        was_due = at
    return Due(now - was_due <= MISSED_FOR, was_due, coming)


def after_firing(reminder: Reminder, due: Due, now: Instant) -> Reminder:
    """The reminder as it stands once that was done."""
    told = replace(reminder, last_at=now) if due.tells else reminder
    if due.next_at is not None:
        return replace(told, due_at=due.next_at)
    return replace(told, ended_at=now, ending="told" if due.tells else "missed")


def words_of(reminder: Reminder, due: Due, now: Instant) -> str:
    """The text, and that it comes late where it does. Raises `ValueError` where the zone is gone from this system."""
    if not due.is_late(now):
        return reminder.text
    was = datetime.fromtimestamp(due.was_due_at / 1000, _zone(reminder.zone))
    return f"{reminder.text} (late: it was due at {was:%H:%M} on {was:%Y-%m-%d})"


def event_for(
    reminder: Reminder, due: Due, event_id: str, epoch: Epoch, now: Instant, wall: Instant, window: int
) -> WakeEvent:
    """The event that wakes the agent: like one of a row, with window, guards and presence; it has no row in the log.

    Args:
        reminder: whose `identity` is woken.
        due: what is to be done.
        event_id: of the event.
        epoch: the present life of the source.
        now: the moment, by the steady clock.
        wall: the same by the wall clock.
        window: seconds to collect before the wake.
    """
    pulse = f"{REMINDER}:{reminder.id}:{due.was_due_at}"
    return WakeEvent(
        id=event_id,
        epoch=epoch,
        log_id=LogId(0),
        identity=Identity(reminder.identity),
        kind=EventKind.PULSE,
        subject_key=pulse,
        detail=PulseDetail(pulse, REMINDER, words_of(reminder, due, wall)),
        subscription_id="",
        matched_at=now,
        occurred_at=now,
        window=window,
    )
