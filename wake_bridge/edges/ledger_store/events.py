"""What becomes of single events, and what an identity was shown (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence

from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.edges.ledger_store.part import LedgerPart
from wake_bridge.edges.ledger_store.rows import to_json


class EventRecord(LedgerPart):
    """Closing events, remembering what was announced."""

    def mark(self, event_ids: Sequence[str], status: EventStatus, why: str, now: Instant) -> None:
        """See `Ledger.mark`."""
        with self._db.transaction():
            self._db.change_each(
                "UPDATE wake_event SET status = ?, reason = ?, status_at = ? WHERE id = ? AND status = 'open'",
                [(status, why, now, event_id) for event_id in event_ids],
            )

    def announce(self, identity: Identity, subject_keys: Sequence[str], via: str, now: Instant) -> None:
        """See `Ledger.announce`."""
        with self._db.transaction():
            self._db.change_each(
                "INSERT INTO announced (identity, subject_key, via, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(identity, key, via, now) for key in subject_keys],
            )
            self._db.change_each(
                "UPDATE wake_event SET status = 'announced', reason = ?, status_at = ?"
                " WHERE identity = ? AND subject_key = ? AND status = 'open'",
                [(via, now, identity, key) for key in subject_keys],
            )

    def announced(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """See `Ledger.announced`."""
        found = self._db.rows(
            "SELECT subject_key FROM json_each(?) AS asked JOIN announced ON subject_key = asked.value AND identity = ?",
            (to_json(list(subject_keys)), identity),
        )
        return {row["subject_key"] for row in found}
