"""The machine's time: a clock for deadlines that nobody can set, and instants as text."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo

from wake_bridge.domain.names import Instant


def timestamp_of(moment: datetime) -> str:
    """`2026-11-27T21:53:52.502Z`."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def timestamp_now() -> str:
    """The wall clock's time as text."""
    return timestamp_of(datetime.now(UTC))


def timestamp_of_instant(instant: Instant) -> str:
    """Milliseconds since 1970 as text."""
    return timestamp_of(datetime.fromtimestamp(instant / 1000, UTC))


def steady_seconds() -> float:
    """A count that goes on while the machine sleeps, where the system offers one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class MachineZone(tzinfo):
    """The machine's time zone with all its rules: those of another day, too, and of the nights in which clocks change."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """What local clocks are ahead of UTC at a local time; `fold` says which of two alike is meant."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Not told apart from the offset."""
        del moment
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """As the system calls it."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """What local clocks show at a moment of UTC."""
        shown = moment.replace(tzinfo=UTC).astimezone()
        first = shown.replace(tzinfo=self, fold=0)
        return first if first.utcoffset() == shown.utcoffset() else first.replace(fold=1)


class SteadyClock:
    """Wall time at the start of the process, counted on steadily; a changed wall clock moves no deadline."""

    def __init__(self) -> None:
        self._start = time.time() - steady_seconds()

    def now(self) -> Instant:
        """Steady UTC milliseconds."""
        return Instant(int((self._start + steady_seconds()) * 1000))

    def wall(self) -> Instant:
        """The wall clock's UTC milliseconds."""
        return Instant(int(time.time() * 1000))

    def local(self) -> datetime:
        """The wall clock in the machine's own time zone."""
        return datetime.now(UTC).astimezone(MachineZone())
