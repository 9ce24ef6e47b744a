"""The moves of one delivery, each a compare-and-swap on (id, from-state, owner_lease), and which events it carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, Outcome, Progress, Proof, Step, progress_of
from wake_bridge.domain.errors import IllegalTransition, StaleLease
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.ports.ledger_records import Lock
from wake_bridge.storage.ledger.columns import binding_to_json, columns_of_hold
from wake_bridge.storage.ledger.database import LedgerPart

_TELLS: Final = {Outcome.SUBMITTED, Outcome.ACKNOWLEDGED, Outcome.UNKNOWN}
"""Outcomes after which the events count as announced: the text did, or may, stand before the agent."""


class Membership(LedgerPart):
    """No open event is ever without a way to a delivery: it is carried by one that is alive or failed, or it is loose."""

    def _unfrozen_of(self, identity: Identity) -> Delivery | None:
        found = self._deliveries(
            "SELECT * FROM delivery WHERE identity = ? AND state IN ('PENDING', 'DISPATCHED') AND ack_within = 0",
            (identity,),
        )
        return found[0] if found else None

    def _keep_exactly(self, delivery_id: str, events: Sequence[str]) -> None:
        """Make these the events of a delivery; raises `StaleLease` if one of them is not open and free to be taken."""
        if not events:
            raise IllegalTransition("a digest of no events cannot be locked", delivery_id)
        members = self._db.rows("SELECT event_id FROM delivery_event WHERE delivery_id = ?", (delivery_id,))
        before, after = {row["event_id"] for row in members}, set(events)
        for event_id in before - after:
            self._db.change(
                "DELETE FROM delivery_event WHERE delivery_id = ? AND event_id = ?", (delivery_id, event_id)
            )
            self._db.change(
                "UPDATE wake_event SET delivery_id = NULL WHERE id = ? AND delivery_id = ?", (event_id, delivery_id)
            )
        for event_id in after - before:
            self._db.change(
                "INSERT INTO delivery_event (delivery_id, event_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (delivery_id, event_id),
            )
        self._db.change(
            "UPDATE wake_event SET delivery_id = :id WHERE delivery_id IS NULL AND status = 'open'"
            " AND id IN (SELECT event_id FROM delivery_event WHERE delivery_id = :id)",
            {"id": delivery_id},
        )
        taken = self._db.rows(
            "SELECT id FROM wake_event WHERE delivery_id = ? AND status = 'open'",
            (delivery_id,),
        )
        if lost := after - {row["id"] for row in taken}:
            raise StaleLease(
                f"event {min(lost)} is no longer open for this delivery",
                delivery_id,
                hint="it was read or announced elsewhere meanwhile: compose the digest again",
            )

    def _move_events(self, origin: str, destination: str) -> int:
        """All events of one delivery become another's; answers how many."""
        self._db.change(
            "INSERT INTO delivery_event (delivery_id, event_id) SELECT ?, event_id FROM delivery_event"
            " WHERE delivery_id = ? ON CONFLICT DO NOTHING",
            (destination, origin),
        )
        self._db.change("UPDATE wake_event SET delivery_id = ? WHERE delivery_id = ?", (destination, origin))
        return self._db.change("DELETE FROM delivery_event WHERE delivery_id = ?", (origin,))

    def _close_events(self, delivery_id: str, outcome: Outcome, now: Instant) -> None:
        """What becomes of the open events when their delivery ends."""
        if outcome in _TELLS:
            self._db.change(
                "UPDATE wake_event SET status = 'announced', reason = ?, status_at = ?"
                " WHERE delivery_id = ? AND status = 'open'",
                (outcome, now, delivery_id),
            )
            if outcome is not Outcome.UNKNOWN:
                self._items_have_arrived(delivery_id, now)
        elif outcome is Outcome.FAILED:
            self._let_riders_go(delivery_id, is_remembered=True)
        else:
            self._db.change(
                "DELETE FROM delivery_event WHERE delivery_id = :id"
                " AND event_id IN (SELECT id FROM wake_event WHERE delivery_id = :id AND status = 'open')",
                {"id": delivery_id},
            )
            self._db.change(
                "UPDATE wake_event SET delivery_id = NULL WHERE delivery_id = ? AND status = 'open'", (delivery_id,)
            )

    def _items_have_arrived(self, delivery_id: str, now: Instant) -> None:
        """The wake stands before its agent, and with it what came from outside."""
        self._db.change(
            "UPDATE wake_event SET delivered_at = ?"
            " WHERE delivery_id = ? AND kind = 'item' AND status = 'announced' AND delivered_at IS NULL",
            (now, delivery_id),
        )

    def _let_riders_go(self, delivery_id: str, *, is_remembered: bool) -> None:
        """`next_turn` events rode along in a digest that was not delivered: free them to ride in another.

        They stay among the delivery's events only where its digest stays.
        """
        if not is_remembered:
            self._db.change(
                "DELETE FROM delivery_event WHERE delivery_id = :id AND event_id IN"
                " (SELECT id FROM wake_event WHERE delivery_id = :id AND status = 'open' AND policy <> 'immediate')",
                {"id": delivery_id},
            )
        self._db.change(
            "UPDATE wake_event SET delivery_id = NULL"
            " WHERE delivery_id = ? AND status = 'open' AND policy <> 'immediate'",
            (delivery_id,),
        )


