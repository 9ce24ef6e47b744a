"""Wake events in the ledger: taken in with the cursor, marked and forgotten; and what an identity was shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId
from wake_bridge.ports.ledger_records import (
    NOT_ADDRESSED,
    Emission,
    EpochStart,
    PageRecord,
    Position,
    Taken,
    TaskState,
)
from wake_bridge.storage.ledger.columns import columns_of_event, to_json
from wake_bridge.storage.ledger.database import LedgerPart

_STAY = {"id", "identity", "subject_key", "kind", "replay"}
"""What an event keeps that is news once more."""

_KNOWN = """
    SELECT 1 FROM wake_event
    WHERE replay = :replay AND identity = :identity
        AND (subject_key = :subject_key OR (log_id = :log_id AND log_id > 0 AND epoch = :epoch))
"""


class TailRecord(LedgerPart):
    """Cursor, epochs, matched events, task states, quarantine."""

    def position(self) -> Position | None:
        """See `Ledger.position`."""
        known = {
            row["key"]: row["value"]
            for row in self._db.rows(
                "SELECT key, value FROM meta WHERE key IN ('epoch', 'cursor', 'fingerprint', 'snapshot')"
            )
        }
        if "epoch" not in known:
            return None
        return Position(Epoch(known["epoch"]), LogId(known["cursor"]), known["fingerprint"], known.get("snapshot", ""))

    def epoch_start(self) -> EpochStart | None:
        """See `Ledger.epoch_start`."""
        known = {
            row["key"]: row["value"]
            for row in self._db.rows("SELECT key, value FROM meta WHERE key IN ('epoch_began_at', 'epoch_reason')")
        }
        return EpochStart(Instant(known["epoch_began_at"]), known["epoch_reason"]) if known else None

    def begin_epoch(
        self,
        position: Position,
        tasks: Sequence[TaskState],
        reason: str,
        now: Instant,
        events: Sequence[WakeEvent] = (),
    ) -> list[WakeEvent]:
        """See `Ledger.begin_epoch`."""
        with self._db.transaction():
            last = self.position()
            if last is not None and position.epoch <= last.epoch:
                raise LedgerError(
                    f"epoch {position.epoch} cannot follow epoch {last.epoch}", self._db.path, hint="please report this"
                )
            self._stand_at(position)
            self._note({"epoch_reason": reason, "epoch_began_at": now})
            self._db.change("DELETE FROM task_state")
            self._remember_tasks(tasks)
            return self._insert_new(events, now)

    def advance(self, page: PageRecord, now: Instant) -> list[WakeEvent]:
        """See `Ledger.advance`."""
        with self._db.transaction():
            last = self.position()
            if last is None or last.epoch != page.position.epoch:
                raise LedgerError(
                    f"what was read belongs to epoch {page.position.epoch}, which is not the current one",
                    self._db.path,
                    hint="restart the daemon",
                )
            if page.position.cursor >= last.cursor:
                self._stand_at(page.position)
            self._remember_tasks(page.tasks)
            self._db.change_each(
                "INSERT INTO quarantine (epoch, log_id, entity_id, why, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(last.epoch, one.log_id, one.entity_id, one.why, now) for one in page.quarantined],
            )
            self._db.change_each(
                "INSERT INTO own_word (identity) VALUES (?) ON CONFLICT DO NOTHING", [(one,) for one in page.words]
            )
            return self._insert_new(page.events, now)

    def replay(self, events: Sequence[WakeEvent], now: Instant) -> list[WakeEvent]:
        """See `Ledger.replay`. What `inbox` showed of them before is forgotten: they count as news again."""
        with self._db.transaction():
            replayed = []
            for event in events:
                about = (event.identity, event.subject_key)
                latest, open_ones = self._db.rows(
                    "SELECT COALESCE(MAX(replay), 0), COALESCE(SUM(status = 'open'), 0) FROM wake_event"
                    " WHERE identity = ? AND subject_key = ?",
                    about,
                )[0]
                if open_ones:
                    continue
                self._db.change("DELETE FROM announced WHERE identity = ? AND subject_key = ?", about)
                if self._insert(event, now, replay=latest + 1):
                    replayed.append(event)
            return replayed

    def task_states(self, task_ids: Sequence[str]) -> Mapping[str, TaskState]:
        """See `Ledger.task_states`."""
        found = {}
        for task_id in task_ids:
            row = self._db.row("SELECT * FROM task_state WHERE task_id = ?", (task_id,))
            if row is not None:
                found[task_id] = TaskState(task_id, row["state"], row["assignee"], row["last_modified_at"])
        return found

    def known_subjects(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """See `Ledger.known_subjects`."""
        return {
            key
            for key in subject_keys
            if self._db.row(
                "SELECT 1 FROM wake_event WHERE identity = :identity AND subject_key = :key"
                " UNION ALL SELECT 1 FROM announced WHERE identity = :identity AND subject_key = :key",
                {"identity": identity, "key": key},
            )
        }

    def _stand_at(self, position: Position) -> None:
        self._note(
            {
                "epoch": position.epoch,
                "cursor": position.cursor,
                "fingerprint": position.fingerprint,
                "snapshot": position.snapshot,
            }
        )

    def _remember_tasks(self, tasks: Iterable[TaskState]) -> None:
        self._db.change_each(
            "INSERT INTO task_state (task_id, state, assignee, last_modified_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET state = excluded.state, assignee = excluded.assignee,"
            " last_modified_at = excluded.last_modified_at",
            [(one.task_id, one.state, one.assignee, one.last_modified_at) for one in tasks],
        )

    def _insert_new(self, events: Iterable[WakeEvent], now: Instant) -> list[WakeEvent]:
        """The events as they lie in the ledger from now on, without those that were known."""
        judged = map(self._as_announced, events)
        taken = (
            event if self._insert(event, now) else self._reopen(event, now) or self._hasten(event, now)
            for event in judged
        )
        return [event for event in taken if event is not None]

    def _as_announced(self, event: WakeEvent) -> WakeEvent:
        """The event itself; closed if its identity was shown the subject already."""
        if event.status is not EventStatus.OPEN:
            return event
        via = self._db.value(
            "SELECT via FROM announced WHERE identity = ? AND subject_key = ?", (event.identity, event.subject_key)
        )
        return event if via is None else replace(event, status=EventStatus.ANNOUNCED, refused_by=via)

    def _insert(self, event: WakeEvent, now: Instant, replay: int = 0) -> bool:
        """Whether the event was new. Raises `LedgerError` if only its id was taken: it must not vanish in silence."""
        columns = {**columns_of_event(event), "replay": replay, "status_at": now}
        names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        if self._db.change(f"INSERT INTO wake_event ({names}) VALUES ({values}) ON CONFLICT DO NOTHING", columns):  # noqa: S608 - the names are our own
            return True
        if self._db.row(_KNOWN, columns) is None:
            raise LedgerError("two events have one id", event.id, hint="please report this")
        return False

    def _reopen(self, event: WakeEvent, now: Instant) -> WakeEvent | None:
        """An event whose identity was not yet in the audience is news after all; it keeps the id it had."""
        if event.status is not EventStatus.OPEN:
            return None
        columns = {**columns_of_event(event), "status_at": now, "delivery_id": None}
        told_anew = ", ".join(f"{name} = :{name}" for name in columns if name not in _STAY)
        statement = (
            f"UPDATE wake_event SET {told_anew} WHERE identity = :identity AND subject_key = :subject_key AND replay = 0"  # noqa: S608 - the names are our own
            " AND status IN ('superseded', 'refused') AND reason = :not_addressed"
        )
        if not self._db.change(statement, {**columns, "not_addressed": NOT_ADDRESSED}):
            return None
        return self._known(event)

    def _hasten(self, event: WakeEvent, now: Instant) -> WakeEvent | None:
        """A broadcast that waited for its audience is due as soon as that names its identity.

        An event whose turn has failed waits for something else.
        """
        if event.kind is not EventKind.MESSAGE or event.not_before > now:
            return None
        about = {"identity": event.identity, "subject_key": event.subject_key, "now": now, "at": event.not_before}
        if not self._db.change(
            "UPDATE wake_event SET not_before = :at WHERE identity = :identity AND subject_key = :subject_key"
            " AND replay = 0 AND status = 'open' AND failed_turns = 0 AND not_before > :now",
            about,
        ):
            return None
        known = self._known(event)
        self._db.change(
            "UPDATE delivery SET due_at = MIN(due_at, :due_at), next_look_at = MIN(next_look_at, :now)"
            " WHERE id = (SELECT delivery_id FROM wake_event WHERE id = :id) AND (state = 'PENDING' OR hold_reason = 'window')",
            {"id": known.id, "due_at": known.due_at, "now": now},
        )
        return known

    def _known(self, event: WakeEvent) -> WakeEvent:
        """The ledger's own event of that identity and subject."""
        (known,) = self._events(
            "SELECT * FROM wake_event WHERE identity = ? AND subject_key = ? AND replay = 0",
            (event.identity, event.subject_key),
        )
        return known


