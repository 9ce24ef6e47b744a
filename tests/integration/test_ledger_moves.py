"""A delivery's life: every move is a compare-and-swap, and no event is lost on any way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.errors import IllegalTransition, NotFound, OperationFailed, RefusedForSafety, StaleLease
from wake_bridge.domain.events import EventStatus, TaskDetail, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Instant, LogId, WakePolicy
from wake_bridge.ports.ledger_records import Lock, NewId, Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.ledger_samples import (
    AGENT,
    FENCE,
    START,
    advance,
    busy,
    fresh_ledger,
    later,
    lock_with_its_events,
    open_delivery,
    sample_event,
)

Move = Callable[[LedgerStore, Delivery], object]


def dispatched(ledger: LedgerStore, new_id: NewId, *events: WakeEvent) -> Delivery:
    delivery = open_delivery(ledger, *(events or (sample_event(1),)), new_id=new_id)
    return ledger.dispatch(delivery, later(30_000))


def locked(ledger: LedgerStore, new_id: NewId, *events: WakeEvent) -> Delivery:
    return lock_with_its_events(ledger, dispatched(ledger, new_id, *events), later(30_000))


def steps_of(ledger: LedgerStore, delivery: Delivery) -> list[Step]:
    return [line.step for line in ledger.journal_of(delivery.id)]


def open_events(ledger: LedgerStore, delivery: Delivery) -> list[int]:
    return [event.log_id for event in ledger.events_of(delivery.id) if event.status is EventStatus.OPEN]


# -- the straight way ----------------------------------------------------------------------------------------------


def test_a_delivery_goes_from_its_window_to_its_proof(ledger: LedgerStore, new_id: NewId) -> None:
    """PENDING → DISPATCHED → LOCKED → DELIVERED, each step written down."""
    delivery = locked(ledger, new_id)
    assert delivery.state is DeliveryState.LOCKED
    assert delivery.lease_until == later(90_000)
    assert (delivery.adapter, delivery.where, delivery.pane_key) == ("tmux", "agents:1.0", "pane of @agent")
    assert ledger.fence_of(delivery.id) == FENCE
    for step in (Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT, Step.SUBMITTED):
        ledger.append(delivery, step, {"pane": "%7"}, later(30_100))

    settled = ledger.settle(delivery, Outcome.SUBMITTED, Proof.SUBMITTED, {"seen": "busy"}, later(30_200))

    assert (settled.state, settled.outcome, settled.proof) == (
        DeliveryState.DELIVERED,
        Outcome.SUBMITTED,
        Proof.SUBMITTED,
    )
    assert (settled.settled_at, settled.lease_until, settled.hold) == (later(30_200), None, None)
    assert settled.digest == delivery.digest
    (event,) = ledger.events_of(delivery.id)
    assert (event.status, event.refused_by) == (EventStatus.ANNOUNCED, "submitted")
    lines = ledger.journal_of(delivery.id)
    assert [line.step for line in lines] == [
        Step.OPENED,
        Step.DISPATCHED,
        Step.LOCKED,
        Step.INTENT_STAGE,
        Step.STAGED,
        Step.INTENT_SUBMIT,
        Step.SUBMITTED,
        Step.SETTLED,
    ]
    assert lines[-1].detail == {"seen": "busy", "outcome": "submitted", "proof": "2"}
    assert [line.lease for line in lines] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert (ledger.unsettled(), ledger.next_deadline()) == ([], None)


@pytest.mark.parametrize(
    ("outcome", "state", "status"),
    [
        (Outcome.SUBMITTED, DeliveryState.DELIVERED, EventStatus.ANNOUNCED),
        (Outcome.ACKNOWLEDGED, DeliveryState.DELIVERED, EventStatus.ANNOUNCED),
        (Outcome.UNKNOWN, DeliveryState.FAILED, EventStatus.ANNOUNCED),
        (Outcome.FAILED, DeliveryState.FAILED, EventStatus.OPEN),
    ],
)
def test_what_becomes_of_the_events_depends_on_whether_the_text_may_stand_there(
    ledger: LedgerStore, new_id: NewId, outcome: Outcome, state: DeliveryState, status: EventStatus
) -> None:
    """Submitted and unknown announce; a failed one waits for `retry` with its events open."""
    settled = ledger.settle(locked(ledger, new_id), outcome, Proof.NONE, {}, later(31_000))

    assert (settled.state, settled.outcome) == (state, outcome)
    assert [event.status for event in ledger.events_of(settled.id)] == [status]
    assert ledger.gather(later(31_000), new_id) == []


@pytest.mark.parametrize("outcome", [Outcome.READ, Outcome.EMPTY])
@pytest.mark.parametrize("bring", [open_delivery, dispatched, locked])
def test_a_set_that_was_read_meanwhile_settles_through_the_legal_chain_with_no_byte(
    ledger: LedgerStore, new_id: NewId, outcome: Outcome, bring: Callable[..., Delivery]
) -> None:
    """It settles through LOCKED as DELIVERED/`read` with zero bytes."""
    event = sample_event(1)
    delivery = bring(ledger, event, new_id=new_id) if bring is open_delivery else bring(ledger, new_id, event)
    ledger.mark([event.id], EventStatus.READ, "read meanwhile", later(31_000))

    settled = ledger.settle(delivery, outcome, Proof.NONE, {}, later(31_000))

    assert (settled.state, settled.outcome) == (DeliveryState.DELIVERED, outcome)
    assert settled.digest == delivery.digest
    assert steps_of(ledger, settled) == [Step.OPENED, Step.DISPATCHED, Step.LOCKED, Step.SETTLED]
    assert settled.owner_lease == 1
    assert ledger.events_of(settled.id)[0].status is EventStatus.READ


def test_an_event_that_is_still_open_leaves_a_delivery_that_ends_read(ledger: LedgerStore, new_id: NewId) -> None:
    """Never lost; it joined between the look and the settling, so it is gathered anew."""
    read, news = sample_event(1), sample_event(2)
    delivery = dispatched(ledger, new_id, read, news)
    ledger.mark([read.id], EventStatus.READ, "read meanwhile", later(31_000))

    ledger.settle(delivery, Outcome.READ, Proof.NONE, {}, later(31_000))

    assert [event.log_id for event in ledger.events_of(delivery.id)] == [1]
    (another,) = ledger.gather(later(31_000), new_id)
    assert open_events(ledger, another) == [2]


@pytest.mark.parametrize("outcome", [Outcome.SUBMITTED, Outcome.UNKNOWN])
@pytest.mark.parametrize("bring", [open_delivery, dispatched])
def test_what_was_never_attempted_cannot_have_been_submitted(
    ledger: LedgerStore, new_id: NewId, outcome: Outcome, bring: Callable[..., Delivery]
) -> None:
    """Submitted and unknown speak of an attempt, and an attempt needs a lock."""
    event = sample_event(1)
    delivery = bring(ledger, event, new_id=new_id) if bring is open_delivery else bring(ledger, new_id, event)

    with pytest.raises(IllegalTransition, match="without an attempt"):
        ledger.settle(delivery, outcome, Proof.NONE, {}, later(31_000))

    assert ledger.delivery(delivery.id) == delivery


def test_a_failure_counts_as_an_attempt_only_where_one_was_made(ledger: LedgerStore, new_id: NewId) -> None:
    """`max_attempts` counts failures of the adapters."""
    made = ledger.settle(locked(ledger, new_id), Outcome.FAILED, Proof.NONE, {}, later(31_000))
    spared = ledger.settle(
        dispatched(ledger, new_id, sample_event(2, "@other")), Outcome.FAILED, Proof.NONE, {}, later(31_000)
    )

    assert (made.attempts, spared.attempts) == (1, 0)


# -- holding -------------------------------------------------------------------------------------------------------


def test_a_hold_is_journalled_when_its_reason_changes_and_not_at_every_look(ledger: LedgerStore, new_id: NewId) -> None:
    """A hold logs when its reason changes."""
    delivery = dispatched(ledger, new_id)
    for look in range(3):
        delivery = ledger.hold(delivery, busy(later(35_000 + look)), later(30_000 + look))
    delivery = ledger.hold(delivery, Hold(HoldReason.USER_TYPING, "draft", "agents:1.0", later(50_000)), later(40_000))

    assert delivery.hold == Hold(HoldReason.USER_TYPING, "draft", "agents:1.0", later(50_000))
    assert (delivery.attempts, delivery.owner_lease) == (0, 0)
    held = [line.detail for line in ledger.journal_of(delivery.id) if line.step is Step.HELD]
    assert held == [
        {"reason": "active", "cause": "active", "detail": "spinner", "where": "agents:1.0"},
        {"reason": "userTyping", "cause": "userTyping", "detail": "draft", "where": "agents:1.0"},
    ]


def test_staged_text_keeps_its_delivery_locked_and_a_takeover_raises_the_lease(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """Once text was staged the delivery stays LOCKED; the lease rises with every change of owner."""
    owner = locked(ledger, new_id)
    staged = Hold(HoldReason.STAGED, "userTyping", "agents:1.0", later(35_000))

    kept = ledger.renew(owner, later(100_000), staged, later(89_999))
    assert (kept.state, kept.owner_lease, kept.hold, kept.digest) == (DeliveryState.LOCKED, 1, staged, owner.digest)

    taken = ledger.renew(kept, later(160_000), staged, later(100_000))
    assert (taken.owner_lease, taken.lease_until) == (2, later(160_000))
    with pytest.raises(StaleLease):
        ledger.append(owner, Step.INTENT_SUBMIT, {}, later(100_001))
    assert steps_of(ledger, taken)[2:] == [Step.LOCKED, Step.HELD, Step.LOCKED]


# -- locking -------------------------------------------------------------------------------------------------------


def test_a_lock_freezes_exactly_the_events_the_digest_speaks_of(ledger: LedgerStore, new_id: NewId) -> None:
    """Others leave and are gathered anew; `next_turn` events ride along."""
    told, joined_late = sample_event(1), sample_event(2)
    rider = sample_event(3, policy=WakePolicy.NEXT_TURN)
    delivery = dispatched(ledger, new_id, told, joined_late)
    advance(ledger, rider)

    frozen = ledger.lock(
        delivery,
        Lock(digest="text", events=[told.id, rider.id], adapter="tmux", where="", pane_key="", until=later(90_000)),
        later(30_000),
    )

    assert [event.id for event in ledger.events_of(frozen.id)] == [told.id, rider.id]
    assert ledger.next_turn_events(AGENT) == []
    assert ledger.fence_of(frozen.id) is None
    (another,) = ledger.gather(later(30_000), new_id)
    assert open_events(ledger, another) == [2]
    ledger.settle(frozen, Outcome.SUBMITTED, Proof.SUBMITTED, {}, later(31_000))
    assert {event.status for event in ledger.events_of(frozen.id)} == {EventStatus.ANNOUNCED}


def test_a_digest_that_is_no_longer_true_cannot_be_locked(ledger: LedgerStore, new_id: NewId) -> None:
    """Truth: counts are of unread subjects; a command may have shown them since the digest was composed."""
    first, second = sample_event(1), sample_event(2)
    delivery = dispatched(ledger, new_id, first, second)
    ledger.announce(AGENT, [second.subject_key], "inbox", later(30_000))

    with pytest.raises(StaleLease, match="no longer open"):
        lock_with_its_events(ledger, delivery, later(30_001))

    assert ledger.delivery(delivery.id) == delivery
    assert open_events(ledger, delivery) == [1]


def test_an_event_of_another_delivery_cannot_be_taken_along(ledger: LedgerStore, new_id: NewId) -> None:
    """Never knowingly submitted twice, so no event stands in two digests at once."""
    first = locked(ledger, new_id)
    second = dispatched(ledger, new_id, sample_event(2))

    with pytest.raises(StaleLease, match="no longer open for this delivery"):
        lock_with_its_events(ledger, second, later(31_000), *ledger.events_of(first.id))


def test_a_digest_of_nothing_cannot_be_locked(ledger: LedgerStore, new_id: NewId) -> None:
    """A digest speaks of something."""
    delivery = dispatched(ledger, new_id)
    with pytest.raises(IllegalTransition, match="no events"):
        ledger.lock(delivery, Lock(digest="t", events=[], adapter="", where="", pane_key="", until=later(1)), START)


# -- releasing -----------------------------------------------------------------------------------------------------


def test_a_release_thaws_the_digest_and_counts_only_the_adapters_own_failures(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """A hold or a refused paste is no attempt."""
    rider = sample_event(2, policy=WakePolicy.NEXT_TURN)
    delivery = dispatched(ledger, new_id)
    advance(ledger, rider)
    frozen = lock_with_its_events(ledger, delivery, later(30_000), rider)
    ledger.append(frozen, Step.INTENT_STAGE, {}, later(30_010))
    ledger.append(frozen, Step.REFUSED, {"by": "its own condition"}, later(30_020))

    thawed = ledger.release(frozen, busy(later(35_000)), later(30_030), is_attempt=False)

    assert (thawed.state, thawed.digest, thawed.attempts, thawed.owner_lease) == (DeliveryState.DISPATCHED, "", 0, 2)
    assert (thawed.hold, thawed.lease_until) == (busy(later(35_000)), None)
    assert open_events(ledger, thawed) == [1]
    assert ledger.next_turn_events(AGENT) == [rider]

    again = lock_with_its_events(ledger, thawed, later(35_000))
    assert ledger.release(again, busy(later(40_000)), later(35_001), is_attempt=True).attempts == 1


@pytest.mark.parametrize(
    "steps",
    [
        [Step.INTENT_STAGE],
        [Step.INTENT_STAGE, Step.STAGED],
        [Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT],
        [Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT, Step.REFUSED],
        [Step.INTENT_SUBMIT, Step.SUBMITTED],
    ],
)
def test_once_text_may_stand_there_a_delivery_cannot_go_back(
    ledger: LedgerStore, new_id: NewId, steps: list[Step]
) -> None:
    """L→D only while nothing can have been typed, or the route is idempotent."""
    frozen = locked(ledger, new_id)
    for step in steps:
        ledger.append(frozen, step, {}, later(30_010))

    with pytest.raises(IllegalTransition, match="may not go back"):
        ledger.release(frozen, busy(later(35_000)), later(30_020), is_attempt=False)
    assert ledger.delivery(frozen.id) == frozen

    thawed = ledger.release(frozen, busy(later(35_000)), later(30_020), is_attempt=False, idempotent=True)
    assert thawed.state is DeliveryState.DISPATCHED


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_a_released_delivery_takes_in_the_younger_one_that_opened_meanwhile(
    ledger: LedgerStore, new_id: NewId, is_dispatched: bool
) -> None:
    """One unfrozen delivery per target; the emptied one ends by the legal chain, and says where it went."""
    older = locked(ledger, new_id)
    younger = open_delivery(ledger, sample_event(2, window=0), sample_event(3), new_id=new_id)
    if is_dispatched:
        younger = ledger.dispatch(younger, later(30_001))

    thawed = ledger.release(older, busy(later(35_000)), later(30_010), is_attempt=False)

    assert open_events(ledger, thawed) == [1, 2, 3]
    assert thawed.due_at == START
    emptied = ledger.delivery(younger.id)
    assert emptied is not None
    assert (emptied.state, emptied.outcome) == (DeliveryState.DELIVERED, Outcome.EMPTY)
    assert ledger.events_of(younger.id) == []
    assert steps_of(ledger, emptied) == [Step.OPENED, Step.DISPATCHED, Step.LOCKED, Step.SETTLED]
    assert ledger.journal_of(younger.id)[-1].detail["merged_into"] == older.id
    joined = ledger.journal_of(older.id)[-2]
    assert (joined.step, joined.detail) == (Step.JOINED, {"events": "2", "merged_from": younger.id})
    assert ledger.unsettled() == [thawed]
    assert ledger.gather(later(30_020), new_id) == []


# -- a stale actor changes nothing ---------------------------------------------------------------------------------

MOVES: dict[str, tuple[DeliveryState, Move]] = {
    "dispatch": (DeliveryState.PENDING, lambda ledger, one: ledger.dispatch(one, later(40_000))),
    "hold": (DeliveryState.DISPATCHED, lambda ledger, one: ledger.hold(one, busy(later(50_000)), later(40_000))),
    "lock": (DeliveryState.DISPATCHED, lambda ledger, one: lock_with_its_events(ledger, one, later(40_000))),
    "renew": (DeliveryState.LOCKED, lambda ledger, one: ledger.renew(one, later(99_000), None, later(40_000))),
    "release": (
        DeliveryState.LOCKED,
        lambda ledger, one: ledger.release(one, busy(later(50_000)), later(40_000), is_attempt=True),
    ),
    "settle": (
        DeliveryState.LOCKED,
        lambda ledger, one: ledger.settle(one, Outcome.SUBMITTED, Proof.SUBMITTED, {}, later(40_000)),
    ),
    "settle at once": (
        DeliveryState.DISPATCHED,
        lambda ledger, one: ledger.settle(one, Outcome.READ, Proof.NONE, {}, later(40_000)),
    ),
    "append": (DeliveryState.LOCKED, lambda ledger, one: ledger.append(one, Step.INTENT_SUBMIT, {}, later(40_000))),
}


def everything(ledger: LedgerStore) -> list[list[tuple[object, ...]]]:
    return [
        [tuple(row) for row in ledger._db.rows(f"SELECT * FROM {table}")]
        for table in ("delivery", "delivery_event", "wake_event", "journal")
    ]


@pytest.mark.parametrize("name", MOVES)
def test_an_actor_whose_knowledge_is_old_changes_nothing(ledger: LedgerStore, new_id: NewId, name: str) -> None:
    """Compare-and-swap on (id, from-state, owner_lease); a stale actor changes nothing."""
    state, move = MOVES[name]
    bring = {DeliveryState.PENDING: None, DeliveryState.DISPATCHED: dispatched, DeliveryState.LOCKED: locked}[state]
    known = open_delivery(ledger, sample_event(1), new_id=new_id) if bring is None else bring(ledger, new_id)
    ledger.settle(known, Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED, {}, later(39_000))
    before = everything(ledger)

    with pytest.raises(StaleLease):
        move(ledger, known)

    assert everything(ledger) == before


@pytest.mark.parametrize("name", ["renew", "release", "settle", "append"])
def test_an_owner_whose_lease_was_taken_over_changes_nothing(ledger: LedgerStore, new_id: NewId, name: str) -> None:
    """The same when the state is as it was and only the lease has risen."""
    owner = locked(ledger, new_id)
    ledger.renew(owner, later(200_000), None, later(100_000))
    before = everything(ledger)

    with pytest.raises(StaleLease, match="under lease 1, is LOCKED under 2"):
        MOVES[name][1](ledger, owner)

    assert everything(ledger) == before


@pytest.mark.parametrize("name", ["hold", "lock", "settle at once"])
def test_what_was_known_before_an_attempt_is_old_though_the_state_is_the_same_again(
    ledger: LedgerStore, new_id: NewId, name: str
) -> None:
    """DISPATCHED, LOCKED, DISPATCHED: only the lease tells the first from the last."""
    known = dispatched(ledger, new_id)
    ledger.release(
        lock_with_its_events(ledger, known, later(30_000)), busy(later(35_000)), later(30_001), is_attempt=False
    )
    before = everything(ledger)

    with pytest.raises(StaleLease, match="under lease 0, is DISPATCHED under 2"):
        MOVES[name][1](ledger, known)

    assert everything(ledger) == before


FROM_ELSEWHERE = [
    (name, state)
    for name, (origin, _) in MOVES.items()
    for state in DeliveryState
    if state is not origin and name != "append" and (state.is_terminal or not name.startswith("settle"))
]


@pytest.mark.parametrize(("name", "state"), FROM_ELSEWHERE)
def test_a_move_from_a_state_it_does_not_start_from_is_illegal(
    ledger: LedgerStore, new_id: NewId, name: str, state: DeliveryState
) -> None:
    """A move belongs to its from-state, whatever the caller believes."""
    delivery = replace(open_delivery(ledger, sample_event(1), new_id=new_id), state=state)
    before = everything(ledger)

    with pytest.raises(IllegalTransition):
        MOVES[name][1](ledger, delivery)

    assert everything(ledger) == before


def test_a_command_and_the_daemon_cannot_both_take_a_delivery(tmp_path: Path, new_id: NewId) -> None:
    """Whoever takes the lease first delivers."""
    with fresh_ledger(tmp_path) as daemon, closing(LedgerStore.open(tmp_path)) as command:
        delivery = dispatched(daemon, new_id)
        seen_by_command = command.delivery(delivery.id)
        assert seen_by_command == delivery

        lock_with_its_events(daemon, delivery, later(30_000))
        with pytest.raises(StaleLease):
            lock_with_its_events(command, seen_by_command, later(30_000))


# -- after the end -------------------------------------------------------------------------------------------------


def test_proof_rises_after_the_end_and_never_falls(ledger: LedgerStore, new_id: NewId) -> None:
    """A terminal row's proof may rise (`acked`)."""
    settled = ledger.settle(locked(ledger, new_id), Outcome.UNKNOWN, Proof.NONE, {}, later(31_000))

    raised = ledger.raise_proof(settled.id, Proof.ACKNOWLEDGED, {"by": "mail read"}, later(40_000))
    assert raised == replace(settled, proof=Proof.ACKNOWLEDGED)
    assert ledger.raise_proof(settled.id, Proof.SUBMITTED, {"by": "hook"}, later(41_000)) == raised

    acked = [line for line in ledger.journal_of(settled.id) if line.step is Step.ACKED]
    assert [(line.at, line.detail) for line in acked] == [(later(40_000), {"by": "mail read", "proof": "3"})]
    with pytest.raises(NotFound):
        ledger.raise_proof("nothing of that id", Proof.ACKNOWLEDGED, {}, later(41_000))


