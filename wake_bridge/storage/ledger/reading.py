"""Reads deliveries and history from the ledger; changes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, JournalEntry, Outcome
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.guards import PastWake
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.ledger_records import Quarantined
from wake_bridge.storage.ledger.columns import binding_of, delivery_of, event_of, journal_entry_of, to_json
from wake_bridge.storage.ledger.database import Database, LedgerPart

# a task's moves are kept as `task:state:mark`; a semicolon follows the colon
_CONCERNED = """
    SELECT delivery.id AS carrier, wake_event.* FROM json_each(:ids) AS entity
    JOIN wake_event ON subject_key = entity.value OR subject_key >= entity.value || ':' AND subject_key < entity.value || ';'
    JOIN delivery_event ON event_id = wake_event.id
    JOIN delivery ON delivery.id = delivery_event.delivery_id
    WHERE delivery.state = 'DISPATCHED' AND delivery.hold_reason IS NOT NULL OR delivery.hold_reason = 'awaiting_ack'
        OR delivery.settled_at >= :since AND delivery.outcome IN ('submitted', 'unknown') AND delivery.proof < 3
    ORDER BY delivery.seq, wake_event.seq
"""
_CARRIERS = "SELECT delivery.* FROM json_each(?) AS asked CROSS JOIN delivery ON delivery.id = asked.value"
_GIVEN_BACK = "SELECT id FROM delivery WHERE state = 'DISPATCHED' AND submit_at IS NOT NULL"

MOST_RIDING: Final = 50
"""Items of one digest that ride along: of a flood the rest waits in the inbox."""

_LOOSE = "status = 'open' AND policy = 'next_turn' AND delivery_id IS NULL AND identity = :identity"
_NEXT_TURN = f"""
    SELECT * FROM (
        SELECT * FROM wake_event WHERE {_LOOSE} AND kind IN ('message', 'task', 'permission', 'pulse', 'presence')
        UNION ALL
        SELECT * FROM (SELECT * FROM wake_event WHERE {_LOOSE} AND kind = 'item' ORDER BY item_rank DESC, seq DESC LIMIT :most)
    ) ORDER BY epoch, log_id, seq
