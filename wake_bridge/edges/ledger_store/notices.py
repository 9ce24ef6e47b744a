"""What a person was told: each thing once, also across restarts (DESIGN §3: a notice)."""

from __future__ import annotations

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.names import Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.edges.ledger_store.part import LedgerPart
from wake_bridge.ports.ledger_records import GivenNotice


class NoticeRecord(LedgerPart):
    """Notices given."""

    def give_notice(self, notice: Notice, now: Instant) -> bool:
        """See `Ledger.give_notice`."""
        with self._db.transaction():
            given = self._db.change(
                "INSERT INTO notice (subject, at, identity, reason, title, body) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (notice.subject, now, notice.identity, notice.reason, notice.title, notice.body),
            )
            return given > 0

    def withdraw_notice(self, subject: str) -> None:
        """See `Ledger.withdraw_notice`."""
        with self._db.transaction():
            self._db.change("DELETE FROM notice WHERE subject = ?", (subject,))

    def noticed(self) -> set[str]:
        """See `Ledger.noticed`."""
        return {row["subject"] for row in self._db.rows("SELECT subject FROM notice")}

    def failed_untold(self, since: Instant) -> list[Delivery]:
        """See `Ledger.failed_untold`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE state = 'FAILED' AND settled_at >= ? AND proof < 3 AND NOT is_seen_late"
            " AND NOT EXISTS (SELECT 1 FROM notice WHERE subject = delivery.id)"
            " AND EXISTS (SELECT 1 FROM wake_event WHERE delivery_id = delivery.id"
            " AND (status = 'open' OR (delivery.outcome = 'unknown' AND status = 'announced'))) ORDER BY settled_at",
            (since,),
        )

    def standing_notices(self, limit: int) -> list[GivenNotice]:
        """See `Ledger.standing_notices`."""
        return [
            GivenNotice(row["subject"], Instant(row["at"]), row["identity"], row["reason"], row["title"], row["body"])
            for row in self._db.rows(
                "SELECT notice.* FROM notice LEFT JOIN delivery ON delivery.id = notice.subject"
                " WHERE COALESCE(delivery.state, '') <> 'DELIVERED' AND is_seen_late IS NOT 1 ORDER BY notice.at DESC LIMIT ?",
                (limit,),
            )
        ]
