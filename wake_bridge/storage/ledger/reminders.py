"""Reminders: set, cancelled, and fired in one transaction with what they bring about."""

from __future__ import annotations

import sqlite3

from wake_bridge.domain.channels import Send
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Instant
from wake_bridge.domain.reminders import Reminder
from wake_bridge.storage.ledger.events import TailRecord
from wake_bridge.storage.ledger.sends import SendRecord


class ReminderRecord(TailRecord, SendRecord):
    """Stored reminders."""

    def set_reminder(self, reminder: Reminder, *, at_most: int | None = None) -> bool:
        """See `ReminderStore.set_reminder`."""
        with self._db.transaction():
            theirs = "SELECT COUNT(*) FROM reminder WHERE set_by = ? AND ended_at IS NULL"
            if at_most is not None and self._db.value(theirs, (reminder.by,)) >= at_most:
                return False
            self._db.change(
                "INSERT INTO reminder (id, text, zone, cron, identity, channel, set_by, due_at, created_at, ending)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
                (
                    reminder.id,
                    reminder.text,
                    reminder.zone,
                    reminder.cron,
                    reminder.identity,
                    reminder.channel,
                    reminder.by,
                    reminder.due_at,
                    reminder.created_at,
                ),
            )
            return True

    def reminders(self, *, due_at: Instant | None = None) -> list[Reminder]:
        """See `ReminderStore.reminders`."""
        query = "SELECT * FROM reminder WHERE ended_at IS NULL AND (:at IS NULL OR due_at <= :at) ORDER BY due_at, id"
        return [_reminder_of(row) for row in self._db.rows(query, {"at": due_at})]

    def find_reminder(self, reminder_id: str) -> Reminder | None:
        """See `ReminderStore.find_reminder`."""
        query = "SELECT * FROM reminder WHERE id >= :id AND id < :id || '~' LIMIT 2"
        found = self._db.rows(query, {"id": reminder_id}) if reminder_id else []
        return _reminder_of(found[0]) if len(found) == 1 else None

    def end_reminder(self, reminder: Reminder, ending: str, now: Instant) -> bool:
        """See `ReminderStore.end_reminder`."""
        with self._db.transaction():
            ended = self._db.change(
                "UPDATE reminder SET ended_at = ?, ending = ? WHERE id = ? AND ended_at IS NULL",
                (now, ending, reminder.id),
            )
            return ended > 0

    def fire_reminder(
        self, before: Reminder, after: Reminder, event: WakeEvent | None, send: Send | None, now: Instant
    ) -> bool:
        """See `ReminderStore.fire_reminder`."""
        with self._db.transaction():
            moved = self._db.change(
                "UPDATE reminder SET due_at = ?, last_at = ?, ended_at = ?, ending = ?"
                " WHERE id = ? AND due_at = ? AND ended_at IS NULL",
                (
                    after.due_at,
                    after.last_at,
                    after.ended_at,
                    after.ending,
                    before.id,
                    before.due_at,
                ),
            )
            if not moved:
                return False
            if event is not None:
                self._insert_new([event], now)
            if send is not None:
                self._put([send], now)
            return True


def _reminder_of(row: sqlite3.Row) -> Reminder:
    return Reminder(
        id=row["id"],
        text=row["text"],
        zone=row["zone"],
        due_at=Instant(row["due_at"]),
        identity=row["identity"],
        channel=row["channel"],
        cron=row["cron"],
        by=row["set_by"],
        created_at=Instant(row["created_at"]),
        last_at=row["last_at"],
        ended_at=row["ended_at"],
        ending=row["ending"],
    )