def test_proof_that_came_before_the_end_is_kept(ledger: LedgerStore, new_id: NewId) -> None:
    """A hook may acknowledge before the screen shows the submit."""
    frozen = locked(ledger, new_id)
    ledger.raise_proof(frozen.id, Proof.ACKNOWLEDGED, {"by": "hook"}, later(30_500))

    settled = ledger.settle(frozen, Outcome.SUBMITTED, Proof.SUBMITTED, {}, later(31_000))

    assert (settled.outcome, settled.proof) == (Outcome.SUBMITTED, Proof.ACKNOWLEDGED)


def test_recent_deliveries_without_an_acknowledgement_are_found(ledger: LedgerStore, new_id: NewId) -> None:
    """Proof: what was submitted, or may have been, is watched for being read."""
    outcomes = [Outcome.SUBMITTED, Outcome.UNKNOWN, Outcome.FAILED, Outcome.READ, Outcome.ACKNOWLEDGED]
    for row, outcome in enumerate(outcomes, start=1):
        event = sample_event(row, f"@{outcome}")
        delivery = locked(ledger, new_id, event)
        if outcome is Outcome.READ:
            ledger.mark([event.id], EventStatus.READ, "read", later(31_000))
        proof = Proof.ACKNOWLEDGED if outcome is Outcome.ACKNOWLEDGED else Proof.SUBMITTED
        ledger.settle(delivery, outcome, proof, {}, later(31_000 + row))

    assert [one.outcome for one in ledger.unacknowledged(later(31_000))] == [Outcome.SUBMITTED, Outcome.UNKNOWN]
    assert [one.outcome for one in ledger.unacknowledged(later(31_002))] == [Outcome.UNKNOWN]


