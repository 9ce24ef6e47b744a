"""Events become deliveries, and deliveries fall due."""

from __future__ import annotations

from typing import Protocol

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.ports.ledger_records import NewId


class Coalescing(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def gather(self, now: Instant, new_id: NewId) -> list[Delivery]:
        """Put every open immediate event that has no delivery into its identity's unfrozen one, or into a new one.

        A joined delivery becomes due at the earlier of both instants, never later; one that is past its window
        (DISPATCHED) keeps its next look. Answers the deliveries touched.
        """

    def due(self, now: Instant) -> list[Delivery]:
        """Deliveries to act on now, oldest first: windows closed, looks due, leases expired."""

    def next_deadline(self) -> Instant | None:
        """When `due` will have something next; None when nothing waits."""

    def unsettled(self) -> list[Delivery]:
        """Deliveries that are not terminal, oldest first."""

    def look_at_once(self, identity: Identity | None, now: Instant) -> None:
        """Bring the next look of an identity's held deliveries (None: all) forward to `now`."""
