"""Events gather into one delivery per identity, and the ledger knows when somebody must look."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

import pytest

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import DeliveryState, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.events import EventStatus, ItemMode
from wake_bridge.domain.items import ItemDraft, SourceRules, event_of
from wake_bridge.domain.names import EPOCH_START, Epoch, Identity, WakePolicy
from wake_bridge.ports.ledger_records import NewId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import (
    AGENT,
    START,
    advance,
    busy,
    counted_ids,
    later,
    lock_with_its_events,
    open_delivery,
    sample_event,
)


def test_the_first_event_opens_a_delivery_that_is_due_when_its_window_closes(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """Windows are fixed from the first event."""
    delivery = open_delivery(ledger, sample_event(1, window=30), new_id=new_id)

    assert (delivery.state, delivery.created_at, delivery.due_at) == (DeliveryState.PENDING, START, later(30_000))
    assert [line.step for line in ledger.journal_of(delivery.id)] == [Step.OPENED]
    assert ledger.gather(START, new_id) == []


def test_an_event_that_joins_brings_the_window_forward_but_never_postpones_it(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """Due is the earliest (matched time + window) of the members."""
    first = open_delivery(ledger, sample_event(1, window=30), new_id=new_id)

    late = open_delivery(ledger, sample_event(2, window=30, matched_at=later(10_000)), new_id=new_id)
    assert (late.id, late.due_at) == (first.id, later(30_000))

    urgent = open_delivery(ledger, sample_event(3, window=0, matched_at=later(12_000)), new_id=new_id)
    assert (urgent.id, urgent.due_at) == (first.id, later(12_000))
    assert [event.log_id for event in ledger.events_of(first.id)] == [1, 2, 3]
    assert [line.step for line in ledger.journal_of(first.id)] == [Step.OPENED, Step.JOINED, Step.JOINED]


def test_each_identity_gathers_for_itself(ledger: LedgerStore, new_id: NewId) -> None:
    """One unfrozen delivery per target."""
    advance(ledger, sample_event(1, "@a"), sample_event(2, "@b"), sample_event(3, "@a"))

    deliveries = ledger.gather(START, new_id)

    gathered = {one.identity: [event.log_id for event in ledger.events_of(one.id)] for one in deliveries}
    assert gathered == {"@a": [1, 3], "@b": [2]}


def test_who_gathers_for_many_asks_once_for_all(ledger: LedgerStore, new_id: NewId) -> None:
    """Nothing is asked for one identity alone, not even to write a line in the journal of each: each host gathers what all are told."""
    everybody = [f"@a{number}" for number in range(50)]
    advance(ledger, *(sample_event(number, who, window=30) for number, who in enumerate(everybody, 1)))
    opened = ledger.gather(START, new_id)
    advance(ledger, *(sample_event(number, who, window=30) for number, who in enumerate(everybody, 51)))

    run: list[str] = []
    ledger._db.connection.set_trace_callback(run.append)
    joined = ledger.gather(later(1), new_id)
    ledger._db.connection.set_trace_callback(None)

    # each trigger shows its statement once more
    asked = {one.lstrip() for one in run}
    assert {one.id for one in joined} == {one.id for one in opened}
    assert all(ledger.journal_of(one.id)[-1].step is Step.JOINED for one in joined)
    assert len([one for one in asked if one.startswith("INSERT INTO journal")]) == 1
    assert len(asked) < 20


def steps_of(ledger: LedgerStore, question: Callable[[], object]) -> int:
    """How many hundreds of steps SQLite takes for it."""
    steps: list[None] = []
    ledger._db.connection.set_progress_handler(lambda: steps.append(None), 100)
    question()
    ledger._db.connection.set_progress_handler(None, 0)
    return len(steps)


def test_what_another_host_drives_is_not_gone_through_once_for_each_that_waits(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """Thousands may wait on every host; to hold one of them, or to ask what is untold, must not take the square of that."""
    holding, asking = list[int](), list[int]()
    for first, last in ((0, 100), (100, 400)):
        everybody = [Identity(f"@a{number}") for number in range(first, last)]
        advance(ledger, *(sample_event(at, who) for at, who in enumerate(everybody, first + 1)))
        holds = {one.id: busy(later(95_000)) for one in ledger.gather(START, new_id)}
        one = {min(holds): busy(later(95_000))}
        holding.append(steps_of(ledger, lambda one=one: ledger.hold_fresh(one, START)))  # type: ignore[misc]
        ledger.hold_fresh(holds, START)
        waiting = ledger.waiting()
        assert len(ledger.untold(waiting)) == last
        asking.append(steps_of(ledger, lambda waiting=waiting: ledger.untold(waiting)))  # type: ignore[misc]
    assert holding[1] <= holding[0] + 5
    assert asking[1] < 8 * asking[0]


def test_whether_something_was_shown_is_found_however_much_was(ledger: LedgerStore) -> None:
    """Each wake asks that; an inbox may have shown thousands."""
    steps = []
    for shown in (10, 1000):
        ledger.announce(AGENT, [f"MESSAGE:{number}" for number in range(shown)], "inbox", START)
        steps.append(steps_of(ledger, lambda: ledger.announced(AGENT, ["MESSAGE:1", "MESSAGE:other"])))
    assert ledger.announced(AGENT, ["MESSAGE:1", "MESSAGE:other"]) == {"MESSAGE:1"}
    assert steps[1] <= steps[0] + 1


def test_to_have_looked_at_what_is_due_by_itself_writes_nothing(ledger: LedgerStore, new_id: NewId) -> None:
    """Each host learns of each identity who drives it; where nothing is held that costs no transaction."""
    delivery = open_delivery(ledger, sample_event(1, window=30), new_id=new_id)
    run: list[str] = []
    ledger._db.connection.set_trace_callback(run.append)
    ledger.look_at_once(AGENT, START)
    assert [one.split()[0] for one in run] == ["SELECT"]

    ledger.hold(ledger.dispatch(delivery, later(30_000)), busy(later(95_000)), later(30_000))
    ledger.look_at_once(AGENT, later(31_000))
    assert ledger.next_deadline() == later(31_000)


def test_only_open_immediate_events_gather(ledger: LedgerStore, new_id: NewId) -> None:
    """`next_turn` lives outside deliveries until it rides along; closed events need none."""
    rider, closed = sample_event(1, policy=WakePolicy.NEXT_TURN), sample_event(2)
    advance(ledger, rider, closed)
    ledger.mark([closed.id], EventStatus.READ, "read", START)

    assert ledger.gather(START, new_id) == []
    assert ledger.next_turn_events(AGENT) == [rider]
    assert ledger.next_turn_events(Identity("@other")) == []
    assert ledger.next_deadline() is None


def test_an_event_joins_a_held_delivery_and_its_next_look_stays(ledger: LedgerStore, new_id: NewId) -> None:
    """Events that arrive while a delivery is held join it."""
    delivery = open_delivery(ledger, sample_event(1), new_id=new_id)
    held = ledger.hold(ledger.dispatch(delivery, later(30_000)), busy(later(35_000)), later(30_000))

    joined = open_delivery(ledger, sample_event(2, window=0, matched_at=later(31_000)), new_id=new_id)

    assert joined == held
    assert [event.log_id for event in ledger.events_of(held.id)] == [1, 2]
    assert ledger.next_deadline() == later(35_000)


def test_a_frozen_delivery_takes_no_more_so_a_second_one_opens(ledger: LedgerStore, new_id: NewId) -> None:
    """One *unfrozen* delivery per target; the digest of a locked one stands."""
    delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), later(30_000))
    locked = lock_with_its_events(ledger, delivery, later(30_000))

    second = open_delivery(ledger, sample_event(2), new_id=new_id)

    assert second.id != locked.id
    assert [event.log_id for event in ledger.events_of(locked.id)] == [1]
    assert ledger.delivery(locked.id) == locked


def test_a_pending_delivery_is_due_when_its_window_closes(ledger: LedgerStore, new_id: NewId) -> None:
    """What is due is a pure function of ledger and now."""
    delivery = open_delivery(ledger, sample_event(1), new_id=new_id)

    assert ledger.next_deadline() == later(30_000)
    assert ledger.due(later(29_999)) == []
    assert ledger.due(later(30_000)) == [delivery]


def test_a_dispatched_delivery_is_due_at_once_and_a_held_one_at_its_next_look(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """A hold has a next look; one that was merely dispatched when the daemon died has none to wait for."""
    dispatched = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), later(30_000))
    assert ledger.due(later(30_000)) == [dispatched]

    held = ledger.hold(dispatched, busy(later(35_000)), later(30_000))
    assert ledger.due(later(34_999)) == []
    assert ledger.due(later(35_000)) == [held]


def test_a_locked_delivery_is_due_when_its_lease_ends_or_its_staged_text_is_to_be_looked_at(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """A dead owner's lease runs out; staged text stays LOCKED and is looked at again."""
    delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), later(30_000))
    locked = lock_with_its_events(ledger, delivery, later(30_000))
    assert ledger.next_deadline() == later(90_000)

    staged = Hold(HoldReason.STAGED, "userTyping", "agents:1.0", later(34_000))
    waiting = ledger.renew(locked, later(95_000), staged, later(30_500))
    assert ledger.due(later(33_999)) == []
    assert ledger.due(later(34_000)) == [waiting]

    ledger.renew(waiting, later(96_000), None, later(34_000))
    assert ledger.next_deadline() == later(96_000)


