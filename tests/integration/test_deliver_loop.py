"""The deliver loop itself: that it ends when it is told to, and takes over what a dead daemon has left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, Hold, HoldReason, Outcome, Proof
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.receivers import PUSH
from wake_bridge.engine.deliver.delivery_loop import Deliverer
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import (
    advance,
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)

NO_GATE = cast("Any", None)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerStore]:
    """A real ledger."""
    with fresh_ledger(tmp_path) as store:
        yield store


def _deliverer(ledger: LedgerStore) -> Deliverer:
    return Deliverer(ledger, NO_GATE, Current(EngineSettings()), SteadyClock(), counted_ids())


@pytest.mark.parametrize("turns", range(5))
def test_a_stop_that_comes_together_with_a_change_is_not_lost(ledger: LedgerStore, turns: int) -> None:
    """`run`: a clean stop within 5 s; `asyncio.wait_for` of 3.11 loses a cancellation that comes with a result."""
    now = SteadyClock().now()
    open_delivery(ledger, sample_event(1, window=300, matched_at=now), new_id=counted_ids(), now=now)

    async def scenario() -> bool:
        deliverer = _deliverer(ledger)
        loop = asyncio.create_task(deliverer.run())
        for _ in range(10):
            await asyncio.sleep(0)
        deliverer.poke()
        for _ in range(turns):
            await asyncio.sleep(0)
        loop.cancel()
        await asyncio.wait({loop}, timeout=HUNG)
        has_ended = loop.done()
        loop.cancel()
        return has_ended

    assert asyncio.run(scenario())


def test_what_a_dead_daemon_has_left_locked_is_due_at_once(ledger: LedgerStore) -> None:
    """One instance per ledger; whoever starts waits for no lease of its predecessor, and raises it."""
    now = SteadyClock().now()
    opened = open_delivery(ledger, sample_event(1, window=0, matched_at=now), new_id=counted_ids(), now=now)
    locked = lock_with_its_events(ledger, ledger.dispatch(opened, now), now)
    assert ledger.due(now) == []

    _deliverer(ledger).take_over_locked()

    later = Instant(SteadyClock().now())
    assert [one.id for one in ledger.due(later)] == [locked.id]
    taken = ledger.renew(ledger.due(later)[0], Instant(later + 60_000), None, later)
    assert taken.owner_lease > locked.owner_lease


def test_an_event_that_joins_a_held_delivery_brings_its_look_forward(ledger: LedgerStore) -> None:
    """A window-0 event skips the refractory, a person's word ends a loop: neither waits for an old look."""
    now = SteadyClock().now()
    new_id = counted_ids()
    opened = open_delivery(ledger, sample_event(1, window=0, matched_at=now), new_id=new_id, now=now)
    resting = Hold(HoldReason.REFRACTORY, next_look_at=Instant(now + 3_600_000))
    ledger.hold(ledger.dispatch(opened, now), resting, now)
    looked: list[str] = []
    has_looked = asyncio.Event()

    class WatchedGate:
        async def take(self, delivery: Delivery, *, patient: bool) -> Delivery:
            del patient
            looked.append(delivery.id)
            has_looked.set()
            return ledger.hold(delivery, resting, now)

    async def scenario() -> None:
        gate = cast("Any", WatchedGate())
        deliverer = Deliverer(ledger, gate, Current(EngineSettings()), SteadyClock(), new_id)
        loop = asyncio.create_task(deliverer.run())
        await asyncio.sleep(0)
        advance(ledger, sample_event(2, window=0, matched_at=now), now=now)
        deliverer.poke()
        async with asyncio.timeout(HUNG):
            await has_looked.wait()
        loop.cancel()
        await asyncio.wait({loop})

    asyncio.run(scenario())

    assert looked == [opened.id]


@pytest.mark.parametrize(("cause", "looks"), [(Cause.ACTIVE, 1), (Cause.OTHER_HOST, 0)])
def test_what_joins_may_be_for_a_receiver_unless_another_host_drives_it(
    ledger: LedgerStore, cause: Cause, looks: int
) -> None:
    """An agent that works keeps no receiver waiting; of many hosts each would look at each message for a receiver that one serves."""
    now = SteadyClock().now()
    new_id = counted_ids()
    opened = open_delivery(ledger, sample_event(1, window=0, matched_at=now), new_id=new_id, now=now)
    held = Hold(cause.reason, next_look_at=Instant(now + 3_600_000), cause=cause)
    ledger.hold(ledger.dispatch(opened, now), held, now)
    taken: list[str] = []

    class WatchedGate:
        async def take(self, delivery: Delivery, *, patient: bool) -> Delivery:
            del patient
            taken.append(delivery.id)
            return ledger.hold(delivery, held, now)

    async def scenario() -> None:
        gate = cast("Any", WatchedGate())
        deliverer = Deliverer(ledger, gate, Current(EngineSettings()), SteadyClock(), new_id, lambda _: True)
        loop = asyncio.create_task(deliverer.run())
        await asyncio.sleep(0)
        advance(ledger, sample_event(2, window=0, matched_at=now), now=now)
        deliverer.poke()
        async with asyncio.timeout(HUNG):
            while len(ledger.event_ids_of(opened.id)) < 2:  # noqa: ASYNC110 - the loop beside this takes it in
                await asyncio.sleep(0.01)
        # the pass that takes it in begins the look, if there is one
        await deliverer.drain(HUNG)
        loop.cancel()
        await asyncio.wait({loop})

    asyncio.run(scenario())

    assert len(taken) == looks


