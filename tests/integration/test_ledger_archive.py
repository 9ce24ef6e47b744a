"""What the ledger remembers for people's questions: `why`, `status`."""

from __future__ import annotations

from dataclasses import replace

from wake_bridge.domain.delivery import Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.events import TaskDetail
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId
from wake_bridge.domain.presence import PresenceState, Sighted
from wake_bridge.engine.explain.overview import overview
from wake_bridge.ports.ledger_records import PageRecord, Position, Quarantined
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import (
    AGENT,
    START,
    advance,
    busy,
    counted_ids,
    lock_with_its_events,
    open_delivery,
    sample_event,
)

IDLE = Identity("@idle")


def test_a_task_is_found_with_its_moves_and_not_with_those_of_its_namesakes(ledger: LedgerStore) -> None:
    """`why TASK` answers for every move; `MESSAGE:1` is not the beginning of `MESSAGE:10`."""
    moves = [
        replace(
            sample_event(row, subject_key=key),
            kind=EventKind.TASK,
            detail=TaskDetail(key.rsplit(":", 2)[0], "Submitted", "Working", "@a", "@b", None),
        )
        for row, key in enumerate(("MESSAGE:1:Working:x", "MESSAGE:10:Working:x", "MESSAGE:1a:Working:x"), start=1)
    ]
    mail = sample_event(4, subject_key="MESSAGE:1")
    advance(ledger, *moves, mail)

    assert ledger.find_events(subject_key="MESSAGE:1") == [moves[0], mail]


def test_what_was_set_aside_is_found_by_row_and_by_entity(ledger: LedgerStore) -> None:
    """A quarantined row is counted, logged, and can be asked about."""
    broken = Quarantined(LogId(5), "MESSAGE:broken", "its JSON is broken")
    ledger.advance(PageRecord(Position(Epoch(1), LogId(5)), quarantined=[broken]), START)

    assert ledger.quarantined(LogId(5), []) == ledger.quarantined(None, ["MESSAGE:broken"]) == [broken]
    assert ledger.quarantined(LogId(6), ["MESSAGE:other"]) == []
    start = ledger.epoch_start()
    assert start is not None
    assert (start.at, start.reason) == (START, "first start")


def test_outcomes_and_last_wakes_are_counted_from_an_instant_on(ledger: LedgerStore) -> None:
    """`since you left`: what was settled since then, by outcome; and when each was last woken."""
    new_id = counted_ids()
    for row, outcome, later in ((1, Outcome.SUBMITTED, 10), (2, Outcome.UNKNOWN, 20), (3, Outcome.SUBMITTED, 30)):
        now = START + later
        opened = ledger.dispatch(open_delivery(ledger, sample_event(row), new_id=new_id, now=now), Instant(now))
        locked = lock_with_its_events(ledger, opened, now)
        ledger.append(locked, Step.INTENT_SUBMIT, {}, Instant(now))
        ledger.settle(locked, outcome, Proof.NONE, {}, Instant(now))

    assert ledger.outcomes_since(START) == {Outcome.SUBMITTED: 2, Outcome.UNKNOWN: 1}
    assert ledger.outcomes_since(Instant(START + 20)) == {Outcome.SUBMITTED: 1, Outcome.UNKNOWN: 1}
    assert (ledger.last_wake(AGENT), ledger.last_wake(IDLE)) == (START + 30, None)
    (event,) = ledger.find_events(log_id=LogId(3))
    assert [one.outcome for one in ledger.deliveries_with(event.id)] == [Outcome.SUBMITTED]


def test_the_last_wake_is_the_latest_submit_of_what_was_not_given_back(ledger: LedgerStore) -> None:
    """Of a delivery that was given back nothing was sent; and a clock that was set back makes no wake older."""
    opened = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=counted_ids()), START)
    locked = lock_with_its_events(ledger, opened, START)
    ledger.append(locked, Step.INTENT_SUBMIT, {}, Instant(START + 20))
    assert ledger.last_wake(AGENT) == START + 20

    back = ledger.release(locked, busy(START), START, is_attempt=True, idempotent=True)
    assert ledger.last_wake(AGENT) is None

    again = lock_with_its_events(ledger, back, START)
    ledger.append(again, Step.INTENT_SUBMIT, {}, Instant(START + 10))
    assert ledger.last_wake(AGENT) == START + 20


def test_the_overview_has_a_row_for_everybody_known_and_everybody_waited_for(ledger: LedgerStore) -> None:
    """`status --watch`: presence, since, held for, next look, last wake and the budget of its pane."""
    new_id = counted_ids()
    first = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), START)
    locked = lock_with_its_events(ledger, first, START)
    ledger.append(locked, Step.INTENT_SUBMIT, {}, START)
    ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
    now = START + 60_000
    second = ledger.dispatch(open_delivery(ledger, sample_event(2), new_id=new_id, now=now), Instant(now))
    hold = Hold(HoldReason.WAITING_ON_APPROVAL, "", "agents:1.0", Instant(now + 5_000))
    ledger.hold(second, hold, Instant(now))
    seen = Sighted(PresenceState.IDLE, PresenceState.IDLE, START, "agents:2.0")

    rows = overview(ledger, [IDLE], {IDLE: seen}.get, Limits(), Instant(now + 1_000))

    assert [one.identity for one in rows] == [AGENT, IDLE]
    waiting, idle = rows
    assert (waiting.hold, waiting.held_since, waiting.next_look) == (hold, now, now + 5_000)
    assert (waiting.sighted, waiting.waiting, waiting.last_wake) == (None, 1, START)
    assert (waiting.budget.this_hour, waiting.budget.today, waiting.budget.of_hour) == (1, 1, 20)
    assert (idle.sighted, idle.waiting, idle.hold, idle.next_look, idle.last_wake) == (seen, 0, None, None, None)
    assert idle.budget.today == 0
    ledger.resume(AGENT, Instant(now + 500))
    assert overview(ledger, [], lambda _: None, Limits(), Instant(now + 1_000))[0].budget.today == 0
