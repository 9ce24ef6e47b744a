"""What becomes of an event beside its delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Identity, Instant


class Events(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def mark(self, event_ids: Sequence[str], status: EventStatus, why: str, now: Instant) -> None:
        """Set the status of open events (read, superseded, announced, refused); `why` is kept in `refused_by`."""

    def announce(self, identity: Identity, subject_keys: Sequence[str], via: str, now: Instant) -> None:
        """Remember that an identity was shown those subjects (by `inbox`), event or not; open events are closed by it."""

    def announced(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """Which of them it was shown."""

    def window_hits(self) -> Mapping[str, int]:
        """For each subscription how many of its events joined a wake that another event had begun, as far as is kept."""
