"""Looking at deliveries; changes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from wake_bridge.domain.delivery import Delivery, DeliveryState, JournalEntry
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.routing import Binding
from wake_bridge.edges.ledger_store.part import LedgerPart
from wake_bridge.edges.ledger_store.rows import binding_of, delivery_of, event_of, journal_entry_of

# a task's moves are kept as `task:state:mark`; a semicolon follows the colon
_CONCERNED = """
    SELECT delivery.id AS carrier, wake_event.* FROM json_each(:ids) AS entity
    JOIN wake_event ON subject_key = entity.value OR subject_key >= entity.value || ':' AND subject_key < entity.value || ';'
    JOIN delivery_event ON event_id = wake_event.id
    JOIN delivery ON delivery.id = delivery_event.delivery_id
    WHERE delivery.state = 'DISPATCHED' AND delivery.hold_reason IS NOT NULL
        OR delivery.settled_at >= :since AND delivery.outcome IN ('submitted', 'unknown') AND delivery.proof < 3
    ORDER BY delivery.seq, wake_event.seq
"""
_AFTER_ALL_IDS = "\U0010ffff"


class DeliveryReading(LedgerPart):
    """Deliveries, their events and their journal."""

    def delivery(self, delivery_id: str) -> Delivery | None:
        """See `Ledger.delivery`. Raises `NotFound` when several ids begin like that."""
        found = self._db.rows("SELECT * FROM delivery WHERE id = ?", (delivery_id,))
        if not found and delivery_id:
            found = self._db.rows(
                "SELECT * FROM delivery WHERE id >= ? AND id < ? LIMIT 2", (delivery_id, delivery_id + _AFTER_ALL_IDS)
            )
        if len(found) > 1:
            raise NotFound("several deliveries begin like that", delivery_id, hint="give more of the id")
        return delivery_of(found[0]) if found else None

    def deliveries(self, *, state: DeliveryState | None, identity: Identity | None, limit: int) -> list[Delivery]:
        """See `Ledger.deliveries`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE (:state IS NULL OR state = :state)"
            " AND (:identity IS NULL OR identity = :identity) ORDER BY seq DESC LIMIT :limit",
            {"state": state, "identity": identity, "limit": limit},
        )

    def unsettled(self) -> list[Delivery]:
        """See `Ledger.unsettled`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE state IN ('PENDING', 'DISPATCHED', 'LOCKED', 'ESCALATED') ORDER BY seq"
        )

    def unacknowledged(self, since: Instant) -> list[Delivery]:
        """See `Ledger.unacknowledged`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE settled_at >= ? AND outcome IN ('submitted', 'unknown') AND proof < 3"
            " ORDER BY settled_at",
            (since,),
        )

    def unknown_since(self, since: Instant) -> list[Delivery]:
        """See `Ledger.unknown_since`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE state = 'FAILED' AND outcome = 'unknown' AND settled_at >= ? AND NOT is_seen_late"
            " ORDER BY settled_at",
            (since,),
        )

    def concerned(self, entity_ids: Collection[str], since: Instant) -> list[tuple[Delivery, list[WakeEvent]]]:
        """See `Ledger.concerned`."""
        found: dict[str, list[WakeEvent]] = {}
        for row in self._db.rows(_CONCERNED, {"ids": json.dumps(list(entity_ids)), "since": since}):
            found.setdefault(row["carrier"], []).append(event_of(row))
        return [(self._read(delivery_id), events) for delivery_id, events in found.items()]

    def event_ids_of(self, delivery_id: str) -> list[str]:
        """See `Ledger.event_ids_of`."""
        rows = self._db.rows(
            "SELECT wake_event.id FROM delivery_event JOIN wake_event ON wake_event.id = event_id"
            " WHERE delivery_event.delivery_id = ? ORDER BY epoch, log_id, seq",
            (delivery_id,),
        )
        return [row["id"] for row in rows]

    def events(self, event_ids: Sequence[str]) -> list[WakeEvent]:
        """See `Ledger.events`."""
        return self._events(
            "SELECT wake_event.* FROM json_each(?) AS wanted JOIN wake_event ON wake_event.id = wanted.value"
            " ORDER BY epoch, log_id, seq",
            (json.dumps(list(event_ids)),),
        )

    def events_of(self, delivery_id: str) -> list[WakeEvent]:
        """See `Ledger.events_of`."""
        return self._events(
            "SELECT wake_event.* FROM delivery_event JOIN wake_event ON wake_event.id = event_id"
            " WHERE delivery_event.delivery_id = ? ORDER BY epoch, log_id, seq",
            (delivery_id,),
        )

    def next_turn_events(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.next_turn_events`; those that ride along in a delivery already are not among them."""
        return self._events(
            "SELECT * FROM wake_event WHERE status = 'open' AND policy = 'next_turn' AND delivery_id IS NULL"
            " AND identity = ? ORDER BY epoch, log_id, seq",
            (identity,),
        )

    def journal_of(self, delivery_id: str) -> list[JournalEntry]:
        """See `Ledger.journal_of`."""
        return [
            journal_entry_of(row)
            for row in self._db.rows("SELECT * FROM journal WHERE delivery_id = ? ORDER BY seq", (delivery_id,))
        ]

    def fence_of(self, delivery_id: str) -> Binding | None:
        """See `Ledger.fence_of`."""
        stored = self._db.value("SELECT fence FROM delivery WHERE id = ?", (delivery_id,))
        return None if stored is None else binding_of(stored)