@pytest.mark.parametrize(
    ("reason", "is_joined", "has_receiver"),
    [(HoldReason.LOOP, True, False), (HoldReason.ACTIVE, False, False), (HoldReason.ACTIVE, True, True)],
)
def test_what_changes_while_a_delivery_is_judged_brings_its_next_look_forward(
    ledger: LedgerStore,
    reason: HoldReason,
    is_joined: bool,
    has_receiver: bool,
) -> None:
    """A look that began before cannot know it, and its hold would wait for an old look: a person's word in a loop, a `resume`, mail for a receiver."""
    now = SteadyClock().now()
    new_id = counted_ids()
    opened = open_delivery(ledger, sample_event(1, window=0, matched_at=now), new_id=new_id, now=now)
    held = Hold(reason, next_look_at=Instant(now + 3_600_000))
    ledger.dispatch(opened, now)
    looks = 0
    has_looked_again = asyncio.Event()

    async def a_change_of(delivery: Delivery) -> None:
        if not is_joined:
            deliverer.look_at(delivery.identity)
            return
        advance(ledger, sample_event(2, window=0, matched_at=now), now=now)
        deliverer.poke()
        while len(ledger.event_ids_of(delivery.id)) < 2:  # noqa: ASYNC110 - the loop beside this lane
            await asyncio.sleep(0.01)

    class SlowGate:
        async def take(self, delivery: Delivery, *, patient: bool) -> Delivery:
            nonlocal looks
            del patient
            looks += 1
            if looks == 1:
                await a_change_of(delivery)
            else:
                has_looked_again.set()
            return ledger.hold(delivery, held, now)

    gate = cast("Any", SlowGate())
    deliverer = Deliverer(ledger, gate, Current(EngineSettings()), SteadyClock(), new_id, lambda _: has_receiver)

    async def scenario() -> None:
        loop = asyncio.create_task(deliverer.run())
        async with asyncio.timeout(HUNG):
            await has_looked_again.wait()
        await asyncio.sleep(0.2)
        loop.cancel()
        await asyncio.wait({loop})

    asyncio.run(scenario())

    assert looks == 2


def test_one_pass_goes_on_with_the_others_where_one_target_makes_trouble(ledger: LedgerStore) -> None:
    """`run --once`: a fault in one identity's wake cancels nobody else's, and is not tried for ever."""
    now = SteadyClock().now()
    new_id = counted_ids()
    one, two = Identity("@one"), Identity("@two")
    for number, identity in enumerate((one, two), 1):
        event = replace(sample_event(number, window=0, matched_at=now), identity=identity)
        open_delivery(ledger, event, new_id=new_id, now=now)
    taken: list[str] = []

    class BrokenGate:
        async def take(self, delivery: Delivery, *, patient: bool) -> Delivery:
            del patient
            if delivery.identity == one:
                raise RuntimeError("one target's trouble")
            await asyncio.sleep(0.05)
            taken.append(delivery.identity)
            return ledger.hold(ledger.dispatch(delivery, now), Hold(HoldReason.ACTIVE), now)

    deliverer = Deliverer(ledger, cast("Any", BrokenGate()), Current(EngineSettings()), SteadyClock(), new_id)
    asyncio.run(asyncio.wait_for(deliverer.run_once(), HUNG))

    assert taken == [two]


def test_a_resync_waits_until_what_was_pushed_is_settled(ledger: LedgerStore) -> None:
    """What is still open in that moment would not be told again."""
    now = SteadyClock().now()
    opened = open_delivery(ledger, sample_event(1, window=0, matched_at=now), new_id=counted_ids(), now=now)
    pushed = lock_with_its_events(ledger, ledger.dispatch(opened, now), now, adapter=PUSH)

    class SlowGate:
        async def take(self, delivery: Delivery, *, patient: bool) -> Delivery:
            del patient
            await asyncio.sleep(0.2)
            return ledger.settle(delivery, Outcome.SUBMITTED, Proof.SUBMITTED, {}, now)

    deliverer = Deliverer(ledger, cast("Any", SlowGate()), Current(EngineSettings()), SteadyClock(), counted_ids())

    async def scenario() -> list[WakeEvent]:
        await deliverer.settles_pushed(pushed.identity, 0.1)
        assert ledger.delivery(pushed.id) == pushed, "it waits no longer than it may"
        deliverer.take_over_locked()
        loop = asyncio.create_task(deliverer.run())
        await deliverer.settles_pushed(pushed.identity, HUNG)
        told_again = ledger.replay([replace(sample_event(1), id="another")], now)
        loop.cancel()
        await asyncio.wait({loop})
        return told_again

    assert len(asyncio.run(scenario())) == 1
