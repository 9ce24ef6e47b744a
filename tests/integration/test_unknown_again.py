"""What becomes of a wake of unknown outcome: looked for, told truthfully, announced once more at most (decision 11).

A real graph and a real ledger, imagined agents, a clock turned by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.explanation import DeliveryHistory, TimeFormat, explain_delivery
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.reasons import ended_with
from wake_bridge.domain.routing import Address
from wake_bridge.engine.attention.notices import Notices
from wake_bridge.engine.deliver.unknown_outcomes import LOOKS_A_ROUND
from wake_bridge.ports.adapter import AttemptOutcome, Journal, Place, Trace, Unknown, Wake
from wake_bridge.ports.human import Told
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.memory_adapter import MemoryAdapter
from wake_bridge.testing.office import Office

AGENT = Identity("@agent")
MINUTE = 60_000
STEP = 5_000


class Person:
    """Hears what is told."""

    def __init__(self) -> None:
        self.heard: list[Notice] = []

    async def tell(self, notice: Notice) -> Told:
        self.heard.append(notice)
        return Told("voice")


class Room:
    """`@agent` and the terminal it sits in; while it `loses` them, wakes go out and leave no trace."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.agent = office.agent("agent")
        self.person = Person()
        self.sent: list[str] = []
        self.loses = True
        self.looks = 0
        delivers, traces = office.adapter.deliver, office.adapter.trace

        async def deliver(place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
            self.sent.append(wake.text)
            if not self.loses:
                return await delivers(place, address, wake, journal)
            for step in (Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT):
                await journal(step, {})
            return Unknown({"why": "the mark is neither in the composer nor in the transcript"})

        async def trace(place: Place, address: Address, wake: Wake) -> Trace:
            self.looks += 1
            return await traces(place, address, wake)

        office.adapter.deliver = deliver  # type: ignore[method-assign]
        office.adapter.trace = trace  # type: ignore[method-assign]
        self.begins()

    def begins(self) -> None:
        self.notices = Notices(
            self.office.ledger,
            self.person,
            self.office.current,
            self.office.clock,
            active_routes=lambda: 1,
            nudged=lambda: 0,
            known=self.office.tail.known_identities,
        )

    async def restarts(self) -> None:
        await self.office.restarts()
        self.begins()

    def configure(self, **changes: Any) -> None:
        self.office.current.settings = replace(self.office.current.settings, **changes)

    async def sends(self, subject: str = "a question") -> str:
        message = self.office.core.send("@other", AGENT, subject)
        await self.office.reads()
        return message

    async def lost(self, subject: str = "a question") -> Delivery:
        """Mail whose wake ends unknown."""
        await self.sends(subject)
        await self.office.works()
        unknown = self.office.deliveries(AGENT)[-1]
        assert unknown.outcome is Outcome.UNKNOWN
        return unknown

    async def for_minutes(self, minutes: float) -> None:
        """Let so much time pass; the daemon's parts do what they do, in the order in which they would."""
        ends = self.office.clock.now() + minutes * MINUTE
        while self.office.clock.now() < ends:
            await self.office.unknowns.look()
            await self.office.works()
            self.notices.tick(self.office.clock.now())
            await self.notices.drain()
            self.office.clock.turn(STEP)

    def arrives(self, unknown: Delivery) -> None:
        """The agent has it after all."""
        self.agent.received.append(unknown.digest)

    def now(self, delivery: Delivery) -> Delivery:
        found = self.office.ledger.delivery(delivery.id)
        assert found is not None
        return found

    def told_of(self, delivery: Delivery) -> str:
        """What `why` and `logs --delivery` say."""
        ledger = self.office.ledger
        ride = DeliveryHistory(self.now(delivery), ledger.journal_of(delivery.id), ledger.events_of(delivery.id))
        return explain_delivery(ride, TimeFormat(self.office.clock.now(), str), is_running=True).text


Story = Callable[[Room], Coroutine[Any, Any, None]]


def played(directory: Path, story: Story, identities: tuple[str, ...] = ("@other", "@agent")) -> None:
    async def run() -> None:
        office = Office(directory, list(identities), start=int(time.time() * 1000))
        for one in identities[1:]:
            office.subscribe(one, pane=one[1:])
        async with office:
            await story(Room(office))

    asyncio.run(run())


def test_what_is_seen_late_is_told_so_everywhere_and_never_announced_again(tmp_path: Path) -> None:
    """State and outcome stay, the proof rises, every command says "arrived, seen late"."""

    async def story(room: Room) -> None:
        unknown = await room.lost()
        await room.for_minutes(0.2)
        assert "outcome unknown" in room.told_of(unknown)
        room.arrives(unknown)
        await room.for_minutes(60)

        after = room.now(unknown)
        assert (after.state, after.outcome, after.proof) == (DeliveryState.FAILED, Outcome.UNKNOWN, Proof.SUBMITTED)
        assert replace(after, proof=unknown.proof) == unknown
        acked = room.office.ledger.journal_of(unknown.id)[-1]
        assert (acked.step, acked.detail["by"]) == (Step.ACKED, "the mark stands in the transcript")
        assert room.sent == [unknown.digest]
        assert room.told_of(unknown).endswith(f", arrived, seen late {acked.at} (the mark stands in the transcript)")
        assert ended_with(after) == "unknown: arrived, seen late"
        assert room.office.ledger.outcomes_since(EPOCH_START) == {Outcome.SUBMITTED: 1}
        tally = room.office.ledger.tally()
        assert (tally.unknown, tally.delivered) == (0, 1)
        assert room.person.heard == []

    played(tmp_path, story)


def test_unread_mail_is_announced_once_more_and_never_a_third_time(tmp_path: Path) -> None:
    """After ten minutes, under a new id; what is lost again is left to the person."""

    async def story(room: Room) -> None:
        first = await room.lost()
        await room.for_minutes(9.8)
        assert room.sent == [first.digest]
        await room.for_minutes(1)
        second = room.office.deliveries(AGENT)[-1]
        assert room.sent == [first.digest, second.digest]
        assert first.id not in second.digest
        assert room.person.heard == []
        assert room.told_of(first).endswith("; its unread mail was announced once more")

        await room.for_minutes(25 * 60)
        await room.restarts()
        await room.for_minutes(60)
        assert len(room.sent) == 2
        assert [one.outcome for one in room.office.deliveries(AGENT)] == [Outcome.UNKNOWN, Outcome.UNKNOWN]
        assert [one.subject for one in room.person.heard] == [second.id]

    played(tmp_path, story)


def test_the_second_one_tells_all_that_the_first_did_and_what_came_since(tmp_path: Path) -> None:
    """Decision 11: a new delivery with the still unread events; mail that was read is not among them."""

    async def story(room: Room) -> None:
        first = await room.lost("one")
        room.loses = False
        room.agent.state = PresenceState.ACTIVE
        await room.for_minutes(2)
        await room.sends("two")
        await room.for_minutes(12)
        assert room.agent.received == []
        room.agent.state = PresenceState.IDLE
        await room.for_minutes(2)
        (wake,) = room.agent.received
        assert "2 new messages" in wake
        assert first.id not in wake

    played(tmp_path, story)


def test_with_zero_it_is_only_looked_for(tmp_path: Path) -> None:
    """`delivery.unknown_again`: 0 = never; the person is told once, when the looking is over."""

    async def story(room: Room) -> None:
        room.configure(unknown_again_ms=0)
        first = await room.lost()
        await room.for_minutes(9.5)
        assert room.person.heard == []
        await room.for_minutes(1)
        assert [one.subject for one in room.person.heard] == [first.id]
        room.arrives(first)
        await room.for_minutes(60)
        assert room.sent == [first.digest]
        assert room.now(first).is_seen_late
        assert room.office.ledger.standing_notices(5) == []

    played(tmp_path, story)


@pytest.mark.parametrize("stopped_for", [0, 30])
def test_a_restart_in_between_changes_nothing(tmp_path: Path, stopped_for: int) -> None:
    """What is to be done is read from the ledger; no daemon for a while only makes it later."""

    async def story(room: Room) -> None:
        first = await room.lost()
        await room.for_minutes(4)
        room.office.clock.turn(stopped_for * MINUTE)
        await room.restarts()
        if not stopped_for:
            await room.for_minutes(5.5)
            assert room.sent == [first.digest]
        room.loses = False
        await room.for_minutes(2)
        assert len(room.sent) == 2
        await room.restarts()
        await room.for_minutes(60)
        assert len(room.sent) == 2
        assert room.office.deliveries(AGENT)[-1].outcome is Outcome.SUBMITTED

    played(tmp_path, story)


def test_a_clock_that_was_set_back_delays_it_by_no_more_than_the_time_it_takes(tmp_path: Path) -> None:
    """No stored instant is waited for that lies ahead of its nominal length."""

    async def story(room: Room) -> None:
        await room.lost()
        room.loses = False
        room.office.clock.turn(-24 * 60 * MINUTE)
        await room.restarts()
        room.office.ledger.rebase(room.office.clock.now())
        await room.for_minutes(11)
        assert len(room.agent.received) == 1

    played(tmp_path, story)


def _is_busy(room: Room) -> Callable[[], None]:
    room.agent.state = PresenceState.ACTIVE

    def ends() -> None:
        room.agent.state = PresenceState.IDLE

    return ends


def _has_a_draft(room: Room) -> Callable[[], None]:
    room.agent.composer = "half a thought"

    def ends() -> None:
        room.agent.composer = ""

    return ends


def _is_paused(room: Room) -> Callable[[], None]:
    room.office.ledger.pause(AGENT, None, room.office.clock.now())
    return lambda: room.office.ledger.resume(AGENT, room.office.clock.now())


def _is_spent(room: Room) -> Callable[[], None]:
    room.configure(limits=Limits(wakes_per_hour=1, refractory=0))
    return lambda: room.configure(limits=Limits())


STOPS = [_is_busy, _has_a_draft, _is_paused, _is_spent]


@pytest.mark.parametrize("stop", STOPS)
def test_it_goes_through_the_gate_like_any_other(tmp_path: Path, stop: Callable[[Room], Callable[[], None]]) -> None:
    """Not while the agent works, beside a draft, in a pause or above a budget; then at once."""

    async def story(room: Room) -> None:
        first = await room.lost()
        room.loses = False
        ends = stop(room)
        await room.for_minutes(30)
        assert room.sent == [first.digest]
        held = room.office.deliveries(AGENT)[-1]
        assert held.hold is not None
        assert f"once more after {first.id} (outcome unknown)" in room.told_of(held)
        ends()
        room.office.ledger.look_at_once(AGENT, room.office.clock.now())
        await room.for_minutes(2)
        assert len(room.agent.received) == 1
        await room.for_minutes(60)
        assert len(room.sent) == 2

    played(tmp_path, story)


@pytest.mark.parametrize("stop", STOPS)
def test_what_arrives_while_the_second_one_waits_is_not_announced_again(
    tmp_path: Path, stop: Callable[[Room], Callable[[], None]]
) -> None:
    """Decision 11: it is looked for once more at the last moment, however long after the first."""

    async def story(room: Room) -> None:
        first = await room.lost()
        ends = stop(room)
        await room.for_minutes(45)
        # long after the rounds have stopped looking
        room.arrives(first)
        ends()
        room.office.ledger.look_at_once(AGENT, room.office.clock.now())
        await room.for_minutes(60)
        assert room.sent == [first.digest]
        assert room.now(first).is_seen_late
        assert room.office.deliveries(AGENT)[-1].outcome is Outcome.EMPTY
        assert "arrived, seen late" in room.told_of(first)

    played(tmp_path, story)


def test_what_arrives_after_the_second_one_is_told_truthfully(tmp_path: Path) -> None:
    """If the first text then arrives late after all, nothing more can be done but it is told."""

    async def story(room: Room) -> None:
        first = await room.lost()
        room.loses = False
        await room.for_minutes(11)
        assert len(room.agent.received) == 1
        room.arrives(first)
        await room.for_minutes(2)
        assert room.now(first).is_seen_late
        told = room.told_of(first)
        assert "arrived, seen late" in told
        assert told.endswith("; its unread mail was announced once more")

    played(tmp_path, story)


@pytest.mark.parametrize("minutes", [1, 8])
def test_mail_that_was_read_meanwhile_is_arrival_enough(tmp_path: Path, minutes: int) -> None:
    """Whoever has read it has been told."""

    async def story(room: Room) -> None:
        first = await room.lost()
        await room.for_minutes(minutes)
        room.office.core.sql(
            "UPDATE Nodes SET data = json_set(data, '$.properties.readAt', '2026-01-01T00:00:00Z')"
            " WHERE json_extract(data, '$.properties.to') = ?",
            AGENT,
        )
        await room.for_minutes(60)
        assert room.sent == [first.digest]
        assert room.now(first).proof is Proof.ACKNOWLEDGED
        assert room.told_of(first).endswith("(mail read)")
        assert room.person.heard == []

    played(tmp_path, story)


class CannotLook:
    """An adapter without `trace`, as one of a third party may be."""

    def __init__(self, adapter: MemoryAdapter) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        if name == "trace":
            raise AttributeError(name)
        return getattr(self._adapter, name)


def test_an_adapter_that_cannot_look_leaves_it_to_the_person(tmp_path: Path) -> None:
    """Decision 11: it must not be announced again where looking is impossible; third parties' adapters run unchanged."""

    async def story(room: Room) -> None:
        room.office.adapters["memory"] = CannotLook(room.office.adapter)  # type: ignore[assignment]
        first = await room.lost()
        await room.for_minutes(60)
        assert room.sent == [first.digest]
        assert [one.subject for one in room.person.heard] == [first.id]

    played(tmp_path, story)


def test_a_look_that_proves_nothing_holds_the_second_one_and_nothing_else(tmp_path: Path) -> None:
    """Decision 11: only the proof of its absence sends it again; fresh mail goes on beside it."""

    async def story(room: Room) -> None:
        first = await room.lost("one")
        room.loses = False

        async def blind(*_: object) -> Trace:
            return Trace(Proof.NONE, "the scrollback cannot be read")

        looks = room.office.adapter.trace
        room.office.adapter.trace = blind  # type: ignore[method-assign,assignment]
        await room.for_minutes(15)
        held = room.office.deliveries(AGENT)[-1]
        assert held.hold is not None
        assert held.hold.reason is HoldReason.UNKNOWN
        assert held.hold.detail == "it may have been sent; wake-bridge looks for it (the scrollback cannot be read)"
        assert room.sent == [first.digest]

        await room.sends("two")
        await room.for_minutes(3)
        (fresh,) = room.agent.received
        assert "1 new message " in fresh
        assert "two" in fresh

        room.office.adapter.trace = looks  # type: ignore[method-assign]
        await room.for_minutes(3)
        assert len(room.agent.received) == 2
        assert "one" in room.agent.received[1]

    played(tmp_path, story)


def test_a_person_who_retries_is_quicker(tmp_path: Path) -> None:
    """`deliveries retry` counts as the second time; never a third."""

    async def story(room: Room) -> None:
        first = await room.lost()
        await room.for_minutes(2)
        room.office.ledger.retry(first.id, new_ulid, room.office.clock.now(), looked=True)
        await room.for_minutes(3 * 60)
        assert len(room.sent) == 2
        assert [one.outcome for one in room.office.deliveries(AGENT)] == [Outcome.UNKNOWN, Outcome.UNKNOWN]

    played(tmp_path, story)


def test_what_retention_takes_while_it_is_looked_for_ends_no_round(tmp_path: Path) -> None:
    """It is no longer on record, so there is nothing to write down; the others are looked for as before."""

    async def story(room: Room) -> None:
        unknown = await room.lost()
        room.arrives(unknown)
        traces = room.office.adapter.trace

        async def trace(place: Place, address: Address, wake: Wake) -> Trace:
            room.office.ledger.prune(Instant(room.office.clock.now() + 1), 100)
            return await traces(place, address, wake)

        room.office.adapter.trace = trace  # type: ignore[method-assign]
        await room.office.unknowns.look()
        assert room.office.ledger.delivery(unknown.id) is None

    played(tmp_path, story)


def test_many_at_once_are_looked_for_in_turn(tmp_path: Path) -> None:
    """Cheap; a round looks for a bounded number, and every one gets its turn."""
    names = tuple(f"@a{number}" for number in range(3 * LOOKS_A_ROUND - 5))

    async def story(room: Room) -> None:
        for name in names:
            room.office.core.send("@other", name, "hello")
        await room.office.reads()
        await room.office.works()
        unknown = room.office.ledger.unknown_since(EPOCH_START)
        assert len(unknown) == len(names)
        for one in unknown:
            room.office.agent(one.identity[1:]).received.append(one.digest)
        for number in (1, 2, 3):
            before = room.looks
            await room.office.unknowns.look()
            assert room.looks - before <= LOOKS_A_ROUND, number
            room.office.clock.turn(STEP)
        assert room.office.ledger.unknown_since(EPOCH_START) == []

    played(tmp_path, story, ("@other", *names))
