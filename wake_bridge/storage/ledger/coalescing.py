"""From open events to deliveries: when a delivery is due, and what can still happen to one that has ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import IllegalTransition, OperationFailed, RefusedForSafety
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.ports.ledger_records import NewId
from wake_bridge.storage.ledger.columns import to_json
from wake_bridge.storage.ledger.database import LedgerPart
from wake_bridge.storage.ledger.moves import Membership

_MAY_BE_TOLD_AGAIN: Final = """
    SELECT wake_event.id, kind = 'message' AND policy = 'immediate' AS can_wake FROM wake_event JOIN delivery ON delivery.id = delivery_id
    WHERE delivery_id = :id AND NOT is_seen_late AND wake_event.status = 'announced' AND wake_event.reason = 'unknown'
        AND again_of = '' AND by_heartbeat = 0 AND kind NOT IN ('pulse', 'presence')
        AND NOT EXISTS (SELECT 1 FROM announced
            WHERE announced.identity = wake_event.identity AND announced.subject_key = wake_event.subject_key)
        AND NOT EXISTS (SELECT 1 FROM delivery_event JOIN delivery AS other ON other.id = delivery_event.delivery_id
            WHERE event_id = wake_event.id AND other.id <> :id AND other.outcome = 'unknown')
"""

_MAY_BE_ANNOUNCED_AGAIN: Final = """
    SELECT id, kind = 'message' AND policy = 'immediate' AS can_wake FROM wake_event
    WHERE delivery_id = :id AND status = 'announced' AND failed_in <> :id AND by_heartbeat = 0 AND kind NOT IN ('pulse', 'presence')
        AND NOT EXISTS (SELECT 1 FROM announced
            WHERE announced.identity = wake_event.identity AND announced.subject_key = wake_event.subject_key)
"""


_IS_LOOSE: Final = "status = 'open' AND policy = 'immediate' AND delivery_id IS NULL"
_UNFROZEN: Final = "state IN ('PENDING', 'DISPATCHED') AND delivery.ack_within = 0"

_WAITS_FOR_LATER: Final = (
    "act_at > :now AND next_look_at > :now AND (:identity IS NULL OR identity = :identity)"
    " AND hold_reason IS NOT 'awaiting_ack'"
)

_LOOSE: Final = f"""
    SELECT loose.*, delivery.id AS unfrozen, delivery.due_at AS due_before FROM (
        SELECT identity, MIN(due_at) AS due_at, COUNT(*) AS events FROM wake_event
        WHERE {_IS_LOOSE} AND ack_within = 0 GROUP BY identity) AS loose
    LEFT JOIN delivery ON delivery.identity = loose.identity AND {_UNFROZEN} ORDER BY loose.identity
"""  # noqa: S608 - ours
_TO_ANSWER: Final = f"""
    SELECT id, identity, due_at, ack_within FROM wake_event WHERE {_IS_LOOSE} AND ack_within > 0 ORDER BY seq
