"""From open events to deliveries, and when somebody must look at them (DESIGN §3)."""

from __future__ import annotations

from wake_bridge.domain.delivery import Delivery, Step
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.edges.ledger_store.part import LedgerPart
from wake_bridge.ports.ledger_records import NewId


class Coalescing(LedgerPart):
    """At most one unfrozen delivery per identity; events join it, and joining never postpones."""

    def gather(self, now: Instant, new_id: NewId) -> list[Delivery]:
        """See `Ledger.gather`."""
        loose = (
            "SELECT identity, MIN(due_at) AS due_at, COUNT(*) AS events FROM wake_event"
            " WHERE status = 'open' AND policy = 'immediate' AND delivery_id IS NULL GROUP BY identity"
        )
        if not self._db.rows(loose):
            return []
        with self._db.transaction():
            return [
                self._gather_for(row["identity"], row["due_at"], row["events"], now, new_id)
                for row in self._db.rows(loose)
            ]

    def due(self, now: Instant) -> list[Delivery]:
        """See `Ledger.due`."""
        return self._deliveries("SELECT * FROM delivery WHERE act_at <= ? ORDER BY created_at, seq", (now,))

    def next_deadline(self) -> Instant | None:
        """See `Ledger.next_deadline`; `due` is not empty from that instant on, and empty before."""
        earliest = self._db.value("SELECT MIN(act_at) FROM delivery WHERE act_at IS NOT NULL")
        return None if earliest is None else Instant(earliest)

    def look_at_once(self, identity: Identity | None, now: Instant) -> None:
        """See `Ledger.look_at_once`."""
        with self._db.transaction():
            self._db.change(
                "UPDATE delivery SET next_look_at = :now WHERE act_at > :now AND next_look_at > :now"
                " AND (:identity IS NULL OR identity = :identity)",
                {"now": now, "identity": identity},
            )

    def _gather_for(self, identity: Identity, due_at: Instant, events: int, now: Instant, new_id: NewId) -> Delivery:
        unfrozen = self._db.value(
            "SELECT id FROM delivery WHERE identity = ? AND state IN ('PENDING', 'DISPATCHED')", (identity,)
        )
        if unfrozen is None:
            unfrozen = self._open(identity, due_at, now, new_id)
            self._write_line(unfrozen, Step.OPENED, {"events": str(events)}, now)
        else:
            self._db.change(
                "UPDATE delivery SET due_at = :due_at WHERE id = :id AND due_at > :due_at",
                {"id": unfrozen, "due_at": due_at},
            )
            self._write_line(unfrozen, Step.JOINED, {"events": str(events)}, now)
        self._take_in_loose(unfrozen, identity)
        return self._read(unfrozen)

    def _open(self, identity: Identity, due_at: Instant, now: Instant, new_id: NewId) -> str:
        delivery_id = new_id()
        self._db.change(
            "INSERT INTO delivery (id, identity, created_at, due_at) VALUES (?, ?, ?, ?)",
            (delivery_id, identity, now, due_at),
        )
        return delivery_id

    def _take_in_loose(self, delivery_id: str, identity: Identity) -> None:
        self._db.change(
            "INSERT INTO delivery_event (delivery_id, event_id) SELECT ?, id FROM wake_event"
            " WHERE status = 'open' AND policy = 'immediate' AND delivery_id IS NULL AND identity = ?"
            " ON CONFLICT DO NOTHING",
            (delivery_id, identity),
        )
        self._db.change(
            "UPDATE wake_event SET delivery_id = ?"
            " WHERE status = 'open' AND policy = 'immediate' AND delivery_id IS NULL AND identity = ?",
            (delivery_id, identity),
        )
