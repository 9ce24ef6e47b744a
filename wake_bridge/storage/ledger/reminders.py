"""What is left to the heartbeat, when it last spoke, and what the person was told."""

from __future__ import annotations

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.heartbeat import HEARTBEAT, Beat
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.ports.ledger_records import GivenNotice
from wake_bridge.storage.ledger.database import LedgerPart


class HeartbeatRecord(LedgerPart):
    """Stored events and the cooldown of each identity."""

    def left_to_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.left_to_heartbeat`."""
        return self._events(
            "SELECT * FROM wake_event WHERE identity = ? AND by_heartbeat = 1 AND status = 'open'"
            " AND delivery_id IS NULL ORDER BY epoch, log_id, seq",
            (identity,),
        )

    def told_by_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.told_by_heartbeat`."""
        return self._events(
            "SELECT wake_event.* FROM wake_event JOIN delivery ON delivery.id = wake_event.delivery_id"
            " WHERE wake_event.identity = ? AND by_heartbeat = 1 AND status = 'announced' AND kind = 'message'"
            # a digest that was begun for another reason has told them for good
            " AND delivery.adapter = ? AND EXISTS (SELECT 1 FROM delivery_event JOIN wake_event AS pulse"
            " ON pulse.id = delivery_event.event_id WHERE delivery_event.delivery_id = delivery.id"
            " AND pulse.subject_key = ? || pulse.id)"
            " ORDER BY wake_event.epoch, wake_event.log_id, wake_event.seq",
            (identity, HEARTBEAT, f"{HEARTBEAT}:"),
        )

    def beat(self, identity: Identity) -> Beat | None:
        """See `Ledger.beat`."""
        row = self._db.row(
            "SELECT cooldown, MAX(nudged_at, COALESCE((SELECT MAX(settled_at) FROM delivery"
            " WHERE delivery.identity = heartbeat.identity AND adapter = :source), 0)) AS nudged_at"
            " FROM heartbeat WHERE identity = :identity",
            {"identity": identity, "source": HEARTBEAT},
        )
        return None if row is None else Beat(Instant(row["nudged_at"]), row["cooldown"])

    def note_beat(self, identity: Identity, beat: Beat) -> None:
        """See `Ledger.note_beat`."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO heartbeat (identity, nudged_at, cooldown) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET nudged_at = excluded.nudged_at, cooldown = excluded.cooldown",
                (identity, beat.nudged_at, beat.cooldown),
            )


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