"""  # noqa: S608 - ours
_TAKE_IN_LOOSE: Final = (
    f"""
    INSERT INTO delivery_event (delivery_id, event_id) SELECT delivery.id, wake_event.id FROM wake_event
        CROSS JOIN delivery ON delivery.identity = wake_event.identity AND {_UNFROZEN}
    WHERE {_IS_LOOSE} AND wake_event.ack_within = 0 ON CONFLICT DO NOTHING
    """,  # noqa: S608 - ours
    f"""
    UPDATE wake_event SET delivery_id = (
        SELECT delivery.id FROM delivery WHERE delivery.identity = wake_event.identity AND {_UNFROZEN})
    WHERE {_IS_LOOSE} AND wake_event.ack_within = 0
    """,  # noqa: S608 - ours
)
"""Once everybody to whom something loose is addressed has an unfrozen delivery."""


class SecondChances(Membership):
    """Raising proof, retrying, and announcing once more."""

    def raise_proof(self, delivery_id: str, proof: Proof, detail: Mapping[str, str], now: Instant) -> Delivery:
        """See `Ledger.raise_proof`. Raises `NotFound`."""
        with self._db.transaction():
            before = self._read(delivery_id)
            if proof <= before.proof:
                return before
            self._db.change("UPDATE delivery SET proof = ? WHERE id = ?", (proof, delivery_id))
            self._write_line(delivery_id, Step.ACKED, {**detail, "proof": str(int(proof))}, now)
            self._items_have_arrived(delivery_id, now)
            return self._read(delivery_id)

    def retry(self, delivery_id: str, new_id: NewId, now: Instant, *, looked: bool = False) -> Delivery:
        """See `Ledger.retry`."""
        with self._db.transaction():
            failed = self._read(delivery_id)
            if failed.state is not DeliveryState.FAILED:
                raise IllegalTransition(
                    f"only a failed delivery can be retried, this one is {failed.state}", delivery_id
                )
            if failed.outcome is Outcome.UNKNOWN and not looked:
                raise RefusedForSafety(
                    "the wake may have been submitted already",
                    failed.where or delivery_id,
                    hint=f"look there for {delivery_id}; if it is not there: `wake-bridge deliveries retry {delivery_id} --i-looked`",
                )
            self._open_again(delivery_id, now)
            if not self._db.value(
                "SELECT COUNT(*) FROM wake_event WHERE delivery_id = ? AND status = 'open'", (delivery_id,)
            ):
                raise OperationFailed(
                    "nothing is left to wake for", delivery_id, hint="its events were read, shown or retried meanwhile"
                )
            successor = self._successor_for(failed, {"retry_of": failed.id}, new_id, now)
            self._hand_over(delivery_id, successor)
            return self._read(successor)

    def open_again(self, delivery_id: str, new_id: NewId, now: Instant) -> Delivery | None:
        """See `Ledger.open_again`. Raises `NotFound`."""
        with self._db.transaction():
            unknown = self._read(delivery_id)
            left = self._db.rows(_MAY_BE_TOLD_AGAIN, {"id": delivery_id})
            if unknown.outcome is not Outcome.UNKNOWN or not any(row["can_wake"] for row in left):
                return None
            self._db.change_each(
                "UPDATE wake_event SET status = 'open', reason = '', status_at = ?, again_of = ? WHERE id = ?",
                [(now, delivery_id, row["id"]) for row in left],
            )
            self._let_riders_go(delivery_id, is_remembered=True)
            successor = self._successor_for(unknown, {"again_of": unknown.id}, new_id, now)
            self._hand_over(delivery_id, successor)
            return self._read(successor)

    def announce_again(self, delivery_id: str, not_before: Instant, new_id: NewId, now: Instant) -> Delivery | None:
        """See `Ledger.announce_again`. Raises `NotFound`."""
        with self._db.transaction():
            failed = self._read(delivery_id)
            left = self._db.rows(_MAY_BE_ANNOUNCED_AGAIN, {"id": delivery_id})
            if failed.outcome is not Outcome.SUBMITTED or not any(row["can_wake"] for row in left):
                return None
            self._db.change_each(
                "UPDATE wake_event SET status = 'open', reason = '', status_at = ?, not_before = ?, failed_in = ?,"
                " failed_turns = failed_turns + 1 WHERE id = ?",
                [(now, not_before, delivery_id, row["id"]) for row in left],
            )
            self._let_riders_go(delivery_id, is_remembered=True)
            successor = self._successor_for(failed, {"turn_failed": failed.id}, new_id, now)
            self._hand_over(delivery_id, successor)
            return self._read(successor)

    def _open_again(self, delivery_id: str, now: Instant) -> None:
        """Events that only this delivery announced count as open; riders become loose, they never wake by themselves.

        A person has looked where they were announced before: nothing needs to be looked for. And who had refused them
        may be asked again.
        """
        self._db.change(
            "UPDATE wake_event SET passed_by = '' WHERE delivery_id = ? AND status = 'open' AND passed_by <> ''",
            (delivery_id,),
        )
        self._db.change(
            "UPDATE wake_event SET status = 'open', reason = '', status_at = :now, again_of = ''"
            " WHERE delivery_id = :id AND status = 'announced' AND NOT EXISTS (SELECT 1 FROM announced"
            " WHERE announced.identity = wake_event.identity AND announced.subject_key = wake_event.subject_key)",
            {"id": delivery_id, "now": now},
        )
        self._let_riders_go(delivery_id, is_remembered=True)

    def _successor_for(self, failed: Delivery, why: Mapping[str, str], new_id: NewId, now: Instant) -> str:
        """The identity's unfrozen delivery, or a new one, due at once; `why` goes into its journal."""
        unfrozen = None if failed.ack_within else self._unfrozen_of(failed.identity)
        successor = new_id() if unfrozen is None else unfrozen.id
        if unfrozen is None:
            by = now + failed.ack_within if failed.ack_within else None
            self._db.change(
                "INSERT INTO delivery (id, identity, created_at, due_at, ack_within, ack_by) VALUES (?, ?, ?, ?, ?, ?)",
                (successor, failed.identity, now, now, failed.ack_within, by),
            )
        self._db.change(
            "UPDATE delivery SET due_at = MIN(due_at, :now), next_look_at = MIN(next_look_at, :now) WHERE id = :id",
            {"id": successor, "now": now},
        )
        self._write_line(successor, Step.OPENED if unfrozen is None else Step.JOINED, why, now)
        return successor

    def _hand_over(self, origin: str, destination: str) -> None:
        """Open events go on to the successor; what the failed digest spoke of stays on record with it."""
        self._db.change(
            "INSERT INTO delivery_event (delivery_id, event_id) SELECT ?, id FROM wake_event"
            " WHERE delivery_id = ? AND status = 'open' ON CONFLICT DO NOTHING",
            (destination, origin),
        )
        self._db.change(
            "UPDATE wake_event SET delivery_id = ? WHERE delivery_id = ? AND status = 'open'", (destination, origin)
        )


