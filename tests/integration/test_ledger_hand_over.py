"""Waiting events under the lease of a hook: one transaction, exactly what is shown, and nothing lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.errors import StaleLease
from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.names import WakePolicy
from wake_bridge.domain.sessions import HOOK, Session
from wake_bridge.ports.ledger_records import Lock, NewId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import (
    AGENT,
    advance,
    later,
    open_delivery,
    sample_event,
)


def handed(
    ledger: LedgerStore,
    waiting: Delivery | None,
    events: Sequence[WakeEvent],
    new_id: NewId,
    *,
    pane_key: str = "",
    now: int = 40_000,
) -> Delivery:
    return ledger.hand_over(
        AGENT,
        waiting,
        waiting.id if waiting else new_id(),
        Lock(
            digest="a block",
            events=[one.id for one in events],
            adapter=HOOK,
            where="codex (tool)",
            pane_key=pane_key,
            until=later(now + 3000),
        ),
        later(now),
    )


def riders(ledger: LedgerStore, *numbers: int) -> list[WakeEvent]:
    events = [sample_event(number, policy=WakePolicy.NEXT_TURN) for number in numbers]
    return advance(ledger, *events)


def test_a_held_delivery_is_locked_with_exactly_what_is_shown(ledger: LedgerStore, new_id: NewId) -> None:
    """What is not shown stays pending and is gathered anew; what waits for the next turn rides along."""
    delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), sample_event(2), new_id=new_id), later(30_000))
    first, second = ledger.events_of(delivery.id)
    (rider,) = riders(ledger, 3)
    locked = handed(ledger, delivery, [first, rider], new_id)
    assert (locked.state, locked.adapter, locked.digest) == (DeliveryState.LOCKED, HOOK, "a block")
    assert {one.id for one in ledger.events_of(locked.id)} == {first.id, rider.id}
    (rest,) = ledger.gather(later(40_001), new_id)
    assert [one.id for one in ledger.events_of(rest.id)] == [second.id]
    assert rest.due_at <= later(40_001)


def test_a_delivery_is_made_for_what_waits_for_the_next_turn_alone(ledger: LedgerStore, new_id: NewId) -> None:
    """It goes the legal way, in one transaction, and is settled as any other."""
    waiting = riders(ledger, 1, 2)
    locked = handed(ledger, None, waiting, new_id)
    assert [line.step for line in ledger.journal_of(locked.id)] == [Step.OPENED, Step.DISPATCHED, Step.LOCKED]
    assert ledger.next_turn_events(AGENT) == []
    ledger.append(locked, Step.INTENT_SUBMIT, {}, later(40_001))
    ledger.settle(locked, Outcome.SUBMITTED, Proof.ACCEPTED, {}, later(40_002))
    assert {one.status for one in ledger.events_of(locked.id)} == {EventStatus.ANNOUNCED}


def test_an_open_window_stays_open_while_the_next_turns_events_are_handed_over(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """Its delivery carries them; its own events go on in another one, due when they were."""
    pending = open_delivery(ledger, sample_event(1), new_id=new_id)
    locked = handed(ledger, pending, riders(ledger, 2), new_id, now=1000)
    assert locked.id == pending.id
    (rest,) = ledger.gather(later(1001), new_id)
    assert (rest.state, rest.due_at) == (DeliveryState.PENDING, pending.due_at)


def test_a_hook_that_never_took_it_gives_everything_back(ledger: LedgerStore, new_id: NewId) -> None:
    """The release frees what rode along, and takes in what was gathered meanwhile."""
    delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), later(30_000))
    own = ledger.events_of(delivery.id)
    locked = handed(ledger, delivery, [*own, *riders(ledger, 2)], new_id)
    again = Hold(HoldReason.UNKNOWN, "taken up again", "", later(44_000))
    released = ledger.release(locked, again, later(44_000), is_attempt=False)
    assert [one.id for one in ledger.events_of(released.id)] == [own[0].id]
    assert len(ledger.next_turn_events(AGENT)) == 1


def test_whoever_comes_second_gets_nothing(ledger: LedgerStore, tmp_path: Path, new_id: NewId) -> None:
    """Compare-and-swap: two connections, the same delivery, and the same loose events."""
    delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), later(30_000))
    own = ledger.events_of(delivery.id)
    with closing(LedgerStore.open(tmp_path)) as other:
        handed(ledger, delivery, own, new_id)
        with pytest.raises(StaleLease):
            handed(other, delivery, own, new_id)
        loose = riders(ledger, 2)
        handed(other, None, loose, new_id)
        with pytest.raises(StaleLease):
            handed(ledger, None, loose, new_id)
    assert len([one for one in ledger.unsettled() if one.state is DeliveryState.LOCKED]) == 2


def test_no_second_unfrozen_delivery_is_made_for_the_occasion(ledger: LedgerStore, new_id: NewId) -> None:
    """One unfrozen delivery per identity: who did not know of it looks again."""
    loose = riders(ledger, 1)
    open_delivery(ledger, sample_event(2), new_id=new_id)
    with pytest.raises(StaleLease):
        handed(ledger, None, loose, new_id)
    assert len(ledger.unsettled()) == 1
    assert len(ledger.next_turn_events(AGENT)) == 1


def test_what_costs_no_turn_counts_against_no_limit(ledger: LedgerStore, new_id: NewId) -> None:
    """Within a running turn it is no wake of a pane and no step of a loop; that a person spoke counts all the same."""
    said = [
        sample_event(1, thread="T", policy=WakePolicy.NEXT_TURN),
        sample_event(2, thread="T", from_human=True, policy=WakePolicy.NEXT_TURN),
    ]
    for event, pane_key in zip(advance(ledger, *said), ("", ""), strict=True):
        locked = handed(ledger, None, [event], new_id, pane_key=pane_key)
        ledger.append(locked, Step.INTENT_SUBMIT, {}, later(40_001))
        ledger.settle(locked, Outcome.SUBMITTED, Proof.ACCEPTED, {}, later(40_002))
    (prolonged,) = advance(ledger, sample_event(3, thread="T", policy=WakePolicy.NEXT_TURN))
    locked = handed(ledger, None, [prolonged], new_id, pane_key="pane")
    ledger.append(locked, Step.INTENT_SUBMIT, {}, later(40_003))
    wakes = ledger.past_wakes(later(0))
    assert [(one.pane_key, one.threads, one.human_threads) for one in wakes] == [
        ("", (), ()),
        ("", (), ("T",)),
        ("pane", ("T",), ()),
    ]


def test_a_conversation_that_was_silent_for_long_is_forgotten(ledger: LedgerStore) -> None:
    """Some never say that they end."""
    for number, seen in enumerate((0, 50_000)):
        ledger.meet_session(Session("codex", f"s{number}", AGENT, seen_at=later(seen)))
    ledger.prune(later(1000), 10_000)
    assert [one.session_id for one in ledger.all_sessions()] == ["s1"]
