"""Waiting events are put under the lease of a hook, in one transaction (DESIGN §7, one driver)."""

from __future__ import annotations

from collections.abc import Sequence

from wake_bridge.domain.delivery import Delivery, DeliveryState, Step
from wake_bridge.domain.errors import StaleLease
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.edges.ledger_store.moves import DeliveryMoves


class HandingOver(DeliveryMoves):
    """A delivery for the occasion, or the one that waits."""

    def hand_over(
        self,
        identity: Identity,
        waiting: Delivery | None,
        *,
        delivery_id: str,
        digest: str,
        events: Sequence[str],
        adapter: str,
        where: str,
        pane_key: str,
        until: Instant,
        now: Instant,
    ) -> Delivery:
        """See `Ledger.hand_over`."""
        with self._db.transaction():
            delivery = waiting or self._open_for_hook(identity, delivery_id, len(events), now)
            if delivery.state is DeliveryState.PENDING:
                self._to_dispatched(delivery, now)
                delivery = self._read(delivery_id)
            self._to_locked(delivery, digest, events, adapter, where, pane_key, None, until, now)
            return self._read(delivery_id)

    def _open_for_hook(self, identity: Identity, delivery_id: str, events: int, now: Instant) -> Delivery:
        other = self._unfrozen_of(identity)
        if other is not None:
            raise StaleLease(
                "another delivery of the identity has been opened meanwhile", other.id, hint="look at what waits again"
            )
        self._db.change(
            "INSERT INTO delivery (id, identity, created_at, due_at) VALUES (?, ?, ?, ?)",
            (delivery_id, identity, now, now),
        )
        self._write_line(delivery_id, Step.OPENED, {"events": str(events)}, now)
        return self._read(delivery_id)
