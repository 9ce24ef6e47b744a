"""What becomes of a daemon that is stopped, suspended, or whose clock is set: one catch-up, no storm."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import DeliveryState, HoldReason, Outcome
from wake_bridge.domain.events import ItemMode, ItemTier
from wake_bridge.domain.guards import LOOKED_AT_EVERY, QuietHours
from wake_bridge.domain.items import ItemDraft
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.engine.tail.intake import Intake
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.turned_clock import TurnedClock, live
from wake_bridge.testing.whole_engine import WholeEngine

MONDAY = Instant(1_767_600_000_000)
"""2026-01-05 08:00 UTC."""

HOUR = 3600
DAY = 24 * HOUR


def received(engine: WholeEngine, name: str = "a") -> list[str]:
    return engine.agents[name].received


async def used_to_it(engine: WholeEngine) -> None:
    """The engine runs for a while, has woken once, and all is quiet."""
    engine.send("a", "first")
    await engine.until(lambda: received(engine), 60)
    engine.read_all("a")
    await asyncio.sleep(120)


def test_the_turned_clock_passes_only_where_nothing_is_left_to_do() -> None:
    """A hand-turned clock; a suspend stops the timers, a stop makes them late."""
    clock = TurnedClock(MONDAY)

    async def story() -> None:
        await asyncio.sleep(3600)
        assert clock.now() == MONDAY + 3_600_000
        assert await asyncio.to_thread(clock.now) == MONDAY + 3_600_000
        timer = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(1)
        clock.suspend(3600)
        await asyncio.sleep(1)
        assert not timer.done()
        clock.stop(600)
        await asyncio.sleep(0.001)
        assert timer.done()
        clock.set_wall(-DAY)
        assert clock.wall() == clock.now() - DAY * 1000

    live(clock, story())


@pytest.mark.parametrize("pause", ["stopped for ten minutes", "suspended over night"])
def test_what_came_while_the_daemon_could_not_run_is_one_digest(tmp_path: Path, pause: str) -> None:
    """SIGSTOP 10 min, a suspend: one catch-up digest, no storm."""
    clock = TurnedClock(MONDAY)

    async def story() -> None:
        async with WholeEngine(tmp_path, clock, ["a"]) as engine:
            await used_to_it(engine)
            for number in range(40):
                engine.send("a", f"mail {number}")
            if pause == "stopped for ten minutes":
                clock.stop(600)
            else:
                clock.suspend(9 * HOUR)
            began = engine.now
            await engine.until(lambda: len(received(engine)) > 1, 90)
            assert engine.now - began < 45_000
            await asyncio.sleep(1800)
            assert "40 new messages" in received(engine)[1]
            assert len(received(engine)) == 2

    live(clock, story())


def test_a_hold_that_ended_during_a_suspend_is_looked_at_soon_after(tmp_path: Path) -> None:
    """Quiet hours end at 07:00: the timers of a process stand still while the machine sleeps, the hold must not."""
    clock = TurnedClock(Instant(MONDAY + 14 * HOUR * 1000))

    async def story() -> None:
        quiet = {"quiet_hours": QuietHours.parse("22:00-07:00")}
        async with WholeEngine(tmp_path, clock, ["a"], settings=quiet) as engine:
            engine.send("a", "late mail")
            await asyncio.sleep(600)
            (held,) = engine.ledger.unsettled()
            assert held.hold is not None
            assert held.hold.reason is HoldReason.QUIET_HOURS
            assert held.hold.next_look_at - engine.now <= LOOKED_AT_EVERY
            clock.suspend(9 * HOUR)
            await engine.until(lambda: received(engine), 30)

    live(clock, story())


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_set_by_a_day_loses_nothing_and_storms_nobody(tmp_path: Path, days: int) -> None:
    """± 1 day of clock: what waited and what comes is told once."""
    clock = TurnedClock(MONDAY)

    async def story() -> None:
        async with WholeEngine(tmp_path, clock, ["a"]) as engine:
            await used_to_it(engine)
            engine.agents["a"].state = PresenceState.ACTIVE
            engine.send("a", "before")
            await asyncio.sleep(60)
            clock.set_wall(days * DAY)
            engine.send("a", "after")
            await asyncio.sleep(60)
            engine.agents["a"].state = PresenceState.IDLE
            await engine.until(lambda: len(received(engine)) == 2, 120)
            assert "2 new messages" in received(engine)[1]
            engine.read_all("a")
            engine.send("a", "later")
            await engine.until(lambda: len(received(engine)) == 3, 120)
            clock.set_wall(-days * DAY)
            engine.send("a", "set right again")
            await engine.until(lambda: len(received(engine)) == 4, 120)
            await asyncio.sleep(HOUR)
            assert [one.outcome for one in engine.deliveries()].count(Outcome.SUBMITTED) == 4
            assert [one.state for one in engine.deliveries()] == [DeliveryState.DELIVERED] * 4
            assert len(received(engine)) == 4

    live(clock, story())


def test_a_way_that_another_program_changes_is_taken_at_once(tmp_path: Path) -> None:
    """A foreign graph's server pokes nobody; what is held is looked at all the same when the way changes."""
    clock = TurnedClock(MONDAY)

    async def story() -> None:
        async with WholeEngine(tmp_path, clock, ["a", "b"]) as engine:
            engine.agents["a"].state = PresenceState.ACTIVE
            engine.send("a", "wherever you are")
            await asyncio.sleep(HOUR)
            assert [str(one.hold.reason) for one in engine.ledger.unsettled() if one.hold] == ["active"]
            engine.lives_in("a", "b")
            await engine.until(lambda: received(engine, "b"), 5)
            assert received(engine, "a") == []

    live(clock, story())


def test_an_item_that_was_told_and_never_read_outlives_the_retention(tmp_path: Path) -> None:
    """Mail lies in the graph, an item nowhere else: it stays in the inbox until it is read, and goes with its age then."""
    clock = TurnedClock(MONDAY)
    retention = 90 * DAY

    def forgotten(engine: WholeEngine) -> int:
        clock.stop(retention + DAY)
        return engine.ledger.prune(Instant(engine.now - retention * 1000), 1000)

    def unread(engine: WholeEngine) -> int:
        return engine.ledger.unread_items(Identity("@a"), frozenset(ItemTier), 10, engine.now)[1]

    async def story() -> None:
        async with WholeEngine(tmp_path, clock, ["a"]) as engine:
            await used_to_it(engine)
            draft = ItemDraft(Identity("@a"), "ci", "main is red", mode=ItemMode.ACTIVE)
            taken = Intake(engine.ledger, new_ulid).take(draft, engine.current.settings, engine.now)
            engine.deliverer.poke()
            await engine.until(lambda: len(received(engine)) == 2, 120)
            await engine.until(lambda: engine.deliveries()[0].outcome is Outcome.SUBMITTED, 120)

            assert forgotten(engine) > 0
            assert unread(engine) == 1
            assert engine.ledger.deliveries_with(taken.event.id) == []
            engine.ledger.settle_items([taken.event.id], engine.now)
            assert forgotten(engine) > 0
            assert engine.ledger.find_item(taken.event.id) is None

    live(clock, story())
