"""Upkeep of the ledger (counts, retention, a clock set back), and what was sent: heartbeats, notices, episodes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Final

from wake_bridge.domain.attention import Episode
from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.items import LEASED_FOR
from wake_bridge.domain.names import EPOCH_START, AttentionKind, Identity, Instant
from wake_bridge.domain.nudges import HEARTBEAT, Beat
from wake_bridge.domain.receivers import LONGEST_WAIT, SUSPENDED
from wake_bridge.ports.ledger_records import GivenNotice, Tally
from wake_bridge.storage.ledger.database import Database, LedgerPart


class HeartbeatRecord(LedgerPart):
    """Stored events and the cooldown of each identity."""

    def left_to_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.left_to_heartbeat`."""
        return self._events(
            "SELECT * FROM wake_event WHERE identity = ? AND by_heartbeat = 1 AND status = 'open'"
            # whatever is left to it is for the next turn, and found by that
            " AND policy = 'next_turn' AND delivery_id IS NULL ORDER BY epoch, log_id, seq",
            (identity,),
        )

    def told_by_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.told_by_heartbeat`."""
        return self._events(
            "SELECT wake_event.* FROM wake_event JOIN delivery ON delivery.id = wake_event.delivery_id"
            # what the index says of the status, in its words
            " WHERE wake_event.identity = ? AND by_heartbeat = 1 AND status IN ('open', 'announced')"
            " AND status = 'announced' AND kind = 'message'"
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
            "SELECT cooldown, MAX(nudged_at, COALESCE((SELECT MAX(settled_at) FROM delivery"  # noqa: S608 - ours
            f" WHERE delivery.identity = heartbeat.identity AND adapter = '{HEARTBEAT}'), 0)) AS nudged_at"
            " FROM heartbeat WHERE identity = ?",
            (identity,),
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

    def withdraw_notice(self, subject: str) -> None:
        """See `Ledger.withdraw_notice`."""
        with self._db.transaction():
            self._db.change("DELETE FROM notice WHERE subject = ?", (subject,))

    def noticed_at(self, subject: str) -> Instant | None:
        """See `Ledger.noticed_at`."""
        at = self._db.value("SELECT at FROM notice WHERE subject = ?", (subject,))
        return None if at is None else Instant(at)

    def noticed(self) -> set[str]:
        """See `Ledger.noticed`."""
        return {row["subject"] for row in self._db.rows("SELECT subject FROM notice")}

    def failed_waiting(self, since: Instant) -> list[Delivery]:
        """See `Ledger.failed_waiting`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE state = 'FAILED' AND settled_at >= ? AND proof < 3 AND NOT is_seen_late"
            " AND escalated_at IS NULL"
            " AND EXISTS (SELECT 1 FROM wake_event WHERE delivery_id = delivery.id"
            " AND (status = 'open' OR (delivery.outcome = 'unknown' AND status = 'announced'))) ORDER BY settled_at",
            (since,),
        )

    def failed_untold(self, since: Instant) -> list[Delivery]:
        """See `Ledger.failed_untold`."""
        told = self.noticed()
        return [one for one in self.failed_waiting(since) if one.id not in told]

    def standing_notices(self, limit: int) -> list[GivenNotice]:
        """See `Ledger.standing_notices`."""
        return [
            GivenNotice(row["subject"], Instant(row["at"]), row["identity"], row["reason"], row["title"], row["body"])
            for row in self._db.rows(
                "SELECT notice.* FROM notice LEFT JOIN delivery ON delivery.id = notice.subject"
                # what has passed to a person stands until they acknowledge it
                " WHERE CASE WHEN escalated_at IS NOT NULL THEN proof < 3"
                " ELSE COALESCE(delivery.state, '') <> 'DELIVERED' AND is_seen_late IS NOT 1 END ORDER BY notice.at DESC LIMIT ?",
                (limit,),
            )
        ]


class EpisodeRecord(LedgerPart):
    """Episodes in which an agent needs a person."""

    def open_episodes(self) -> list[Episode]:
        """See `Ledger.open_episodes`."""
        return [
            _episode_of(row) for row in self._db.rows("SELECT * FROM episode WHERE ended_at IS NULL ORDER BY began_at")
        ]

    def episode(self, episode_id: str) -> Episode | None:
        """See `Ledger.episode`."""
        row = self._db.row("SELECT * FROM episode WHERE id = ?", (episode_id,))
        return None if row is None else _episode_of(row)

    def episodes_of(self, identity: Identity, limit: int) -> list[Episode]:
        """See `Ledger.episodes_of`."""
        return [
            _episode_of(row)
            for row in self._db.rows(
                "SELECT * FROM episode WHERE identity = ? ORDER BY began_at DESC, id DESC LIMIT ?", (identity, limit)
            )
        ]

    def turn_episode(self, ended: Episode | None, ending: str, begun: Episode | None, now: Instant) -> None:
        """See `Ledger.turn_episode`."""
        with self._db.transaction():
            if ended is not None:
                self._db.change(
                    "UPDATE episode SET ended_at = ?, ending = ? WHERE id = ? AND ended_at IS NULL",
                    (now, ending, ended.id),
                )
                self._db.change("DELETE FROM notice WHERE subject = ?", (ended.id,))
            if begun is not None:
                self._db.change(
                    "INSERT INTO episode (id, identity, kind, began_at, evidence, place_key, place, told_at, program,"
                    " resets_at, tries, was_at_work, wake_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        begun.id,
                        begun.identity,
                        begun.kind,
                        begun.began_at,
                        begun.evidence,
                        begun.place_key,
                        begun.where,
                        begun.told_at,
                        begun.program,
                        begun.resets_at,
                        begun.tries,
                        begun.was_at_work,
                        begun.wake_id,
                    ),
                )

    def note_episodes_told(self, ids: Iterable[str], now: Instant) -> None:
        """See `Ledger.note_episodes_told`."""
        with self._db.transaction():
            self._db.change_each(
                "UPDATE episode SET told_at = ? WHERE id = ? AND told_at IS NULL", [(now, one) for one in ids]
            )

    def own_words(self) -> set[Identity]:
        """See `Ledger.own_words`."""
        return {Identity(row["identity"]) for row in self._db.rows("SELECT identity FROM own_word")}

    def forget_own_words(self, identities: Iterable[Identity]) -> None:
        """See `Ledger.forget_own_words`."""
        with self._db.transaction():
            self._db.change_each("DELETE FROM own_word WHERE identity = ?", [(one,) for one in identities])


def _episode_of(row: sqlite3.Row) -> Episode:
    return Episode(
        id=row["id"],
        identity=Identity(row["identity"]),
        kind=AttentionKind(row["kind"]),
        began_at=Instant(row["began_at"]),
        evidence=row["evidence"],
        place_key=row["place_key"],
        where=row["place"],
        told_at=row["told_at"],
        ended_at=row["ended_at"],
        ending=row["ending"],
        program=row["program"],
        resets_at=row["resets_at"],
        tries=row["tries"],
        was_at_work=bool(row["was_at_work"]),
        wake_id=row["wake_id"],
    )


FARTHEST_LOOK: Final = 60_000
"""Milliseconds: no look and no lease is set further ahead than this, nominally."""


_AGEING: Final = (
    (
        "delivery",
        "seq",
        (
            "settled_at < :before AND NOT EXISTS (SELECT 1 FROM wake_event"
            " WHERE delivery_id = delivery.id AND status = 'open')"
        ),
    ),
    (
        "wake_event",
        "seq",
        (
            # an item lies nowhere else: it stays until it is read
            "status <> 'open' AND NOT (kind = 'item' AND status = 'announced') AND status_at < :before"
            " AND NOT EXISTS (SELECT 1 FROM delivery_event WHERE event_id = wake_event.id)"
        ),
    ),
    ("announced", "identity, subject_key", "at < :before"),
    ("quarantine", "epoch, log_id", "at < :before"),
    ("session", "session_id", "seen_at < :before"),
    ("former_agent", "identity, fence", "until < :before"),
    ("notice", "subject", "at < :before AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.id = notice.subject)"),
    ("episode", "id", "ended_at < :before"),
    ("send", "seq", "settled_at < :before"),
    ("activity", "seq", "at < :before"),
    ("reminder", "id", "ended_at < :before"),
)
"""What the retention lets go of, by table, key and which rows: an event only after the deliveries that told it."""


class Upkeep(LedgerPart):
    """Tally, prune, shrink, rebase."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._pruned_up_to = EPOCH_START, 0
        """Which of `_AGEING` comes next in the pass that forgets what is older than that: those before it hold nothing old."""

    def tally(self) -> Tally:
        """See `Ledger.tally`."""
        counts: Counter[str] = Counter()
        holds: Counter[str] = Counter()
        # by the index alone; only of the few of unknown outcome the rows themselves are looked at
        for row in self._db.rows(
            "SELECT outcome, hold_reason, COUNT(*) AS deliveries FROM delivery GROUP BY state, outcome, hold_reason"
        ):
            kind = {None: "open", "failed": "failed", "unknown": "unknown"}.get(row["outcome"], "delivered")
            counts[kind] += row["deliveries"]
            if row["hold_reason"] is not None:
                holds[row["hold_reason"]] += row["deliveries"]
        seen_late = self._db.value(
            "SELECT COUNT(*) FROM delivery WHERE state = 'FAILED' AND outcome = 'unknown' AND is_seen_late"
        )
        counts["unknown"] -= seen_late
        counts["delivered"] += seen_late
        return Tally(
            open=counts["open"],
            held=holds.total(),
            unknown=counts["unknown"],
            failed=counts["failed"],
            delivered=counts["delivered"],
            quarantined=self._db.value("SELECT COUNT(*) FROM quarantine"),
            holds=dict(holds),
        )

    def prune(self, before: Instant, at_most: int) -> int:
        """See `Ledger.prune`."""
        removed = 0
        reached = self._pruned_up_to[1] if self._pruned_up_to[0] == before else 0
        for number, (table, key, is_old) in enumerate(_AGEING[reached:], reached):
            statement = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {is_old} LIMIT :left)"  # noqa: S608 - written here
            with self._db.transaction():
                removed += self._db.change(statement, {"before": before, "left": at_most - removed})
            if removed == at_most:
                self._pruned_up_to = before, number
                return removed
        self._pruned_up_to = before, 0
        return removed

    def shrink(self, pages: int) -> bool:
        """See `Ledger.shrink`."""
        unused = self._unused_pages()
        self._db.give_back(pages)
        # a file that could not be rewritten at the start gives nothing back, however often it is asked
        return 0 < self._unused_pages() < unused

    def _unused_pages(self) -> int:
        return int(self._db.value("PRAGMA freelist_count"))

    def rebase(self, now: Instant) -> None:
        """See `Ledger.rebase`."""
        moment = {"now": now, "farthest": now + FARTHEST_LOOK}
        with self._db.transaction():
            self._db.change(
                "UPDATE wake_event SET matched_at = :now, not_before = MAX(0, not_before - (matched_at - :now))"
                " WHERE status = 'open' AND matched_at > :now",
                moment,
            )
            self._db.change(
                "UPDATE delivery SET due_at = MIN(due_at, COALESCE((SELECT MIN(due_at) FROM wake_event"
                " WHERE delivery_id = delivery.id AND status = 'open'), :now))"
                " WHERE act_at > :now AND state = 'PENDING'",
                moment,
            )
            # its window has closed, by a clock that was ahead
            self._db.change("UPDATE delivery SET due_at = :now WHERE state = 'DISPATCHED' AND due_at > :now", moment)
            self._db.change(
                "UPDATE delivery SET next_look_at = MIN(next_look_at, :farthest), lease_until = MIN(lease_until, :farthest)"
                " WHERE state IN ('DISPATCHED', 'LOCKED') AND hold_reason IS NOT 'awaiting_ack'",
                moment,
            )
            self._db.change(
                "UPDATE delivery SET ack_by = MIN(ack_by, :now + ack_within) WHERE ack_by IS NOT NULL AND settled_at IS NULL",
                moment,
            )
            self._db.change("UPDATE paused SET since = :now, until = until - (since - :now) WHERE since > :now", moment)
            self._db.change("UPDATE limit_lift SET at = :now WHERE at > :now", moment)
            self._db.change("UPDATE heartbeat SET nudged_at = :now WHERE nudged_at > :now", moment)
            self._db.change(
                "UPDATE remembered_pane SET since = MIN(since, :now), seen_at = :now WHERE seen_at > :now", moment
            )
            self._db.change(
                "UPDATE episode SET began_at = :now, resets_at = resets_at - (began_at - :now) WHERE began_at > :now",
                moment,
            )
            self._db.change(
                # a start hurries no receiver: each try that fails makes the next one later
                "UPDATE receiver SET next_try_at ="
                " MIN(next_try_at, CASE WHEN suspended_at <= :now THEN :now + :rest ELSE :farthest END),"
                " suspended_at = MIN(suspended_at, :now), degraded_at = MIN(degraded_at, :now)",
                {**moment, "rest": LONGEST_WAIT},
            )
            self._db.change(
                "UPDATE send SET created_at = MIN(created_at, :now), next_try_at = MIN(next_try_at, :now + :rest),"
                " lease_until = MIN(lease_until, :farthest) WHERE settled_at IS NULL",
                {**moment, "rest": SUSPENDED[-1]},
            )
            self._db.change(
                "UPDATE wake_event SET leased_until = :longest WHERE leased_until > :longest",
                {"longest": now + LEASED_FOR},
            )
            self._db.change("UPDATE signed_wake SET taken_at = :now WHERE taken_at > :now", moment)
            self._count_wakes_as_of(now)

    def _count_wakes_as_of(self, now: Instant) -> None:
        """The journal's lines stand as they are; remember up to which one their times are not to be believed."""
        last_line = self._db.value("SELECT COALESCE(MAX(seq), 0) FROM journal")
        believed_until = self._db.value("SELECT value FROM meta WHERE key = 'ahead_until_line'") or 0
        ahead = self._db.value(
            "SELECT 1 FROM journal WHERE step = 'intent_submit' AND at > ? AND seq > ?", (now, believed_until)
        )
        counted_at = self._db.value("SELECT value FROM meta WHERE key = 'ahead_counts_at'") or 0
        if ahead or counted_at > now:
            self._note({"ahead_until_line": last_line, "ahead_counts_at": now})
