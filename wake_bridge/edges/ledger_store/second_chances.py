"""What can still happen to a delivery that has ended: better proof, or its news told once more (DESIGN §3, decision 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import IllegalTransition, OperationFailed, RefusedForSafety
from wake_bridge.domain.names import Instant
from wake_bridge.edges.ledger_store.membership import Membership
from wake_bridge.ports.ledger_records import NewId

_MAY_BE_TOLD_AGAIN: Final = """
    SELECT wake_event.id, kind = 'message' AND policy = 'immediate' AS can_wake FROM wake_event JOIN delivery ON delivery.id = delivery_id
    WHERE delivery_id = :id AND NOT is_seen_late AND wake_event.status = 'announced' AND wake_event.reason = 'unknown'
        AND again_of = '' AND by_heartbeat = 0 AND kind <> 'pulse'
        AND NOT EXISTS (SELECT 1 FROM announced
            WHERE announced.identity = wake_event.identity AND announced.subject_key = wake_event.subject_key)
        AND NOT EXISTS (SELECT 1 FROM delivery_event JOIN delivery AS other ON other.id = delivery_event.delivery_id
            WHERE event_id = wake_event.id AND other.id <> :id AND other.outcome = 'unknown')
"""


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

    def _open_again(self, delivery_id: str, now: Instant) -> None:
        """Events that only this delivery announced count as open; riders become loose, they never wake by themselves.

        A person has looked where they were announced before: nothing needs to be looked for.
        """
        self._db.change(
            "UPDATE wake_event SET status = 'open', reason = '', status_at = :now, again_of = ''"
            " WHERE delivery_id = :id AND status = 'announced' AND NOT EXISTS (SELECT 1 FROM announced"
            " WHERE announced.identity = wake_event.identity AND announced.subject_key = wake_event.subject_key)",
            {"id": delivery_id, "now": now},
        )
        self._let_riders_go(delivery_id, is_remembered=True)

    def _successor_for(self, failed: Delivery, why: Mapping[str, str], new_id: NewId, now: Instant) -> str:
        """The identity's unfrozen delivery, or a new one, due at once; `why` goes into its journal."""
        unfrozen = self._unfrozen_of(failed.identity)
        successor = new_id() if unfrozen is None else unfrozen.id
        if unfrozen is None:
            self._db.change(
                "INSERT INTO delivery (id, identity, created_at, due_at) VALUES (?, ?, ?, ?)",
                (successor, failed.identity, now, now),
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
