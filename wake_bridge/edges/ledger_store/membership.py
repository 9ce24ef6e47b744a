"""Which events a delivery carries: joining, leaving, moving on, and what they become at its end (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wake_bridge.domain.delivery import Delivery, Outcome
from wake_bridge.domain.errors import IllegalTransition, StaleLease
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.edges.ledger_store.part import LedgerPart

_TELLS: Final = {Outcome.SUBMITTED, Outcome.ACKNOWLEDGED, Outcome.UNKNOWN}
"""Outcomes after which the events count as announced: the text did, or may, stand before the agent."""


class Membership(LedgerPart):
    """No open event is ever without a way to a delivery: it is carried by one that is alive or failed, or it is loose."""

    def _unfrozen_of(self, identity: Identity) -> Delivery | None:
        found = self._deliveries(
            "SELECT * FROM delivery WHERE identity = ? AND state IN ('PENDING', 'DISPATCHED')", (identity,)
        )
        return found[0] if found else None

    def _keep_exactly(self, delivery_id: str, events: Sequence[str]) -> None:
        """Make these the events of a delivery; raises `StaleLease` if one of them is not open and free to be taken."""
        if not events:
            raise IllegalTransition("a digest of no events cannot be locked", delivery_id)
        members = self._db.rows("SELECT event_id FROM delivery_event WHERE delivery_id = ?", (delivery_id,))
        before, after = {row["event_id"] for row in members}, set(events)
        for event_id in before - after:
            self._db.change(
                "DELETE FROM delivery_event WHERE delivery_id = ? AND event_id = ?", (delivery_id, event_id)
            )
            self._db.change(
                "UPDATE wake_event SET delivery_id = NULL WHERE id = ? AND delivery_id = ?", (event_id, delivery_id)
            )
        for event_id in after - before:
            self._db.change(
                "INSERT INTO delivery_event (delivery_id, event_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (delivery_id, event_id),
            )
        self._db.change(
            "UPDATE wake_event SET delivery_id = :id WHERE delivery_id IS NULL AND status = 'open'"
            " AND id IN (SELECT event_id FROM delivery_event WHERE delivery_id = :id)",
            {"id": delivery_id},
        )
        taken = self._db.rows(
            "SELECT id FROM wake_event WHERE delivery_id = ? AND status = 'open'",
            (delivery_id,),
        )
        if lost := after - {row["id"] for row in taken}:
            raise StaleLease(
                f"event {min(lost)} is no longer open for this delivery",
                delivery_id,
                hint="it was read or told elsewhere meanwhile: compose the digest again",
            )

    def _move_events(self, origin: str, destination: str) -> int:
        """All events of one delivery become another's; answers how many."""
        self._db.change(
            "INSERT INTO delivery_event (delivery_id, event_id) SELECT ?, event_id FROM delivery_event"
            " WHERE delivery_id = ? ON CONFLICT DO NOTHING",
            (destination, origin),
        )
        self._db.change("UPDATE wake_event SET delivery_id = ? WHERE delivery_id = ?", (destination, origin))
        return self._db.change("DELETE FROM delivery_event WHERE delivery_id = ?", (origin,))

    def _close_events(self, delivery_id: str, outcome: Outcome, now: Instant) -> None:
        """What becomes of the open events when their delivery ends."""
        if outcome in _TELLS:
            self._db.change(
                "UPDATE wake_event SET status = 'announced', reason = ?, status_at = ?"
                " WHERE delivery_id = ? AND status = 'open'",
                (outcome, now, delivery_id),
            )
        elif outcome is Outcome.FAILED:
            self._let_riders_go(delivery_id, is_remembered=True)
        else:
            self._db.change(
                "DELETE FROM delivery_event WHERE delivery_id = :id"
                " AND event_id IN (SELECT id FROM wake_event WHERE delivery_id = :id AND status = 'open')",
                {"id": delivery_id},
            )
            self._db.change(
                "UPDATE wake_event SET delivery_id = NULL WHERE delivery_id = ? AND status = 'open'", (delivery_id,)
            )

    def _let_riders_go(self, delivery_id: str, *, is_remembered: bool) -> None:
        """`next_turn` events rode along in a digest that was not delivered: free them to ride in another.

        They stay among the delivery's events only where its digest stays.
        """
        if not is_remembered:
            self._db.change(
                "DELETE FROM delivery_event WHERE delivery_id = :id AND event_id IN"
                " (SELECT id FROM wake_event WHERE delivery_id = :id AND status = 'open' AND policy <> 'immediate')",
                {"id": delivery_id},
            )
        self._db.change(
            "UPDATE wake_event SET delivery_id = NULL"
            " WHERE delivery_id = ? AND status = 'open' AND policy <> 'immediate'",
            (delivery_id,),
        )
