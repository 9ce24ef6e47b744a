"""What can still happen to a delivery that has ended: better proof, or another try by a person's wish (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Mapping

from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import IllegalTransition, OperationFailed, RefusedForSafety
from wake_bridge.domain.names import Instant
from wake_bridge.edges.ledger_store.membership import Membership
from wake_bridge.ports.ledger_records import NewId


class SecondChances(Membership):
    """Raising proof and retrying."""

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
            successor = self._successor_for(failed, new_id, now)
            self._hand_over(delivery_id, successor)
            return self._read(successor)

    def _open_again(self, delivery_id: str, now: Instant) -> None:
        """Events that only this delivery announced count as open; riders become loose, they never wake by themselves."""
        self._db.change(
            "UPDATE wake_event SET status = 'open', reason = '', status_at = :now"
            " WHERE delivery_id = :id AND status = 'announced' AND NOT EXISTS (SELECT 1 FROM announced"
            " WHERE announced.identity = wake_event.identity AND announced.subject_key = wake_event.subject_key)",
            {"id": delivery_id, "now": now},
        )
        self._let_riders_go(delivery_id, is_remembered=True)

    def _successor_for(self, failed: Delivery, new_id: NewId, now: Instant) -> str:
        """The identity's unfrozen delivery, or a new one, due at once."""
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
        self._write_line(successor, Step.OPENED if unfrozen is None else Step.JOINED, {"retry_of": failed.id}, now)
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