def test_a_failed_delivery_can_be_retried_once(ledger: LedgerStore, new_id: NewId) -> None:
    """Then FAILED, listed, `deliveries retry`."""
    failed = ledger.settle(locked(ledger, new_id), Outcome.FAILED, Proof.NONE, {}, later(31_000))

    again = ledger.retry(failed.id, new_id, later(50_000))

    assert (again.state, again.due_at) == (DeliveryState.PENDING, later(50_000))
    assert open_events(ledger, again) == [1]
    assert [event.log_id for event in ledger.events_of(failed.id)] == [1]
    assert [(line.step, line.detail) for line in ledger.journal_of(again.id)] == [
        (Step.OPENED, {"retry_of": failed.id})
    ]
    assert ledger.delivery(failed.id) == failed
    with pytest.raises(OperationFailed, match="nothing is left"):
        ledger.retry(failed.id, new_id, later(51_000))


def test_an_unknown_delivery_is_retried_only_by_somebody_who_looked(ledger: LedgerStore, new_id: NewId) -> None:
    """`deliveries retry`: unknown only with `--i-looked`; it may stand there already."""
    unknown = ledger.settle(locked(ledger, new_id), Outcome.UNKNOWN, Proof.NONE, {}, later(31_000))

    with pytest.raises(RefusedForSafety) as refusal:
        ledger.retry(unknown.id, new_id, later(50_000))
    assert refusal.value.where == "agents:1.0"
    assert "--i-looked" in refusal.value.hint
    assert ledger.unsettled() == []

    again = ledger.retry(unknown.id, new_id, later(50_000), looked=True)
    assert open_events(ledger, again) == [1]


