"""The deliver loop: takes what is due through the gate, each target in a lane of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason
from wake_bridge.domain.errors import LedgerError, LedgerUnwritable, StaleLease
from wake_bridge.domain.names import Identity, Instant, to_beat
from wake_bridge.domain.receivers import PUSH, is_receiver
from wake_bridge.engine.deliver.gate import Gate
from wake_bridge.engine.deliver.other_hosts import OtherHosts
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId

ENDED_BY_JOINING: Final = frozenset({HoldReason.WINDOW, HoldReason.REFRACTORY, HoldReason.LOOP})
"""Holds that may end with what joins the delivery: an event without a window, a person's word in a loop."""

POSTS: Final = 256
"""Deliveries of identities with receivers that may be under way at once: each waits for a program far away, and types nothing."""

PASSES_APART: Final = 0.05
"""Seconds between two passes over the ledger: a flood of events must not become a flood of passes. The first one waits for nothing."""

LANES: Final = 16
"""Deliveries that may be under way at once; each target has its own lane."""

LONGEST_SLEEP: Final = 15.0
"""Seconds after which the ledger is looked at again: while the machine sleeps, a timer stands still, and a poke may be lost."""


def _lane_of(delivery: Delivery) -> str:
    """The identity's, or the receiver's of an emission that is sent again: it is a target of its own."""
    is_again = is_receiver(delivery.pane_key) and delivery.state is DeliveryState.LOCKED
    return delivery.pane_key if is_again else delivery.identity


