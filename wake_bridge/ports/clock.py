"""Time as the engine sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from wake_bridge.domain.names import Instant


class Clock(Protocol):
    """Two readings of time.

    Contract: `now` starts as the wall clock's UTC and then only ever counts on (suspend included), so that a deadline
    set in this process is never moved by a changed clock; `wall` is what the machine believes at the moment, for ages
    of mail and for quiet hours.
    """

    def now(self) -> Instant:
        """Steady UTC milliseconds."""

    def wall(self) -> Instant:
        """The wall clock's UTC milliseconds."""

    def local(self) -> datetime:
        """The wall clock in the machine's own time zone, which knows the offset of other days as well."""