def test_only_a_failed_delivery_can_be_retried(ledger: LedgerStore, new_id: NewId) -> None:
    """`deliveries retry`: FAILED."""
    delivered = ledger.settle(locked(ledger, new_id), Outcome.SUBMITTED, Proof.SUBMITTED, {}, later(31_000))

    with pytest.raises(IllegalTransition, match="only a failed delivery"):
        ledger.retry(delivered.id, new_id, later(50_000), looked=True)
    with pytest.raises(NotFound):
        ledger.retry("nothing of that id", new_id, later(50_000))


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN])
def test_a_retry_leaves_out_what_was_read_or_shown_meanwhile(
    ledger: LedgerStore, new_id: NewId, outcome: Outcome
) -> None:
    """Truth: nothing is announced that its reader knows."""
    events = [sample_event(row) for row in (1, 2, 3)]
    failed = ledger.settle(locked(ledger, new_id, *events), outcome, Proof.NONE, {}, later(31_000))
    ledger.announce(AGENT, [events[0].subject_key], "inbox", later(40_000))
    ledger.mark([events[1].id], EventStatus.READ, "read", later(40_000))

    again = ledger.retry(failed.id, new_id, later(50_000), looked=True)

    # a mark closes open events only, and those of an unknown delivery count as announced
    assert open_events(ledger, again) == ([3] if outcome is Outcome.FAILED else [2, 3])
    ledger.announce(AGENT, [event.subject_key for event in events], "inbox", later(51_000))
    ledger.settle(again, Outcome.READ, Proof.NONE, {}, later(51_000))
    with pytest.raises(OperationFailed, match="nothing is left"):
        ledger.retry(failed.id, new_id, later(52_000), looked=True)


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_a_retry_joins_the_delivery_that_is_open_already(
    ledger: LedgerStore, new_id: NewId, is_dispatched: bool
) -> None:
    """One unfrozen delivery per target, due at once by a person's wish."""
    failed = ledger.settle(locked(ledger, new_id), Outcome.FAILED, Proof.NONE, {}, later(31_000))
    waiting = open_delivery(ledger, sample_event(2, window=300), new_id=new_id)
    if is_dispatched:
        waiting = ledger.hold(ledger.dispatch(waiting, later(31_000)), busy(later(90_000)), later(31_000))

    again = ledger.retry(failed.id, new_id, later(40_000))

    assert again.id == waiting.id
    assert open_events(ledger, again) == [1, 2]
    assert ledger.due(later(40_000)) == [again]
    assert ledger.journal_of(again.id)[-1].detail == {"retry_of": failed.id}


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN])
def test_a_rider_of_a_failed_delivery_is_free_to_ride_again(
    ledger: LedgerStore, new_id: NewId, outcome: Outcome
) -> None:
    """`next_turn` never wakes by itself; it rides along in the next immediate digest."""
    rider = sample_event(2, policy=WakePolicy.NEXT_TURN)
    delivery = dispatched(ledger, new_id)
    advance(ledger, rider)
    frozen = lock_with_its_events(ledger, delivery, later(30_000), rider)

    failed = ledger.settle(frozen, outcome, Proof.NONE, {}, later(31_000))
    # what may stand there already is not told again unless somebody looked
    assert ledger.next_turn_events(AGENT) == ([rider] if outcome is Outcome.FAILED else [])

    again = ledger.retry(failed.id, new_id, later(40_000), looked=True)

    assert open_events(ledger, again) == [1]
    assert ledger.next_turn_events(AGENT) == [rider]
    assert [event.log_id for event in ledger.events_of(failed.id)] == [1, 2]