def test_due_deliveries_come_oldest_first(ledger: LedgerStore, new_id: NewId) -> None:
    """The one that waits longest is served first."""
    for row, (identity, window) in enumerate([("@a", 60), ("@b", 0), ("@c", 30)], start=1):
        open_delivery(ledger, sample_event(row, identity, window=window), new_id=new_id, now=later(row))

    assert [one.identity for one in ledger.due(later(60_000))] == ["@a", "@b", "@c"]


def test_what_is_due_of_who_is_busy_is_not_read_unless_its_text_may_stand_somewhere(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """Thousands may be due, and those that are under way are known."""
    other = Identity("@other")
    mine, theirs = (
        open_delivery(ledger, sample_event(row, who), new_id=new_id) for row, who in ((1, AGENT), (2, other))
    )
    assert [one.id for one in ledger.due(later(30_000), [AGENT])] == [theirs.id]
    lock_with_its_events(ledger, ledger.dispatch(mine, later(30_000)), later(30_000))
    assert [one.id for one in ledger.due(later(999_000), [AGENT, other])] == [mine.id]


def test_a_look_can_be_brought_forward_but_not_put_off(ledger: LedgerStore, new_id: NewId) -> None:
    """When a pane changes, or a person asks, what waits for it is looked at at once."""
    for row, identity in enumerate(["@a", "@b", "@c"], start=1):
        delivery = open_delivery(ledger, sample_event(row, identity, window=0), new_id=new_id)
        ledger.hold(ledger.dispatch(delivery, START), busy(later(20_000)), START)
    pending = open_delivery(ledger, sample_event(9, "@d", window=300), new_id=new_id)

    ledger.look_at_once(Identity("@b"), later(5_000))
    assert [one.identity for one in ledger.due(later(5_000))] == ["@b"]
    ledger.look_at_once(Identity("@b"), later(6_000))
    assert ledger.next_deadline() == later(5_000)

    ledger.look_at_once(None, later(7_000))
    assert [one.identity for one in ledger.due(later(7_000))] == ["@a", "@b", "@c"]
    assert ledger.delivery(pending.id) == pending


def test_a_look_at_staged_text_can_be_brought_forward(ledger: LedgerStore, new_id: NewId) -> None:
    """Staged text waits for its composer; the lease is no look."""
    delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), START)
    locked = lock_with_its_events(ledger, delivery, START)
    ledger.look_at_once(AGENT, later(1_000))
    assert ledger.next_deadline() == later(60_000)

    ledger.renew(locked, later(60_000), Hold(HoldReason.STAGED, "", "", later(50_000)), START)
    ledger.look_at_once(AGENT, later(1_000))

    assert ledger.next_deadline() == later(1_000)