class Deliverer:
    """Brings due deliveries to their end, one lane per target.

    Args:
        has_receiver: whether wakes of an identity may be posted somewhere.
        other_hosts: sees to what other hosts drive; None where there can be none.
    """

    def __init__(
        self,
        ledger: Ledger,
        gate: Gate,
        current: Current,
        clock: Clock,
        new_id: NewId,
        has_receiver: Callable[[Identity], bool] = lambda _: False,
        other_hosts: OtherHosts | None = None,
    ) -> None:
        self._other_hosts = other_hosts
        self._has_receiver = has_receiver
        self._posts = asyncio.Semaphore(POSTS)
        self._ledger = ledger
        self._gate = gate
        self._current = current
        self._clock = clock
        self._new_id = new_id
        self._wakeup = asyncio.Event()
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._permits = asyncio.Semaphore(LANES)
        self._joins: Counter[Identity] = Counter()
        self._looks: Counter[Identity | None] = Counter()
        self._log = structlog.get_logger("deliver")

    def poke(self) -> None:
        """Something changed: look at what is due now."""
        self._wakeup.set()

    def look_at(self, identity: Identity | None) -> None:
        """The place of an identity changed, or a person asked: look at its held deliveries at once."""
        self._looks[identity] += 1
        self._ledger.look_at_once(identity, self._clock.now())
        self.poke()

    async def settles_pushed(self, identity: Identity, patience: float) -> None:
        """Wait up to `patience` seconds until what was pushed to an identity is settled, or left to another route."""

        def is_open(one: Delivery) -> bool:
            is_pushed = one.identity == identity and one.adapter == PUSH
            return is_pushed and one.state is DeliveryState.LOCKED and not one.awaits_ack

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while any(map(is_open, self._ledger.unsettled())):  # noqa: ASYNC110 - the loop beside this settles it
                    await asyncio.sleep(PASSES_APART)

    def end_told(self, told: Sequence[tuple[Identity, str, str]]) -> None:
        """Other hosts have told that: identity, subject key and host of each. What is under way finds out by itself."""
        if self._other_hosts is not None:
            self._other_hosts.end([one for one in told if one[0] not in self._lanes])

    def waiting(self) -> set[Identity]:
        """Identities with a delivery that is not settled."""
        return self._ledger.waiting()

    def take_over_locked(self) -> None:
        """At the start, alone with the ledger: what a daemon that is gone has left locked is looked at at once."""
        now = self._clock.now()
        for delivery in self._ledger.unsettled():
            if delivery.state is DeliveryState.LOCKED and not delivery.awaits_ack:
                self._ledger.renew(delivery, now, delivery.hold, now)

    async def run(self) -> None:
        """Deliver for ever; cancelled to stop. Attempts under way are given time by `drain`."""
        while True:
            self._wakeup.clear()
            self._start_due()
            await asyncio.sleep(PASSES_APART)
            await self._sleep_until(self._ledger.next_deadline())

    async def drain(self, patience: float) -> None:
        """Wait up to `patience` seconds for attempts under way; what is left is cancelled between two keys."""
        lanes = list(self._lanes.values())
        if not lanes:
            return
        _, late = await asyncio.wait(lanes, timeout=patience)
        for lane in late:
            lane.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def run_once(self) -> None:
        """Bring everything as far as it goes now: windows and rests are waited for, each hold gets one two-sample look."""
        looked: set[str] = set()
        while True:
            self._ledger.gather(self._clock.now(), self._new_id)
            lanes: dict[Identity, list[Delivery]] = {}
            for one in self._ledger.unsettled():
                if one.id not in looked and not (one.awaits_ack or one.state is DeliveryState.ESCALATED):
                    lanes.setdefault(one.identity, []).append(one)
            if not lanes:
                return
            async with asyncio.TaskGroup() as group:
                for deliveries in lanes.values():
                    group.create_task(self._work_off(deliveries, looked))

    async def _work_off(self, deliveries: Sequence[Delivery], looked: set[str]) -> None:
        """Take an identity's deliveries as far as they go, one after the other; add what need not be looked at again."""
        for delivery in sorted(deliveries, key=lambda one: one.due_at):
            await self._sleep_through(delivery.due_at)
            fresh = self._ledger.delivery(delivery.id)
            if fresh is None or fresh.state.is_terminal or fresh.awaits_ack:
                continue
            try:
                async with self._permits:
                    after = await self._gate.take(fresh, patient=True)
            except StaleLease:
                self._log.info("stale_lease", delivery=fresh.id)
                looked.add(fresh.id)
                continue
            except LedgerError:
                raise
            except Exception:  # noqa: BLE001 - one target's trouble must not stop the others
                self._log.exception("lane_failed", delivery=fresh.id, agent=fresh.identity)
                looked.add(fresh.id)
                continue
            rests = after.hold is not None and after.hold.reason is HoldReason.REFRACTORY
            if after.hold is not None and rests and not after.state.is_terminal:
                await self._sleep_through(after.hold.next_look_at)
            else:
                looked.add(after.id)

    async def _sleep_through(self, instant: Instant) -> None:
        await asyncio.sleep(max(0, instant - self._clock.now()) / 1000)

    def _start_due(self) -> None:
        now = self._clock.now()
        for joined in self._ledger.gather(now, self._new_id):
            self._joins[joined.identity] += 1
            if self._ends_by_joining(joined):
                self._ledger.look_at_once(joined.identity, now)
        due = self._ledger.due(now, self._lanes.keys())
        for delivery in due if self._other_hosts is None else self._other_hosts.hold(due):
            name = _lane_of(delivery)
            if name not in self._lanes:
                lane = asyncio.create_task(self._lane(delivery), name=f"deliver {name}")
                self._lanes[name] = lane
                lane.add_done_callback(self._lane_ended)

    def part(self, posted: Delivery) -> bool:
        """A post is about to begin: it goes on in a lane of its own, so that a receiver that hangs keeps nothing else waiting.

        Answers whether the lane that it is in was free to be left.
        """
        task = asyncio.current_task()
        name = next((name for name, lane in self._lanes.items() if lane is task), None)
        if name is None or task is None:
            return False
        del self._lanes[name]
        self._lanes[f"{posted.pane_key} {posted.id}"] = task
        self.poke()
        return True

    def _lane_ended(self, ended: asyncio.Task[None]) -> None:
        self._lanes = {name: lane for name, lane in self._lanes.items() if lane is not ended}
        self.poke()

    async def _lane(self, delivery: Delivery) -> None:
        identity = delivery.identity
        async with self._posts if self._has_receiver(identity) else self._permits:
            joins, looks = self._joins[identity], self._looks_at(identity)
            try:
                after = await self._gate.take(delivery, patient=False)
                # it was judged by what was so before, and its hold says when to look by that
                has_joined = joins != self._joins[identity] and self._ends_by_joining(after)
                if has_joined or looks != self._looks_at(identity):
                    self._ledger.look_at_once(identity, self._clock.now())
            except StaleLease:
                self._log.info("stale_lease", delivery=delivery.id)
            except LedgerUnwritable as away:
                self._log.warning("ledger_away", delivery=delivery.id, reason=str(away), hint=away.hint)
                await asyncio.sleep(self._current.settings.relook_min_ms / 1000)
            except Exception:  # noqa: BLE001 - one target's trouble must not stop the others
                self._log.exception("lane_failed", delivery=delivery.id, agent=delivery.identity)
                await asyncio.sleep(self._current.settings.relook_min_ms / 1000)

    def _ends_by_joining(self, delivery: Delivery) -> bool:
        # nothing joins a LOCKED one; another host that drives the identity drives its receivers too
        if delivery.state is DeliveryState.LOCKED or delivery.hold is None or delivery.hold.cause is Cause.OTHER_HOST:
            return False
        # what joins may be for a receiver, whatever keeps the agent's own
        return delivery.hold.reason in ENDED_BY_JOINING or self._has_receiver(delivery.identity)

    def _looks_at(self, identity: Identity) -> int:
        return self._looks[identity] + self._looks[None]

    async def _sleep_until(self, deadline: Instant | None) -> None:
        wait = to_beat(LONGEST_SLEEP, asyncio.get_running_loop().time())
        if deadline is not None:
            wait = min(max(0.0, (deadline - self._clock.now()) / 1000), wait)
        if self._lanes:
            wait = max(wait, 0.05)
        # not wait_for: until 3.12 it can lose the cancellation that comes together with the event
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wakeup.wait()