class StoredEmissions(TailRecord):
    """Signed wakes that were taken in."""

    def take_in(self, emission: Emission, events: Sequence[WakeEvent], now: Instant) -> tuple[Taken, list[WakeEvent]]:
        """See `Ledger.take_in`."""
        with self._db.transaction():
            known = self._db.value(
                "SELECT body FROM signed_wake WHERE sender = ? AND event_id = ?", (emission.sender, emission.event_id)
            )
            if known is not None:
                return (Taken.KNOWN if known == emission.body else Taken.OTHER_BODY), []
            self._db.change(
                "INSERT INTO signed_wake (sender, event_id, body, emitted_at, taken_at) VALUES (?, ?, ?, ?, ?)",
                (emission.sender, emission.event_id, emission.body, emission.emitted_at, now),
            )
            return Taken.NEW, self._insert_new(events, now)

    def knows_emission(self, sender: str, event_id: str) -> bool:
        """See `Ledger.knows_emission`."""
        known = self._db.value("SELECT 1 FROM signed_wake WHERE sender = ? AND event_id = ?", (sender, event_id))
        return known is not None

    def forget_emissions(self, before: Instant, at_most: int) -> int:
        """See `Ledger.forget_emissions`."""
        with self._db.transaction():
            return self._db.change(
                "DELETE FROM signed_wake WHERE (sender, event_id) IN (SELECT sender, event_id FROM signed_wake"
                " WHERE MAX(taken_at, emitted_at) < ? LIMIT ?)",
                (before, at_most),
            )


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
            # CROSS JOIN, or all that it was ever shown is gone through
            "SELECT subject_key FROM json_each(?) AS asked"
            " CROSS JOIN announced ON subject_key = asked.value AND identity = ?",
            (to_json(list(subject_keys)), identity),
        )
        return {row["subject_key"] for row in found}

    def told(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """See `Ledger.told`."""
        found = self._db.rows(
            "SELECT subject_key FROM json_each(?) AS asked JOIN wake_event ON subject_key = asked.value"
            " WHERE identity = ? AND status = 'announced'",
            (to_json(list(subject_keys)), identity),
        )
        return {row["subject_key"] for row in found} | self.announced(identity, subject_keys)

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