def cost_of(ledger: LedgerStore, work: Callable[[], object]) -> int:
    """How many tens of instructions SQLite needs for it: a count, not a time."""
    ticks = 0

    def tick() -> int:
        nonlocal ticks
        ticks += 1
        return 0

    ledger._db.connection.set_progress_handler(tick, 10)
    work()
    ledger._db.connection.set_progress_handler(None, 0)
    return ticks


def end_some(ledger: LedgerStore, new_id: NewId, rows: range) -> None:
    """Bring a hundred events at a time to their end, in ten deliveries."""
    for first in rows[::100]:
        advance(ledger, *(sample_event(row, f"@agent{row % 10}") for row in range(first, first + 100)))
        for delivery in ledger.gather(START, new_id):
            ledger.settle(delivery, Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED, {}, START)


def test_what_has_ended_costs_nothing_any_more(ledger: LedgerStore, new_id: NewId) -> None:
    """Thousands of closed events and deliveries must not slow down what goes on."""
    rows = count(100_000)

    def look_around() -> None:
        ledger.gather(later(100_000), new_id)
        ledger.due(EPOCH_START)
        ledger.next_deadline()
        ledger.look_at_once(None, later(100_000))
        ledger.next_turn_events(AGENT)
        ledger.unsettled()
        ledger.past_wakes(later(100_000))
        ledger.unacknowledged(later(100_000))
        ledger.wakes_held(AGENT, [HoldReason.ACTIVE], START)

    def live_through() -> None:
        delivery = ledger.dispatch(open_delivery(ledger, sample_event(next(rows), "@new"), new_id=new_id), START)
        frozen = lock_with_its_events(ledger, delivery, START)
        ledger.append(frozen, Step.PROBED, {}, START)
        thawed = ledger.release(frozen, busy(START), START, is_attempt=True)
        ledger.settle(lock_with_its_events(ledger, thawed, START), Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
        ledger.journal_of(delivery.id)

    open_delivery(ledger, sample_event(1, "@waiting"), new_id=new_id)
    when_new = cost_of(ledger, look_around), cost_of(ledger, live_through)
    end_some(ledger, new_id, range(100, 2100))

    assert ledger.tally().delivered == 201
    assert cost_of(ledger, look_around) <= when_new[0] + 10
    assert cost_of(ledger, live_through) <= when_new[1] * 1.2


def given_back(ledger: LedgerStore) -> None:
    """A wake on its way, released again."""
    opened = open_delivery(ledger, sample_event(1), new_id=counted_ids())
    frozen = lock_with_its_events(ledger, ledger.dispatch(opened, START), START)
    ledger.release(frozen, busy(START), START, is_attempt=True)


def changed(ledger: LedgerStore) -> None:
    """An item that says something else by now: messages about the first are taken back."""
    for number, text in enumerate(("one", "two")):
        draft = ItemDraft(recipient=AGENT, source="build", text=text, key="k", mode=ItemMode.ACTIVE)
        ledger.take_item(event_of(draft, SourceRules(), f"ITEM{number}", Epoch(1), START), START)


RECURS: Final[dict[str, Callable[[LedgerStore], object]]] = {
    "a wake is given back": given_back,
    "an item is changed": changed,
    "what a person was sent about a wake": lambda ledger: ledger.sends_about("DELIVERY1"),
    "what is to be sent": lambda ledger: ledger.sends_to_do(START),
    "the last episode of an agent": lambda ledger: ledger.episodes_of(AGENT, 1),
    "the last wake of an agent": lambda ledger: ledger.last_wake(AGENT),
    "the tally": lambda ledger: ledger.tally(),
    "holds of a version": lambda ledger: ledger.wakes_held(AGENT, [HoldReason.ACTIVE, HoldReason.STAGED], START),
    "the last nudge": lambda ledger: ledger.beat(AGENT),
    "what is left to the heartbeat": lambda ledger: ledger.left_to_heartbeat(AGENT),
    "what the heartbeat told": lambda ledger: ledger.told_by_heartbeat(AGENT),
    "what failed": lambda ledger: ledger.failed_untold(START),
    "what may have failed": lambda ledger: ledger.unknown_since(START),
    "what nobody has confirmed": lambda ledger: ledger.unacknowledged(START),
    "what a person has to confirm": lambda ledger: ledger.unacknowledged_by_person(),
    "what passed to a person": lambda ledger: ledger.passed_on(AGENT, START, is_untold=True),
    "wakes of a day": lambda ledger: ledger.past_wakes(START),
    "what a person may have to be told of": lambda ledger: ledger.held(but=[Cause.OTHER_HOST]),
}
_TABLES: Final = "(?:delivery|delivery_event|wake_event|journal|activity|send|episode)"
GONE_THROUGH: Final = re.compile(rf"SCAN {_TABLES}\b|SEARCH {_TABLES}$")
COSTS_LITTLE: Final = (
    # they hold what is open, or has passed to a person
    "SCAN send USING INDEX send_open",
    "SCAN delivery USING INDEX delivery_passed_on",
    # all are counted, but no row is looked at
    "SCAN delivery USING COVERING INDEX delivery_by_state",
    # its last line
    "SEARCH journal",
)


@pytest.mark.parametrize("what", RECURS)
def test_what_recurs_is_answered_by_an_index(ledger: LedgerStore, what: str) -> None:
    """What is asked each second, or with each wake, costs the same however much is kept."""
    asked: list[str] = []
    ledger._db.connection.set_trace_callback(asked.append)
    RECURS[what](ledger)
    ledger._db.connection.set_trace_callback(None)

    queries = [one for one in asked if one.lstrip().startswith(("SELECT", "UPDATE", "DELETE"))]
    plans = {one: [row["detail"] for row in ledger._db.rows(f"EXPLAIN QUERY PLAN {one}")] for one in queries}

    assert plans
    gone_through = [(one, step) for one, plan in plans.items() for step in plan if GONE_THROUGH.match(step)]
    assert [(one, step) for one, step in gone_through if step not in COSTS_LITTLE] == []


def test_what_nobody_is_told_of_is_not_among_what_is_held(ledger: LedgerStore, new_id: NewId) -> None:
    """Thousands may wait for another host; what has to be answered passes to a person by itself."""
    advance(ledger, *(sample_event(at, who) for at, who in enumerate(("@a", "@b", "@c"), 1)))
    advance(ledger, replace(sample_event(4, "@d"), ack_within=1000))
    other = Hold(HoldReason.OTHER_HOST, "devbox", "", later(1), Cause.OTHER_HOST)
    holds = {"@a": other, "@b": busy(later(1)), "@d": busy(later(1))}
    for one in ledger.gather(START, new_id):
        if one.identity in holds:
            ledger.hold(ledger.dispatch(one, START), holds[one.identity], START)

    assert {one.identity for one in ledger.held(but=())} == {"@a", "@b"}
    assert [one.identity for one in ledger.held(but={Cause.OTHER_HOST})] == ["@b"]


def test_what_was_told_within_a_day_is_read_once(ledger: LedgerStore, new_id: NewId) -> None:
    """A guard asks for a day of wakes before each; a flood told thousands of events."""
    for first in range(0, 2000, 100):
        opened = open_delivery(ledger, *(sample_event(first + at, thread=f"T{at}") for at in range(100)), new_id=new_id)
        frozen = lock_with_its_events(ledger, ledger.dispatch(opened, START), START)
        ledger.append(frozen, Step.INTENT_SUBMIT, {}, later(first))
        ledger.settle(frozen, Outcome.SUBMITTED, Proof.SUBMITTED, {}, later(first))

    first_time = cost_of(ledger, lambda: ledger.past_wakes(START))
    again = cost_of(ledger, lambda: ledger.past_wakes(later(1)))

    assert len(ledger.past_wakes(START)) == 20
    assert again * 100 < first_time


def test_pruning_costs_as_much_as_there_is_to_prune(ledger: LedgerStore, new_id: NewId) -> None:
    """A year's ledger is pruned like a week's, only longer."""
    end_some(ledger, new_id, range(100, 400))
    once = cost_of(ledger, lambda: ledger.prune(later(1), 10_000))
    end_some(ledger, new_id, range(1000, 1900))

    assert cost_of(ledger, lambda: ledger.prune(later(1), 10_000)) <= once * 3.6
    assert ledger.tally().delivered == 0


def test_each_subscription_counts_the_events_that_joined_a_wake(ledger: LedgerStore, new_id: NewId) -> None:
    """What a window has gathered, by subscription; the event that began the wake is none of it."""
    both = replace(sample_event(3), other_subscriptions=("WAKE_SUB:2",))
    assert dict(ledger.window_hits()) == {}

    open_delivery(ledger, sample_event(1), sample_event(2), both, new_id=new_id)
    open_delivery(ledger, sample_event(4, identity="@other"), new_id=new_id)

    assert dict(ledger.window_hits()) == {"WAKE_SUB:1": 2, "WAKE_SUB:2": 1}
