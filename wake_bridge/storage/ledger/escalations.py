"""Wakes that have to be answered: the answer, the deadline, and what passes to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.channels import Send
from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import IllegalTransition, LateAnswer
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.storage.ledger.moves import DeliveryMoves
from wake_bridge.storage.ledger.sends import SendRecord

_OVERDUE: Final = """
    SELECT * FROM delivery WHERE ack_by <= :now AND settled_at IS NULL AND state <> 'ESCALATED' AND proof < 3
        AND (state <> 'LOCKED' OR hold_reason IS NOT NULL OR lease_until <= :now) ORDER BY ack_by, seq
"""
"""An attempt that runs ends within its lease, and is looked at then."""


class EscalationRecord(SendRecord, DeliveryMoves):
    """Each move is a compare-and-swap; of an agent's answer, on the lease that the agent was told."""

    def overdue(self, now: Instant) -> list[Delivery]:
        """See `EscalationStore.overdue`."""
        return self._deliveries(_OVERDUE, {"now": now})

    def escalated(self) -> list[Delivery]:
        """See `EscalationStore.escalated`."""
        return self._deliveries("SELECT * FROM delivery WHERE state = 'ESCALATED' ORDER BY seq")

    def escalate(self, delivery: Delivery, notice: Notice, sends: Sequence[Send], now: Instant) -> Delivery:
        """See `EscalationStore.escalate`."""
        if delivery.state.is_terminal or delivery.state is DeliveryState.ESCALATED:
            raise IllegalTransition(f"a delivery that is {delivery.state} cannot be escalated", delivery.id)
        with self._db.transaction():
            locked = (
                delivery
                if delivery.state is DeliveryState.LOCKED
                else self._walk_to_locked(delivery, "its time to be answered is over", now)
            )
            self._swap(
                "UPDATE delivery SET state = 'ESCALATED', owner_lease = owner_lease + 1, escalated_at = :now,"
                " lease_until = NULL, hold_reason = NULL, hold_cause = '', hold_detail = '', hold_where = '',"
                " next_look_at = NULL WHERE id = :id AND state = :state AND owner_lease = :lease",
                locked,
                {"now": now},
            )
            self._write_line(delivery.id, Step.ESCALATED, {"why": notice.title}, now)
            self._note_notice(notice, now)
            self._put(sends, now)
            return self._read(delivery.id)

    def settle_escalation(self, delivery: Delivery, why_not: str, now: Instant) -> Delivery:
        """See `EscalationStore.settle_escalation`."""
        outcome = Outcome.FAILED if why_not else Outcome.ESCALATED
        with self._db.transaction():
            if outcome is Outcome.ESCALATED:
                self._db.change(
                    "UPDATE wake_event SET status = 'announced', reason = ?, status_at = ?"
                    " WHERE delivery_id = ? AND status = 'open'",
                    (outcome, now, delivery.id),
                )
            self._swap(
                "UPDATE delivery SET state = :end, outcome = :outcome, settled_at = :now"
                " WHERE id = :id AND state = 'ESCALATED' AND owner_lease = :lease",
                delivery,
                {
                    "now": now,
                    "end": DeliveryState.FAILED if why_not else DeliveryState.DELIVERED,
                    # see `delivery_of`
                    "outcome": Outcome.FAILED if why_not else Outcome.EMPTY,
                },
            )
            self._write_line(
                delivery.id, Step.SETTLED, {"outcome": outcome, **({"why": why_not} if why_not else {})}, now
            )
            return self._read(delivery.id)

    def answer(self, delivery_id: str, lease: int | None, by: str, now: Instant, *, is_person: bool = True) -> Delivery:
        """See `EscalationStore.answer`."""
        with self._db.transaction():
            known = self._read(delivery_id)
            is_free = lease is None and (is_person or known.escalated_at is None)
            if is_free or (lease is not None and self._is_in_force(known, lease)):
                return self._answered(known, by, now)
            self._write_line(delivery_id, Step.STALE, {"by": by, "lease": str(lease or "")}, now)
        raise _too_late(known, lease)

    def answered(self, since: Instant) -> list[Delivery]:
        """See `EscalationStore.answered`."""
        return self._deliveries(
            "SELECT * FROM delivery WHERE settled_at >= ? AND ack_within > 0 AND proof >= 3 ORDER BY settled_at, seq",
            (since,),
        )

    def call_person(self, delivery_id: str, lease: int | None, by: str, now: Instant) -> Delivery:
        """See `EscalationStore.call_person`."""
        with self._db.transaction():
            known = self._read(delivery_id)
            is_over = known.state.is_terminal or known.state is DeliveryState.ESCALATED
            if is_over and lease is None:
                raise IllegalTransition(f"a delivery that is {known.state} cannot be escalated", delivery_id)
            if not is_over and (lease is None or self._is_in_force(known, lease)):
                self._db.change(
                    "UPDATE delivery SET ack_by = MIN(COALESCE(ack_by, :now), :now) WHERE id = :id",
                    {"now": now, "id": delivery_id},
                )
                self._write_line(delivery_id, Step.CALLED, {"by": by}, now)
                return self._read(delivery_id)
            self._write_line(delivery_id, Step.STALE, {"by": by, "lease": str(lease)}, now)
        raise _too_late(known, lease)

    def put_off(self, delivery: Delivery, by: Instant, why: str, now: Instant) -> Delivery:
        """See `EscalationStore.put_off`."""
        with self._db.transaction():
            self._swap(
                "UPDATE delivery SET ack_by = :by, lease_until = :by, next_look_at = :by"
                " WHERE id = :id AND state = :state AND owner_lease = :lease AND hold_reason = :reason",
                delivery,
                {"by": by, "reason": HoldReason.AWAITING_ACK},
            )
            line = {"reason": HoldReason.AWAITING_ACK, "cause": Cause.AWAITING_ACK, "why": why}
            self._write_line(delivery.id, Step.HELD, line, now)
            return self._read(delivery.id)

    def passed_on(
        self, identity: Identity, since: Instant, *, is_untold: bool = False
    ) -> list[tuple[Delivery, list[WakeEvent]]]:
        """See `EscalationStore.passed_on`."""
        found = self._deliveries(
            "SELECT * FROM delivery WHERE identity = :who AND escalated_at IS NOT NULL AND state = 'DELIVERED'"
            " AND settled_at >= :since AND (told_in = '' OR NOT :untold) ORDER BY settled_at, seq",
            {"who": identity, "since": since, "untold": is_untold},
        )
        return [(one, self._events_of(one.id)) for one in found]

    def unacknowledged_by_person(self) -> list[tuple[Delivery, list[WakeEvent]]]:
        """See `EscalationStore.unacknowledged_by_person`."""
        found = self._deliveries(
            "SELECT * FROM delivery WHERE escalated_at IS NOT NULL AND proof < 3 ORDER BY escalated_at, seq"
        )
        return [(one, self._events_of(one.id)) for one in found]

    def _events_of(self, delivery_id: str) -> list[WakeEvent]:
        return self._events(
            "SELECT wake_event.* FROM delivery_event JOIN wake_event ON wake_event.id = event_id"
            " WHERE delivery_event.delivery_id = ? ORDER BY epoch, log_id, seq",
            (delivery_id,),
        )

    def sends_about(self, subject: str) -> list[Send]:
        """See `EscalationStore.sends_about`."""
        return self._sends("subject = :subject ORDER BY seq", {"subject": subject})

    @staticmethod
    def _is_in_force(known: Delivery, lease: int) -> bool:
        """Whether the lease is the one that the agent was told last, and is still the agent's."""
        is_theirs = known.escalated_at is None and known.state in {DeliveryState.LOCKED, DeliveryState.DELIVERED}
        return is_theirs and known.handed_lease == lease

    def _answered(self, known: Delivery, by: str, now: Instant) -> Delivery:
        line = {"by": by}
        if known.state.is_terminal or (known.state is DeliveryState.LOCKED and not known.awaits_ack):
            if known.proof < Proof.ACKNOWLEDGED:
                self._db.change("UPDATE delivery SET proof = ? WHERE id = ?", (Proof.ACKNOWLEDGED, known.id))
                self._write_line(known.id, Step.ACKED, {**line, "proof": str(int(Proof.ACKNOWLEDGED))}, now)
            return self._read(known.id)
        frozen = known if known.state.is_frozen else self._walk_to_locked(known, "to settle as acknowledged", now)
        self._settle_frozen(frozen, Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED, line, now)
        return self._read(known.id)


def _too_late(known: Delivery, lease: int | None) -> LateAnswer:
    whose = (
        "a person was told, and it is theirs now" if known.escalated_at else f"it is {known.state} under another one"
    )
    what = whose if lease is None else f"lease {lease} is no longer in force: {whose}"
    return LateAnswer(what, known.id, hint="nothing was changed; leave it alone")