# -- once more after an unknown outcome ------------------------------------------------------------------------------


def unknown_of(ledger: LedgerStore, new_id: NewId, *events: WakeEvent) -> Delivery:
    return ledger.settle(locked(ledger, new_id, *events), Outcome.UNKNOWN, Proof.NONE, {}, later(31_000))


def test_the_messages_of_an_unknown_delivery_are_opened_again_once(ledger: LedgerStore, new_id: NewId) -> None:
    """Decision 11: in a new delivery, and never a third time, however that one ends."""
    unknown = unknown_of(ledger, new_id)

    again = ledger.open_again(unknown.id, new_id, later(700_000))

    assert again is not None
    assert again.id != unknown.id
    assert again.due_at == later(700_000)
    assert ledger.journal_of(again.id)[0].detail == {"again_of": unknown.id}
    assert [one.again_of for one in ledger.events_of(again.id)] == [unknown.id]
    assert ledger.delivery(unknown.id) == unknown
    assert ledger.open_again(unknown.id, new_id, later(700_000)) is None

    dispatched_again = ledger.dispatch(again, later(700_000))
    second = ledger.settle(
        lock_with_its_events(ledger, dispatched_again, later(700_000)), Outcome.UNKNOWN, Proof.NONE, {}, later(701_000)
    )
    assert ledger.open_again(second.id, new_id, later(1_400_000)) is None
    # a person may still have looked
    assert open_events(ledger, ledger.retry(second.id, new_id, later(1_400_000), looked=True)) == [1]


