"""A clock that a test turns by hand: a night passes in a moment, and nothing waits."""

from __future__ import annotations

from datetime import UTC, datetime

from wake_bridge.domain.names import Instant


class TurnedClock:
    """`ports.clock.Clock`; steady and wall time are one, local time is UTC. Begins at `start`, UTC milliseconds."""

    def __init__(self, start: int) -> None:
        self._at = start

    def turn(self, milliseconds: float) -> None:
        """Let so much time pass."""
        self._at += int(milliseconds)

    def now(self) -> Instant:
        """See `Clock.now`."""
        return Instant(self._at)

    def wall(self) -> Instant:
        """See `Clock.wall`."""
        return Instant(self._at)

    def local(self) -> datetime:
        """See `Clock.local`."""
        return datetime.fromtimestamp(self._at / 1000, UTC)