_LEAVES_UNANSWERED: Final = {Outcome.SUBMITTED, Outcome.UNKNOWN, Outcome.FAILED}
"""Outcomes after which nobody has answered yet: what has to be answered waits for that, or for its deadline."""

_NEEDS_AN_ATTEMPT: Final = {Outcome.SUBMITTED, Outcome.UNKNOWN}
_END_OF: Final = {
    Outcome.SUBMITTED: DeliveryState.DELIVERED,
    Outcome.ACKNOWLEDGED: DeliveryState.DELIVERED,
    Outcome.READ: DeliveryState.DELIVERED,
    Outcome.EMPTY: DeliveryState.DELIVERED,
    Outcome.FAILED: DeliveryState.FAILED,
    Outcome.UNKNOWN: DeliveryState.FAILED,
}


class DeliveryMoves(Membership):
    """What can happen to a delivery between its opening and its end."""

    def dispatch(self, delivery: Delivery, now: Instant) -> Delivery:
        """See `Ledger.dispatch`."""
        _expect(delivery, DeliveryState.PENDING)
        with self._db.derived():
            self._to_dispatched(delivery, now)
            return self._read(delivery.id)

    def hold(self, delivery: Delivery, hold: Hold, now: Instant) -> Delivery:
        """See `Ledger.hold`."""
        _expect(delivery, DeliveryState.DISPATCHED)
        with self._db.derived():
            before = self._read(delivery.id)
            self._swap(
                "UPDATE delivery SET hold_reason = :hold_reason, hold_cause = :hold_cause, hold_detail = :hold_detail, hold_where = :hold_where,"
                " next_look_at = :next_look_at WHERE id = :id AND state = :state AND owner_lease = :lease",
                delivery,
                columns_of_hold(hold),
            )
            self._write_change_of_hold(before, hold, now)
            return self._read(delivery.id)

    def lock(self, delivery: Delivery, lock: Lock, now: Instant) -> Delivery:
        """See `Ledger.lock`."""
        _expect(delivery, DeliveryState.DISPATCHED)
        with self._db.transaction():
            self._to_locked(delivery, lock, now)
            return self._read(delivery.id)

    def renew(self, delivery: Delivery, until: Instant, hold: Hold | None, now: Instant) -> Delivery:
        """See `Ledger.renew`."""
        _expect(delivery, DeliveryState.LOCKED)
        with self._db.transaction():
            before = self._read(delivery.id)
            self._swap(
                "UPDATE delivery SET owner_lease = owner_lease + (lease_until <= :now), lease_until = :until,"
                " hold_reason = :hold_reason, hold_cause = :hold_cause, hold_detail = :hold_detail, hold_where = :hold_where,"
                " next_look_at = :next_look_at WHERE id = :id AND state = :state AND owner_lease = :lease",
                delivery,
                {"until": until, "now": now, **columns_of_hold(hold)},
            )
            after = self._read(delivery.id)
            if after.owner_lease > delivery.owner_lease:
                self._write_line(delivery.id, Step.LOCKED, {"taken_over": "the lease had run out"}, now)
            if hold is not None:
                self._write_change_of_hold(before, hold, now)
            return after

    def release(
        self,
        delivery: Delivery,
        hold: Hold,
        now: Instant,
        *,
        is_attempt: bool,
        idempotent: bool = False,
        passed_by: str = "",
    ) -> Delivery:
        """See `Ledger.release`."""
        _expect(delivery, DeliveryState.LOCKED)
        with self._db.transaction():
            if not idempotent:
                self._refuse_once_touched(delivery.id)
            if passed_by:
                # before a younger delivery joins, whose events the receiver has not seen
                self._db.change(
                    "UPDATE wake_event SET passed_by = ? WHERE delivery_id = ? AND status = 'open'",
                    (passed_by, delivery.id),
                )
            self._let_riders_go(delivery.id, is_remembered=False)
            # the digest that told of it is gone
            self._db.change("UPDATE delivery SET told_in = '' WHERE told_in = ? AND told_in <> ''", (delivery.id,))
            if self._read(delivery.id).proof >= Proof.ACKNOWLEDGED:
                # whoever answered while the attempt ran was told that nobody is woken for it any more
                answered = {"reason": hold.reason, "cause": hold.cause}
                self._settle_frozen(delivery, Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED, answered, now)
                return self._read(delivery.id)
            younger = None if delivery.ack_within else self._unfrozen_of(delivery.identity)
            due_at = delivery.due_at if younger is None else min(delivery.due_at, younger.due_at)
            if younger is not None:
                self._merge(younger, delivery, now)
            self._swap(
                "UPDATE delivery SET state = 'DISPATCHED', owner_lease = owner_lease + 1, lease_until = NULL,"
                " digest = '', attempts = attempts + :attempt, due_at = MIN(due_at, :due_at), hold_reason = :hold_reason,"
                " hold_cause = :hold_cause, hold_detail = :hold_detail, hold_where = :hold_where, next_look_at = :next_look_at"
                " WHERE id = :id AND state = :state AND owner_lease = :lease",
                delivery,
                {"attempt": is_attempt, "due_at": due_at, **columns_of_hold(hold)},
            )
            line = {"reason": hold.reason, "cause": hold.cause, "detail": hold.detail}
            self._write_line(delivery.id, Step.RELEASED, line | ({"passed_by": passed_by} if passed_by else {}), now)
            return self._read(delivery.id)

    def settle(
        self, delivery: Delivery, outcome: Outcome, proof: Proof, detail: Mapping[str, str], now: Instant
    ) -> Delivery:
        """See `Ledger.settle`."""
        if not delivery.state.is_frozen and outcome in _NEEDS_AN_ATTEMPT:
            raise _illegal(delivery, f"settle as {outcome} without an attempt")
        if delivery.state.is_terminal:
            raise _illegal(delivery, f"settle as {outcome}")
        with self._db.transaction():
            frozen = (
                delivery if delivery.state.is_frozen else self._walk_to_locked(delivery, f"to settle as {outcome}", now)
            )
            is_to_be_answered = frozen.ack_within and outcome in _LEAVES_UNANSWERED
            # an answer may have come while the attempt ran, which knows the delivery from before
            if is_to_be_answered and self._read(frozen.id).proof < Proof.ACKNOWLEDGED:
                self._await_answer(frozen, outcome, proof, detail, now)
            else:
                self._settle_frozen(frozen, outcome, proof, detail, now)
            return self._read(delivery.id)

    def append(self, delivery: Delivery, step: Step, detail: Mapping[str, str], now: Instant) -> None:
        """See `Ledger.append`."""
        known = (delivery.id, delivery.state, delivery.owner_lease)
        with self._db.transaction():
            if not self._db.row("SELECT 1 FROM delivery WHERE id = ? AND state = ? AND owner_lease = ?", known):
                raise self._stale(delivery)
            self._write_line(delivery.id, step, detail, now)

    def _swap(self, statement: str, delivery: Delivery, changes: Mapping[str, Any]) -> None:
        """Run a compare-and-swap; raises `StaleLease` when the delivery is no longer as the caller knows it."""
        known = {"id": delivery.id, "state": delivery.state, "lease": delivery.owner_lease}
        if not self._db.change(statement, {**known, **changes}):
            raise self._stale(delivery)

    def _stale(self, delivery: Delivery) -> StaleLease:
        now = self._read(delivery.id)
        return StaleLease(
            f"delivery was {delivery.state} under lease {delivery.owner_lease}, is {now.state} under {now.owner_lease}",
            delivery.id,
            hint="somebody else acted on it meanwhile: look at it again",
        )

    def _to_dispatched(self, delivery: Delivery, now: Instant) -> None:
        self._swap(
            "UPDATE delivery SET state = 'DISPATCHED', next_look_at = :now"
            " WHERE id = :id AND state = :state AND owner_lease = :lease",
            delivery,
            {"now": now},
        )
        self._write_line(delivery.id, Step.DISPATCHED, {}, now)

    def _to_locked(self, delivery: Delivery, lock: Lock, now: Instant) -> None:
        self._swap(
            "UPDATE delivery SET state = 'LOCKED', owner_lease = owner_lease + 1, lease_until = :until,"
            " digest = :digest, adapter = :adapter, place = :where, pane_key = :pane_key, fence = :fence,"
            " handed_lease = owner_lease + 1,"
            " hold_reason = NULL, hold_cause = '', hold_detail = '', hold_where = '', next_look_at = NULL"
            " WHERE id = :id AND state = :state AND owner_lease = :lease",
            delivery,
            {
                "until": lock.until,
                "digest": lock.digest,
                "adapter": lock.adapter,
                "where": lock.where,
                "pane_key": lock.pane_key,
                "fence": None if lock.fence is None else binding_to_json(lock.fence),
            },
        )
        self._keep_exactly(delivery.id, lock.events)
        self._db.change_each(
            "UPDATE delivery SET told_in = ? WHERE id = ? AND told_in = ''",
            [(delivery.id, one) for one in lock.history],
        )
        line = {
            "adapter": lock.adapter,
            "where": lock.where,
            "pane_key": lock.pane_key,
            "events": str(len(lock.events)),
        }
        self._write_line(delivery.id, Step.LOCKED, line, now)

    def _walk_to_locked(self, delivery: Delivery, why: str, now: Instant) -> Delivery:
        """The legal way from PENDING or DISPATCHED to LOCKED, with nothing in the digest, inside one transaction."""
        if delivery.state is DeliveryState.PENDING:
            self._to_dispatched(delivery, now)
            delivery = self._read(delivery.id)
        self._swap(
            "UPDATE delivery SET state = 'LOCKED', owner_lease = owner_lease + 1, lease_until = :until"
            " WHERE id = :id AND state = :state AND owner_lease = :lease",
            delivery,
            # ours until the transaction ends
            {"until": now + 1},
        )
        self._write_line(delivery.id, Step.LOCKED, {"why": why}, now)
        return self._read(delivery.id)

    def _settle_frozen(
        self, delivery: Delivery, outcome: Outcome, proof: Proof, detail: Mapping[str, str], now: Instant
    ) -> None:
        self._close_events(delivery.id, outcome, now)
        self._swap(
            "UPDATE delivery SET owner_lease = owner_lease + (state = 'LOCKED' AND lease_until <= :now),"
            " attempts = attempts + :attempt, state = :end, outcome = :outcome, proof = MAX(proof, :proof),"
            " settled_at = :now, lease_until = NULL, hold_reason = NULL, hold_cause = '', hold_detail = '', hold_where = '',"
            " next_look_at = NULL WHERE id = :id AND state = :state AND owner_lease = :lease",
            delivery,
            {
                "now": now,
                # one that was only walked through LOCKED has no digest, and was no attempt
                "attempt": outcome is Outcome.FAILED and delivery.digest != "",
                "end": _END_OF[outcome],
                "outcome": outcome,
                "proof": proof,
            },
        )
        self._write_line(delivery.id, Step.SETTLED, {**detail, "outcome": outcome, "proof": str(int(proof))}, now)

    def _await_answer(
        self, delivery: Delivery, outcome: Outcome, proof: Proof, detail: Mapping[str, str], now: Instant
    ) -> None:
        """Stay LOCKED until the agent answers or the time is over.

        A wake that failed for good, or whose agent has called for a person, is overdue at once.
        """
        # the agent may have called while the attempt ran
        called = self._db.row("SELECT 1 FROM journal WHERE delivery_id = ? AND step = ?", (delivery.id, Step.CALLED))
        by = now if outcome is Outcome.FAILED or called else Instant(now + delivery.ack_within)
        why = "" if outcome is Outcome.SUBMITTED else detail.get("why", detail.get("reason", ""))
        # that the wake is seen in the agent's hands is no answer yet
        seen = min(proof, Proof.SUBMITTED)
        hold = Hold(HoldReason.AWAITING_ACK, why, delivery.where, by, Cause.AWAITING_ACK)
        self._swap(
            "UPDATE delivery SET owner_lease = owner_lease + (lease_until <= :now), proof = MAX(proof, :proof),"
            " attempts = attempts + :attempt, ack_by = :by, lease_until = :by, hold_reason = :hold_reason,"
            " hold_cause = :hold_cause, hold_detail = :hold_detail, hold_where = :hold_where, next_look_at = :next_look_at"
            " WHERE id = :id AND state = :state AND owner_lease = :lease",
            delivery,
            {"now": now, "proof": seen, "attempt": outcome is Outcome.FAILED, "by": by, **columns_of_hold(hold)},
        )
        line = {"reason": hold.reason, "cause": hold.cause, "outcome": outcome, "proof": str(int(seen))}
        self._write_line(delivery.id, Step.HELD, {**detail, **line}, now)

    def _merge(self, younger: Delivery, older: Delivery, now: Instant) -> None:
        """Move the events of a younger unfrozen delivery into an older one that is about to thaw, and end it empty."""
        events = self._move_events(younger.id, older.id)
        locked = self._walk_to_locked(younger, "to merge", now)
        self._settle_frozen(locked, Outcome.EMPTY, Proof.NONE, {"merged_into": older.id}, now)
        self._write_line(older.id, Step.JOINED, {"events": str(events), "merged_from": younger.id}, now)

    def _refuse_once_touched(self, delivery_id: str) -> None:
        steps = [
            Step(row["step"])
            for row in self._db.rows("SELECT step FROM journal WHERE delivery_id = ? ORDER BY seq", (delivery_id,))
        ]
        progress = progress_of(steps)
        if progress is not Progress.UNTOUCHED:
            raise IllegalTransition(
                f"delivery may not go back to {DeliveryState.DISPATCHED}: its text is {progress.replace('_', ' ')}",
                delivery_id,
                hint="submit the very text that was staged, or settle the delivery",
            )

    def _write_change_of_hold(self, before: Delivery, hold: Hold, now: Instant) -> None:
        if before.hold is None or (before.hold.reason, before.hold.detail) != (hold.reason, hold.detail):
            line = {"reason": hold.reason, "cause": hold.cause, "detail": hold.detail, "where": hold.where}
            self._write_line(before.id, Step.HELD, line, now)