"""  # noqa: S608 - written here
"""Of items those of the highest priority, and of these the newest."""

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
            raise NotFound("several deliveries start with that", delivery_id, hint="give more of the id")
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

    def held_for(self, reason: HoldReason) -> list[Delivery]:
        """See `Ledger.held_for`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE state IN ('PENDING', 'DISPATCHED', 'LOCKED', 'ESCALATED')"
            " AND outcome IS NULL AND hold_reason = ? ORDER BY seq",
            (reason,),
        )

    def held(self, *, but: Collection[Cause]) -> list[Delivery]:
        """See `Ledger.held`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE state IN ('PENDING', 'DISPATCHED', 'LOCKED', 'ESCALATED')"
            " AND hold_reason IS NOT NULL AND ack_within = 0 AND hold_cause NOT IN (SELECT value FROM json_each(?))"
            " ORDER BY seq",
            (to_json(sorted(but)),),
        )

    def waiting(self) -> set[Identity]:
        """See `Ledger.waiting`."""
        rows = self._db.rows(
            "SELECT DISTINCT identity FROM delivery WHERE state IN ('PENDING', 'DISPATCHED', 'LOCKED', 'ESCALATED')"
            " AND NOT (state = 'LOCKED' AND hold_reason IS 'awaiting_ack')"
        )
        return {Identity(row["identity"]) for row in rows}

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
        carriers = {one.id: one for one in self._deliveries(_CARRIERS, (json.dumps([*found]),))}
        return [(carriers[delivery_id], events) for delivery_id, events in found.items()]

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
        return self._events(_NEXT_TURN, {"identity": identity, "most": MOST_RIDING})

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


class Memory(LedgerPart):
    """Events by subject or row, deliveries by event, and what ended how."""

    def find_events(self, *, subject_key: str = "", log_id: LogId | None = None) -> list[WakeEvent]:
        """See `Archive.find_events`; of both, whichever is given."""
        return self._events(
            "SELECT * FROM wake_event WHERE subject_key = :subject AND :subject <> ''"
            # a task's moves are kept as `task:state:mark`; a semicolon follows the colon
            " UNION SELECT * FROM wake_event WHERE kind = 'task' AND :subject <> ''"
            " AND subject_key >= :subject || ':' AND subject_key < :subject || ';'"
            # and what a signed wake told of, as `subject signed:sender`
            " UNION SELECT * FROM wake_event WHERE :subject <> ''"
            " AND subject_key >= :subject || ' signed:' AND subject_key < :subject || ' signed;'"
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
            "SELECT CASE WHEN is_seen_late THEN 'submitted'"
            " WHEN escalated_at IS NOT NULL AND outcome = 'empty' THEN 'escalated'"
            # acknowledged before it was told
            " WHEN outcome = 'acknowledged' AND handed_lease = 0 THEN 'empty' ELSE outcome END AS ended, COUNT(*) AS deliveries"
            " FROM delivery WHERE settled_at >= ? GROUP BY ended",
            (since,),
        )
        return {Outcome(row["ended"]): row["deliveries"] for row in rows}

    def last_wake(self, identity: Identity) -> Instant | None:
        """See `Archive.last_wake`."""
        at = self._db.value(
            "SELECT MAX(submit_at) FROM delivery WHERE identity = ? AND submit_at IS NOT NULL AND state <> 'DISPATCHED'",
            (identity,),
        )
        return None if at is None else Instant(at)


class WakeHistory(LedgerPart):
    """Remembers what it read of the journal, which only grows, and of deliveries once their text is frozen.

    A flood tells thousands of events in an hour: reading them anew for every wake takes longer than the wake.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._known_since: Instant | None = None
        self._read_line = 0
        self._ahead: dict[str, Any] = {}
        self._begun: dict[str, tuple[int, PastWake]] = {}

    def past_wakes(self, since: Instant) -> list[PastWake]:
        """See `Ledger.past_wakes`."""
        # a wake recorded while the clock ran ahead counts as of the instant `rebase` noticed it
        ahead = self._db.rows("SELECT key, value FROM meta WHERE key IN ('ahead_until_line', 'ahead_counts_at')")
        ahead_now = {row["key"]: row["value"] for row in ahead}
        if self._known_since is None or since < self._known_since or ahead_now != self._ahead:
            self._read_line, self._ahead, self._begun = 0, ahead_now, {}
        self._known_since = since
        self._read_on(since)
        self._begun = {key: known for key, known in self._begun.items() if known[1].at >= since}
        # of a delivery that was given back nothing was sent: its submits were refused, or are proven absent
        given_back = {row["id"] for row in self._db.rows(_GIVEN_BACK)}
        submitted = [known for key, known in self._begun.items() if key not in given_back]
        in_order = sorted(submitted, key=lambda known: (known[1].at, known[0]))
        return [wake for _, wake in in_order]

    def _read_on(self, since: Instant) -> None:
        """Learn of the submits that were written down since the last question."""
        latest = self._db.value("SELECT MAX(seq) FROM journal") or 0
        lines = self._db.rows(
            "SELECT delivery_id, MAX(CASE WHEN seq <= :line THEN MIN(at, :counts_at) ELSE at END) AS at"
            " FROM journal INDEXED BY journal_submits WHERE step = 'intent_submit' AND at >= :since AND seq > :known"
            " GROUP BY delivery_id",
            {
                "line": self._ahead.get("ahead_until_line"),
                "counts_at": self._ahead.get("ahead_counts_at"),
                "since": since,
                "known": self._read_line,
            },
        )
        for line in lines:
            self._learn_wake(line["delivery_id"], Instant(line["at"]))
        self._read_line = latest

    def _learn_wake(self, delivery_id: str, at: Instant) -> None:
        row = self._db.row("SELECT seq, identity, pane_key FROM delivery WHERE id = ?", (delivery_id,))
        if row is None:
            return
        before = self._begun.get(delivery_id)
        threads = self._db.rows(
            "SELECT thread, from_human FROM delivery_event JOIN wake_event ON wake_event.id = event_id"
            " WHERE delivery_event.delivery_id = ? AND thread <> '' ORDER BY epoch, log_id",
            (delivery_id,),
        )
        wake = PastWake(
            max(at, before[1].at) if before else at,
            row["identity"],
            row["pane_key"],
            # what was handed over within a running turn is counted against no place, and begins no loop
            threads=tuple(dict.fromkeys(one["thread"] for one in threads if row["pane_key"] and not one["from_human"])),
            human_threads=tuple(dict.fromkeys(one["thread"] for one in threads if one["from_human"])),
        )
        self._begun[delivery_id] = (row["seq"], wake)
