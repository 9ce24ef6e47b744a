"""Deliveries that another host sees to: many at once, for there are as many as messages on the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, Outcome, Proof
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.storage.ledger.columns import columns_of_hold, delivery_of, to_json
from wake_bridge.storage.ledger.moves import DeliveryMoves

# CROSS JOIN, or all that waits is gone through, and for each of it all that is asked about
_FRESH: Final = """
    SELECT delivery.* FROM json_each(?) AS asked CROSS JOIN delivery ON delivery.id = asked.value
    WHERE (state = 'PENDING' OR (state = 'DISPATCHED' AND hold_reason IS NULL)) AND NOT EXISTS (
        SELECT 1 FROM wake_event WHERE delivery_id = delivery.id AND (log_id = 0 OR again_of <> ''))
"""
_UNTOLD: Final = """
    SELECT event.identity, event.subject_key FROM delivery JOIN wake_event AS event ON event.delivery_id = delivery.id
    WHERE delivery.state = 'DISPATCHED' AND delivery.identity IN (SELECT value FROM json_each(:identities))
        AND event.status = 'open' AND event.log_id > 0 AND event.again_of = ''
    UNION SELECT event.identity, event.subject_key FROM wake_event AS event
    WHERE event.policy = 'next_turn' AND event.delivery_id IS NULL
        AND event.status = 'open' AND event.log_id > 0 AND event.again_of = ''
        AND event.identity IN (
            SELECT identity FROM delivery
            WHERE state = 'DISPATCHED' AND identity IN (SELECT value FROM json_each(:identities)))
"""
_TOLD: Final = """
    UPDATE wake_event SET status = 'announced', reason = :why, status_at = :now
    WHERE subject_key = :subject_key AND identity = :identity AND status = 'open' AND again_of = ''
        AND (delivery_id IS NULL OR EXISTS (SELECT 1 FROM delivery WHERE id = delivery_id AND state = 'DISPATCHED'))
"""
_NOTHING_LEFT: Final = """
    SELECT delivery.* FROM delivery
    WHERE state = 'DISPATCHED' AND identity IN (SELECT value FROM json_each(?)) AND NOT EXISTS (
        SELECT 1 FROM wake_event WHERE delivery_id = delivery.id AND status = 'open')
"""


class SeenToByOtherHosts(DeliveryMoves):
    """Holding what another host drives, and ending what it has told."""

    def hold_fresh(self, holds: Mapping[str, Hold], now: Instant) -> list[Delivery]:
        """See `Ledger.hold_fresh`."""
        with self._db.derived():
            fresh = self._deliveries(_FRESH, (to_json([*holds]),))
            for delivery in fresh:
                if delivery.state is DeliveryState.PENDING:
                    self._to_dispatched(delivery, now)
                hold = holds[delivery.id]
                self._db.change(
                    "UPDATE delivery SET hold_reason = :hold_reason, hold_cause = :hold_cause, hold_detail = :hold_detail,"
                    " hold_where = :hold_where, next_look_at = :next_look_at WHERE id = :id",
                    {"id": delivery.id, **columns_of_hold(hold)},
                )
                self._write_change_of_hold(delivery, hold, now)
            return fresh

    def untold(self, identities: Collection[Identity]) -> list[tuple[Identity, str]]:
        """See `Ledger.untold`."""
        found = self._db.rows(_UNTOLD, {"identities": to_json(sorted(identities))})
        return [(Identity(row["identity"]), row["subject_key"]) for row in found]

    def close_told(self, told: Sequence[tuple[Identity, str, str]], now: Instant) -> list[Delivery]:
        """See `Ledger.close_told`."""
        with self._db.derived():
            for identity, subject_key, why in told:
                self._db.change(_TOLD, {"identity": identity, "subject_key": subject_key, "why": why, "now": now})
            over = [
                delivery_of(row)
                for row in self._db.rows(_NOTHING_LEFT, (to_json(sorted({identity for identity, _, _ in told})),))
            ]
            for delivery in over:
                locked = self._walk_to_locked(delivery, f"to settle as {Outcome.READ}", now)
                self._settle_frozen(locked, Outcome.READ, Proof.NONE, {}, now)
            return over