class Coalescing(LedgerPart):
    """At most one unfrozen delivery per identity, besides those that have to be answered; events join it, and joining never postpones.

    Nobody goes on with a wake that its agent has and has not answered (`awaiting_ack`): the answer ends it, or its deadline.
    """

    def gather(self, now: Instant, new_id: NewId) -> list[Delivery]:
        """See `Ledger.gather`."""
        if self._db.row(f"SELECT 1 FROM wake_event WHERE {_IS_LOOSE} LIMIT 1") is None:  # noqa: S608 - ours
            return []
        with self._db.derived():
            return [
                *self._gather_loose(self._db.rows(_LOOSE), now, new_id),
                *(
                    self._open_alone(row["id"], row["identity"], row["due_at"], row["ack_within"], now, new_id)
                    for row in self._db.rows(_TO_ANSWER)
                ),
            ]

    def due(self, now: Instant, busy: Collection[str] = ()) -> list[Delivery]:
        """See `Ledger.due`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE act_at <= ? AND hold_reason IS NOT 'awaiting_ack'"
            " AND (state = 'LOCKED' OR identity NOT IN (SELECT value FROM json_each(?))) ORDER BY created_at, seq",
            (now, to_json([*busy])),
        )

    def next_deadline(self) -> Instant | None:
        """See `Ledger.next_deadline`; `due` is not empty from that instant on, and empty before."""
        earliest = self._db.value(
            "SELECT MIN(act_at) FROM delivery WHERE act_at IS NOT NULL AND hold_reason IS NOT 'awaiting_ack'"
        )
        return None if earliest is None else Instant(earliest)

    def look_at_once(self, identity: Identity | None, now: Instant) -> None:
        """See `Ledger.look_at_once`."""
        about = {"now": now, "identity": identity}
        # of most changes nothing hangs: what is new, or due, is looked at anyway
        if self._db.row(f"SELECT 1 FROM delivery WHERE {_WAITS_FOR_LATER} LIMIT 1", about) is None:  # noqa: S608 - ours
            return
        with self._db.derived():
            self._db.change(f"UPDATE delivery SET next_look_at = :now WHERE {_WAITS_FOR_LATER}", about)  # noqa: S608 - ours

    def _gather_loose(self, loose: Sequence[sqlite3.Row], now: Instant, new_id: NewId) -> list[Delivery]:
        """Take in all that is loose: a flood is for many identities, and each statement for one of them would be paid for by all."""
        if not loose:
            return []
        ids = {row["identity"]: row["unfrozen"] or new_id() for row in loose}
        self._db.change_each(
            "INSERT INTO delivery (id, identity, created_at, due_at) VALUES (?, ?, ?, ?)",
            [(ids[row["identity"]], row["identity"], now, row["due_at"]) for row in loose if row["unfrozen"] is None],
        )
        self._db.change_each(
            "UPDATE delivery SET due_at = ? WHERE id = ?",
            [
                (row["due_at"], row["unfrozen"])
                for row in loose
                if row["unfrozen"] and row["due_at"] < row["due_before"]
            ],
        )
        steps = ((row, Step.OPENED if row["unfrozen"] is None else Step.JOINED) for row in loose)
        self._write_lines([(ids[row["identity"]], step, {"events": str(row["events"])}) for row, step in steps], now)
        for statement in _TAKE_IN_LOOSE:
            self._db.change(statement)
        return self._deliveries(
            "SELECT delivery.* FROM json_each(?) AS asked JOIN delivery ON delivery.id = asked.value ORDER BY identity",
            (to_json([*ids.values()]),),
        )

    def _open_alone(
        self, event_id: str, identity: Identity, due_at: Instant, ack_within: int, now: Instant, new_id: NewId
    ) -> Delivery:
        """What has to be answered has a delivery of its own: one answer is about one thing."""
        delivery_id = new_id()
        self._db.change(
            "INSERT INTO delivery (id, identity, created_at, due_at, ack_within, ack_by) VALUES (?, ?, ?, ?, ?, ?)",
            (delivery_id, identity, now, due_at, ack_within, now + ack_within),
        )
        line = {"events": "1", "ack_within": str(ack_within)}
        self._write_line(delivery_id, Step.OPENED, line, now)
        self._db.change("INSERT INTO delivery_event (delivery_id, event_id) VALUES (?, ?)", (delivery_id, event_id))
        self._db.change("UPDATE wake_event SET delivery_id = ? WHERE id = ?", (delivery_id, event_id))
        return self._read(delivery_id)