def test_what_a_person_has_retried_is_not_opened_by_itself_besides(ledger: LedgerStore, new_id: NewId) -> None:
    """Decision 11: its news is announced at most once more, whoever decides that."""
    unknown = unknown_of(ledger, new_id)
    again = ledger.dispatch(ledger.retry(unknown.id, new_id, later(40_000), looked=True), later(40_000))
    second = ledger.settle(
        lock_with_its_events(ledger, again, later(40_000)), Outcome.UNKNOWN, Proof.NONE, {}, later(41_000)
    )

    assert ledger.open_again(unknown.id, new_id, later(700_000)) is None
    assert ledger.open_again(second.id, new_id, later(700_000)) is None


@pytest.mark.parametrize("outcome", [Outcome.SUBMITTED, Outcome.FAILED])
def test_only_what_is_unknown_is_opened_again(ledger: LedgerStore, new_id: NewId, outcome: Outcome) -> None:
    """Decision 11: what arrived needs no second wake, and what failed a person."""
    settled = ledger.settle(locked(ledger, new_id), outcome, Proof.NONE, {}, later(31_000))

    assert ledger.open_again(settled.id, new_id, later(700_000)) is None


def test_what_was_seen_late_or_shown_is_not_opened_again(ledger: LedgerStore, new_id: NewId) -> None:
    """Decision 11: whoever has it needs no second wake."""
    events = [sample_event(1), sample_event(2)]
    unknown = unknown_of(ledger, new_id, *events)
    ledger.announce(AGENT, [events[0].subject_key], "inbox", later(40_000))
    seen = unknown_of(ledger, new_id, sample_event(3))
    ledger.raise_proof(seen.id, Proof.SUBMITTED, {"by": "the mark"}, later(40_000))

    again = ledger.open_again(unknown.id, new_id, later(700_000))

    assert again is not None
    assert open_events(ledger, again) == [2]
    assert ledger.open_again(seen.id, new_id, later(700_000)) is None


