"""What follows from mail that is read: a real graph, a real ledger, and count is kept of what the graph is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.engine.deliver import acknowledge
from wake_bridge.engine.deliver.acknowledge import Acknowledge
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import (
    AGENT,
    START,
    busy,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.turned_clock import TurnedClock

HELD = "@held"
OTHERS = [f"MESSAGE:{number}" for number in range(300)]
"""Messages of mail that is gone from the graph: nobody will ever read them."""


class CountingInquiry(GraphQueries):
    """Keeps count of the messages it is asked about."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: SqliteGraph(path))
        self.asked_about = 0
        self.questions = 0
        self.judged = 0

    async def mail_states(self, pairs: Sequence[tuple[str, Identity]]) -> Any:
        self.asked_about += len(pairs)
        self.questions += bool(pairs)
        return await super().mail_states(pairs)

    async def identities(self, identity: Identity) -> Any:
        self.judged += 1
        return await super().identities(identity)


class ToldFollower(Acknowledge):
    """Tells when it has gone round."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self.went_round = asyncio.Event()

    async def _look_at_new_ends(self) -> None:
        await super()._look_at_new_ends()
        self.went_round.set()


class World:
    """A graph, a ledger, the follower between them; `looked` are the identities it had looked at again."""

    def __init__(self, directory: Path, ledger: LedgerStore) -> None:
        self.ledger = ledger
        self.core = MemoryCore.create(directory / "graph.sqlite", ["@me", AGENT, HELD])
        self.clock = TurnedClock(START)
        self.queries = CountingInquiry(directory / "graph.sqlite")
        self.looked: list[Identity] = []
        self.epoch = 1
        self.moved = asyncio.Event()
        self.follower = ToldFollower(
            ledger,
            self.queries,
            Current(EngineSettings()),
            self.clock,
            place=lambda: (Epoch(self.epoch), LogId(self.core.tip()), 0),
            moved=self.moved,
            look_again=self.looked.append,
        )

    def tell(self, message: str) -> Delivery:
        """A wake for `@agent` that was submitted, about one message."""
        event = sample_event(self.core.tip(), subject_key=message)
        opened = self.ledger.dispatch(open_delivery(self.ledger, event, new_id=new_ulid), self.clock.now())
        frozen = lock_with_its_events(self.ledger, opened, self.clock.now())
        self.ledger.append(frozen, Step.INTENT_SUBMIT, {}, self.clock.now())
        return self.ledger.settle(frozen, Outcome.SUBMITTED, Proof.SUBMITTED, {}, self.clock.now())

    def hold(self, *messages: str) -> Delivery:
        """A held delivery for `@held` about some messages."""
        events = (sample_event(1000 + at, HELD, subject_key=one) for at, one in enumerate(messages))
        opened = open_delivery(self.ledger, *events, new_id=new_ulid)
        dispatched = self.ledger.dispatch(opened, self.clock.now())
        return self.ledger.hold(dispatched, busy(self.clock.now() + 60_000), self.clock.now())

    def proof(self, delivery: Delivery) -> Proof:
        """How far it is proven by now."""
        found = self.ledger.delivery(delivery.id)
        assert found is not None
        return found.proof

    async def goes_round(self) -> None:
        """Wait until the follower has gone round once since now; the round under way may have begun before."""
        for _ in range(2):
            self.moved.set()
            self.follower.went_round.clear()
            async with asyncio.timeout(HUNG):
                await self.follower.went_round.wait()

    async def look_after(self, change: Callable[[], object]) -> int:
        """Change something, let the follower see it; how many messages the graph was asked about."""
        before = self.queries.asked_about
        change()
        self.clock.turn(1100)
        await self.goes_round()
        return self.queries.asked_about - before


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(acknowledge, "LOOK_EVERY", 0.01)
    with fresh_ledger(tmp_path / "state") as ledger:
        world = World(tmp_path, ledger)
        yield world
        world.queries.close()
        world.core.close()


def follow(world: World, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Let the follower run as long as the story goes on."""

    async def both() -> None:
        running = asyncio.create_task(world.follower.run())
        await world.goes_round()
        await story()
        running.cancel()

    asyncio.run(both())


def test_mail_read_after_its_wake_raises_the_proof(world: World) -> None:
    """Proof 3 is mail that was read."""

    async def story() -> None:
        message = world.core.send("@me", AGENT, "read me")
        told = world.tell(message)
        await world.look_after(lambda: world.core.noise(1))
        assert world.proof(told) is Proof.SUBMITTED
        await world.look_after(lambda: world.core.mark_read(message))
        assert world.proof(told) is Proof.ACKNOWLEDGED

    follow(world, story)


