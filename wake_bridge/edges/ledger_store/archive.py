"""What the ledger remembers, for people's questions; changes nothing (`ports.archive`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wake_bridge.domain.delivery import Delivery, Outcome
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.edges.ledger_store.part import LedgerPart
from wake_bridge.edges.ledger_store.rows import to_json
from wake_bridge.ports.ledger_records import Quarantined


class Memory(LedgerPart):
    """Events by subject or row, deliveries by event, and what ended how."""

    def find_events(self, *, subject_key: str = "", log_id: LogId | None = None) -> list[WakeEvent]:
        """See `Archive.find_events`; of both, whichever is given."""
        return self._events(
            "SELECT * FROM wake_event WHERE subject_key = :subject AND :subject <> ''"
            # a task's moves are kept as `task:state:mark`; a semicolon follows the colon
            " UNION SELECT * FROM wake_event WHERE kind = 'task' AND :subject <> ''"
            " AND subject_key >= :subject || ':' AND subject_key < :subject || ';'"
            " UNION SELECT * FROM wake_event WHERE log_id = :log_id AND log_id > 0 ORDER BY epoch, log_id, seq",
            {"subject": subject_key, "log_id": log_id},
        )

    def deliveries_with(self, event_id: str) -> list[Delivery]:
        """See `Archive.deliveries_with`."""
        return self._deliveries(
            "SELECT delivery.* FROM delivery_event JOIN delivery ON delivery.id = delivery_id WHERE event_id = ?"
            " ORDER BY seq",
            (event_id,),
        )

    def quarantined(self, log_id: LogId | None, entity_ids: Collection[str]) -> list[Quarantined]:
        """See `Archive.quarantined`."""
        rows = self._db.rows(
            "SELECT log_id, entity_id, why FROM quarantine WHERE log_id = ? OR entity_id IN (SELECT value FROM json_each(?))"
            " ORDER BY epoch, log_id",
            (log_id, to_json(list(entity_ids))),
        )
        return [Quarantined(LogId(row["log_id"]), row["entity_id"], row["why"]) for row in rows]

    def outcomes_since(self, since: Instant) -> Mapping[Outcome, int]:
        """See `Archive.outcomes_since`."""
        rows = self._db.rows(
            "SELECT CASE WHEN is_seen_late THEN 'submitted' ELSE outcome END AS ended, COUNT(*) AS deliveries"
            " FROM delivery WHERE settled_at >= ? GROUP BY ended",
            (since,),
        )
        return {Outcome(row["ended"]): row["deliveries"] for row in rows}

    def last_wakes(self) -> Mapping[Identity, Instant]:
        """See `Archive.last_wakes`."""
        rows = self._db.rows(
            "SELECT identity, MAX(journal.at) AS at FROM journal JOIN delivery ON delivery.id = delivery_id"
            " WHERE step = 'intent_submit' AND state <> 'DISPATCHED' GROUP BY identity"
        )
        return {Identity(row["identity"]): Instant(row["at"]) for row in rows}