def test_what_cannot_be_read_goes_along_with_mail_and_never_alone(ledger: LedgerStore, new_id: NewId) -> None:
    """Decision 11: unread mail says that the digest was not taken in; a task's move alone says nothing."""
    move = replace(
        sample_event(1),
        kind=EventKind.TASK,
        detail=TaskDetail("T", "Submitted", "Working", "@sender", None, None),
        subject_key="T:1",
    )
    alone = unknown_of(ledger, new_id, move)
    assert ledger.open_again(alone.id, new_id, later(700_000)) is None

    other = replace(move, id="EVENT-other", log_id=LogId(2), subject_key="T:2")
    both = unknown_of(ledger, new_id, other, sample_event(3))
    again = ledger.open_again(both.id, new_id, later(700_000))
    assert again is not None
    assert open_events(ledger, again) == [2, 3]


def test_what_is_the_heartbeats_is_left_to_it(ledger: LedgerStore, new_id: NewId) -> None:
    """Decision 7: it counts unread mail again by itself."""
    counted = replace(sample_event(1), by_heartbeat=True)
    unknown = unknown_of(ledger, new_id, counted)

    assert ledger.open_again(unknown.id, new_id, later(700_000)) is None


# -- finding -------------------------------------------------------------------------------------------------------


def test_a_delivery_is_found_by_an_unambiguous_beginning(ledger: LedgerStore) -> None:
    """`deliveries show ID`: nobody types 26 characters."""
    names = iter(["01AB", "01AC", "02"])
    for row, identity in enumerate(["@a", "@b", "@c"], start=1):
        open_delivery(ledger, sample_event(row, identity), new_id=lambda: next(names))

    found = ledger.delivery("02")
    assert found is not None
    assert found.identity == "@c"
    assert ledger.delivery("01AB") is not None
    assert ledger.delivery("01A%") is None
    assert ledger.delivery("") is None
    with pytest.raises(NotFound, match="several"):
        ledger.delivery("01A")