def test_mail_read_while_its_wake_was_being_submitted_raises_the_proof(world: World) -> None:
    """The row that says so lies before the end of the delivery, and is not passed over."""

    async def story() -> None:
        message = world.core.send("@me", AGENT, "read at once")
        await world.look_after(lambda: world.core.mark_read(message))
        told = world.tell(message)
        await world.look_after(lambda: None)
        assert world.proof(told) is Proof.ACKNOWLEDGED

    follow(world, story)


def test_the_graph_is_asked_about_the_mail_of_all_that_has_ended_together(world: World) -> None:
    """A host that wakes twenty agents a second must not ask twenty times."""

    async def story() -> None:
        before, told = world.queries.questions, list[Delivery]()
        for number in range(5):
            message = world.core.send("@me", AGENT, f"read {number}")
            if number == 1:
                world.core.mark_read(message)
            told.append(world.tell(message))
        await world.look_after(lambda: None)
        assert [world.proof(one) for one in told].count(Proof.ACKNOWLEDGED) == 1
        # by the rows that name it, by its end, and perhaps by its end once more
        assert world.queries.questions - before <= 3

    follow(world, story)


def test_mail_read_while_its_wake_is_held_has_the_wake_looked_at(world: World) -> None:
    """README: a hold ends by delivery, or by the mail being read."""

    async def story() -> None:
        message = world.core.send("@me", HELD, "read me yourself")
        world.hold(message)
        await world.look_after(lambda: world.core.noise(1))
        assert not world.looked
        await world.look_after(lambda: world.core.mark_read(message))
        assert world.looked == [HELD]

    follow(world, story)


def test_what_another_host_drives_is_judged_once_its_mail_is_read(world: World) -> None:
    """Most mail on a graph of many hosts is such: whether all of it still waits is one question, however many wakes hold it."""

    async def story() -> None:
        before, messages = world.queries.questions, list[str]()
        for identity in (HELD, AGENT):
            messages.append(world.core.send("@me", identity, "for the other host"))
            event = sample_event(2000 + len(messages), identity, subject_key=messages[-1])
            dispatched = world.ledger.dispatch(open_delivery(world.ledger, event, new_id=new_ulid), world.clock.now())
            elsewhere = Hold(HoldReason.OTHER_HOST, "beta", "", Instant(START + 60_000), Cause.OTHER_HOST)
            world.ledger.hold(dispatched, elsewhere, world.clock.now())
        await world.look_after(lambda: None)
        assert (world.queries.questions - before, world.queries.judged, world.looked) == (1, 0, [])

        await world.look_after(lambda: world.core.mark_read(messages[0]))
        assert (world.queries.judged, world.looked) == (1, [HELD])

    follow(world, story)


def test_an_identity_that_is_back_from_the_bench_is_looked_at(world: World) -> None:
    """Its own node says so."""

    async def story() -> None:
        message = world.core.send("@me", HELD, "when you are back")
        delivery = world.hold(message)
        assert delivery.hold is not None
        benched = Hold(HoldReason.BENCHED, "", "", Instant(START + 60_000))
        world.ledger.hold(delivery, benched, world.clock.now())
        await world.look_after(lambda: world.core.identity(HELD, participationStatus="active"))
        assert HELD in world.looked

    follow(world, story)


def test_a_flood_of_other_mail_asks_nothing_about_what_waits(world: World) -> None:
    """What a row costs does not grow with what is open or was told of late."""

    async def story() -> None:
        world.hold(*OTHERS)
        told = [world.tell(world.core.send("@me", AGENT, f"told {number}")) for number in range(5)]
        await world.look_after(lambda: None)

        asked = await world.look_after(lambda: world.core.noise(50))
        asked += await world.look_after(lambda: world.core.send("@me", AGENT, "somebody else's"))

        assert asked == 0
        assert {world.proof(one) for one in told} == {Proof.SUBMITTED}

    follow(world, story)


def test_another_epoch_has_everything_looked_at(world: World) -> None:
    """Ids compare only inside one epoch; what rows of another one name says nothing of ours."""

    async def story() -> None:
        message = world.core.send("@me", AGENT, "read meanwhile")
        told = world.tell(message)
        await world.look_after(lambda: None)

        def begins_anew() -> None:
            world.core.mark_read(message)
            world.core.prune(world.core.tip())
            world.epoch = 2

        await world.look_after(begins_anew)
        assert world.proof(told) is Proof.ACKNOWLEDGED

    follow(world, story)
