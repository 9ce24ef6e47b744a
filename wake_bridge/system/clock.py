"""The machine's time: a clock for deadlines that nobody can set, and instants as text."""

from __future__ import annotations

import time
from datetime import UTC, datetime

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
        return datetime.now(UTC).astimezone()
