"""The feed of what happened: read by id, with what its entries are about. The database's triggers write it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import replace

from wake_bridge.domain.activity import STIMULI_TOLD, Activity, ActivityKind, Notes
from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.storage.ledger.columns import delivery_of
from wake_bridge.storage.ledger.reminders import ReminderRecord
from wake_bridge.storage.ledger.upkeep import EpisodeRecord


class ActivityRecord(ReminderRecord, EpisodeRecord):
    """Entries of the feed."""

    def activity_span(self) -> tuple[int, int]:
        """See `ActivityStore.activity_span`."""
        last = self._db.value("SELECT seq FROM sqlite_sequence WHERE name = 'activity'") or 0
        oldest = self._db.value("SELECT MIN(seq) FROM activity")
        return (last + 1 if oldest is None else oldest), last

    def activity_after(self, after: int, limit: int, *, identity: str = "") -> list[Activity]:
        """See `ActivityStore.activity_after`."""
        return self._activity("seq > :from ORDER BY seq", after, limit, identity, EPOCH_START)

    def latest_activity(
        self, limit: int, *, before: int | None = None, identity: str = "", since: Instant = EPOCH_START
    ) -> list[Activity]:
        """See `ActivityStore.latest_activity`."""
        end = before if before is not None else 2**62
        return self._activity("seq < :from ORDER BY seq DESC", end, limit, identity, since)

    def wakes_held(self, identity: Identity, reasons: Collection[HoldReason], since: Instant) -> int:
        """See `ActivityStore.wakes_held`."""
        marks = ", ".join("?" * len(reasons))
        return int(
            self._db.value(
                f"SELECT COUNT(DISTINCT subject) FROM activity WHERE at >= ? AND kind = '{ActivityKind.WAKE_HELD}'"  # noqa: S608 - ours
                f" AND identity = ? AND outcome IN ({marks})",
                (since, identity, *reasons),
            )
        )

    def _activity(self, part: str, bound: int, limit: int, identity: str, since: Instant) -> list[Activity]:
        rows = self._db.rows(
            "SELECT * FROM activity WHERE (:who = '' OR identity IN (:who, '*')) AND at >= :since"  # noqa: S608 - written here
            f" AND {part} LIMIT :limit",
            {"from": bound, "limit": limit, "who": identity, "since": since},
        )
        known: dict[str, Notes] = {}
        return [_entry(row, self._notes(row, known)) for row in rows]

    def _notes(self, row: sqlite3.Row, known: dict[str, Notes]) -> Notes:
        """What it is about; `known` holds what was read for other entries already."""
        subject = row["subject"]
        if not subject:
            return Notes()
        if subject not in known:
            known[subject] = self._about(subject)
        about = known[subject]
        if row["line"] is None:
            return about
        detail = self._db.value("SELECT detail FROM journal WHERE seq = ?", (row["line"],))
        return about if detail is None else replace(about, line=json.loads(detail))

    def _about(self, subject: str) -> Notes:
        delivery = self._db.row("SELECT * FROM delivery WHERE id = ?", (subject,))
        if delivery is not None:
            carried = (
                "FROM delivery_event JOIN wake_event ON wake_event.id = event_id WHERE delivery_event.delivery_id = ?"
            )
            events = self._events(
                f"SELECT * FROM (SELECT wake_event.* {carried} ORDER BY epoch DESC, log_id DESC, seq DESC LIMIT ?)"  # noqa: S608 - written here
                " ORDER BY epoch, log_id, seq",
                (subject, STIMULI_TOLD),
            )
            total = self._db.value(f"SELECT COUNT(*) {carried}", (subject,)) if len(events) == STIMULI_TOLD else 0
            return Notes(delivery_of(delivery), events=events, events_besides=max(0, total - STIMULI_TOLD))
        if items := self._events("SELECT * FROM wake_event WHERE id = ? AND kind = 'item'", (subject,)):
            return Notes(events=items)
        if (episode := self.episode(subject)) is not None:
            return Notes(episode=episode)
        if (send := self.find_send(subject)) is not None:
            return Notes(send=send)
        if (reminder := self.find_reminder(subject)) is not None:
            return Notes(reminder=reminder)
        return Notes(notice_title=self._db.value("SELECT title FROM notice WHERE subject = ?", (subject,)) or "")


def _entry(row: sqlite3.Row, notes: Notes) -> Activity:
    return Activity(
        id=row["seq"],
        at=Instant(row["at"]),
        kind=ActivityKind(row["kind"]),
        identity=row["identity"],
        subject=row["subject"],
        outcome=row["outcome"],
        notes=notes,
    )
