"""What becomes of single events, and what an identity was shown (DESIGN §3)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

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

    def window_hits(self) -> Mapping[str, int]:
        """See `Ledger.window_hits`."""
        hits: Counter[str] = Counter()
        for row in self._db.rows(
            "SELECT subscription_id, other_subscriptions, COUNT(DISTINCT id) AS hits FROM ("
            " SELECT e.id, e.subscription_id, e.other_subscriptions,"
            "  ROW_NUMBER() OVER (PARTITION BY d.delivery_id ORDER BY e.seq) AS place"
            "  FROM delivery_event AS d JOIN wake_event AS e ON e.id = d.event_id"
            ") WHERE place > 1 GROUP BY subscription_id, other_subscriptions"
        ):
            for one in (row["subscription_id"], *json.loads(row["other_subscriptions"])):
                hits[one] += row["hits"]
        return hits