def test_deliveries_are_listed_newest_first_by_state_and_identity(ledger: LedgerStore, new_id: NewId) -> None:
    """`deliveries`: newest first, filtered, limited."""
    for row, identity in enumerate(["@a", "@b", "@a"], start=1):
        ledger.settle(
            locked(ledger, new_id, sample_event(row, identity)), Outcome.FAILED, Proof.NONE, {}, later(31_000)
        )
    waiting = open_delivery(ledger, sample_event(9, "@b"), new_id=new_id)

    everyone = ledger.deliveries(state=None, identity=None, limit=50)
    assert [one.identity for one in everyone] == ["@b", "@a", "@b", "@a"]
    assert [one.id for one in ledger.deliveries(state=None, identity=None, limit=2)] == [one.id for one in everyone[:2]]
    assert ledger.deliveries(state=DeliveryState.PENDING, identity=None, limit=9) == [waiting]
    failed = ledger.deliveries(state=DeliveryState.FAILED, identity=waiting.identity, limit=9)
    assert [one.id for one in failed] == [everyone[2].id]


def test_a_pause_says_which_wake_was_already_on_its_way(tmp_path: Path, program: tuple[str, ...]) -> None:
    """What is being typed at that moment may still arrive; what waits staged is kept, and is no surprise."""
    with Sandbox(tmp_path, "no-such-server", program) as sandbox:
        sandbox.run("init")
        for name in ("@typed", "@waiting"):
            sandbox.run("agent", "add", name)
        with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
            ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", START)
            typed, waiting = (
                lock_with_its_events(
                    ledger, ledger.dispatch(open_delivery(ledger, event, new_id=new_ulid), START), START
                )
                for event in (sample_event(1, "@typed"), sample_event(2, "@waiting"))
            )
            ledger.renew(waiting, Instant(START), Hold(HoldReason.STAGED, "", "a:1.0", Instant(START)), START)

        said = sandbox.run("pause", "--all").stderr
        assert typed.id in said
        assert "may still arrive" in said
        assert waiting.id not in said
        assert sandbox.run("pause", "@waiting").stderr == ""