def _expect(delivery: Delivery, state: DeliveryState) -> None:
    if delivery.state is not state:
        raise _illegal(delivery, f"move as if it were {state}")


def _illegal(delivery: Delivery, what: str) -> IllegalTransition:
    return IllegalTransition(f"a delivery that is {delivery.state} cannot {what}", delivery.id)


class HandingOver(DeliveryMoves):
    """A delivery for the occasion, or the one that waits."""

    def hand_over(
        self,
        identity: Identity,
        waiting: Delivery | None,
        delivery_id: str,
        lock: Lock,
        now: Instant,
    ) -> Delivery:
        """See `Ledger.hand_over`."""
        with self._db.transaction():
            delivery = waiting or self._open_for_hook(identity, delivery_id, len(lock.events), now)
            if delivery.state is DeliveryState.PENDING:
                self._to_dispatched(delivery, now)
                delivery = self._read(delivery_id)
            self._to_locked(delivery, lock, now)
            return self._read(delivery_id)

    def _open_for_hook(self, identity: Identity, delivery_id: str, events: int, now: Instant) -> Delivery:
        other = self._unfrozen_of(identity)
        if other is not None:
            raise StaleLease(
                "another delivery of the identity has been opened meanwhile", other.id, hint="look at what waits again"
            )
        self._db.change(
            "INSERT INTO delivery (id, identity, created_at, due_at) VALUES (?, ?, ?, ?)",
            (delivery_id, identity, now, now),
        )
        self._write_line(delivery_id, Step.OPENED, {"events": str(events)}, now)
        return self._read(delivery_id)
