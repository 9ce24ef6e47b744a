"""Native first, and every way to fall back and return: a real graph and ledger, imagined agents, a turned clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from wake_bridge_adapters.heartbeat import HeartbeatAdapter

from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Progress, Proof, Step
from wake_bridge.domain.errors import StaleLease
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Observation, PresenceState
from wake_bridge.domain.routing import Address, Binding
from wake_bridge.engine import route_recovery
from wake_bridge.engine.deliver.gate import Gate
from wake_bridge.engine.route_states import JUST_FOUND
from wake_bridge.engine.settings import TargetSettings
from wake_bridge.ports.adapter import AttemptOutcome, Failed, Journal, Place, Refused, Wake
from wake_bridge.ports.ledger_records import DegradedRoute, Lock
from wake_bridge.testing.office import Office

ADA = Identity("@ada")
REST = Identity("@rest")
FENCE = Binding("channel", 0, "s1", "", 7, "stamp", 7, "started")

Story = Callable[["Desk"], Coroutine[Any, Any, None]]


class Desk:
    """`@ada`, in a pane and behind a line; `pane` is what the screen shows, `line.agent` what the agent itself says."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.pane = office.agent("ada")
        self.line = office.line(ADA, "ada natively")
        self.looks: list[str] = []
        seeing = office.adapter.observe

        async def observe(place: Place, address: Address) -> Observation:
            self.looks.append(place.label)
            return await seeing(place, address)

        office.adapter.observe = observe  # type: ignore[method-assign]

    def send(self, subject: str = "hello") -> None:
        self.office.core.send("@me", ADA, subject)

    async def wakes(self) -> Delivery:
        """Let the tail read and everything due be tried; the newest delivery then."""
        await self.office.reads()
        await self.office.works()
        return self.delivery

    async def later(self, seconds: float) -> Delivery:
        """Some time later, what is due is tried."""
        self.office.clock.turn(int(seconds * 1000))
        await self.office.works()
        return self.delivery

    @property
    def delivery(self) -> Delivery:
        return self.office.deliveries(ADA)[-1]

    @property
    def steps(self) -> list[Step]:
        return [one.step for one in self.office.ledger.journal_of(self.delivery.id)]

    @property
    def received(self) -> list[str]:
        """Everything that reached the agent, by whatever door."""
        return [*self.line.agent.received, *self.pane.received]

    def allow(self, **fields: Any) -> None:
        """Set keys of `[targets."@ada"]`."""
        target = replace(TargetSettings("memory", "ada"), **fields)
        self.office.current.settings = replace(self.office.current.settings, targets={ADA: target})


def play(directory: Path, story: Story, channels: tuple[str, ...] = ("channel",), window: int = 0) -> None:
    """An office with one agent whose mail is collected for `window` seconds, for the length of a story."""
    home = {"adapter": "memory", "tmuxSession": "ada", "coalesceWindow": window}

    async def told() -> None:
        async with Office(
            directory,
            ["@me", ADA, REST],
            carried={"heartbeat": HeartbeatAdapter},
            channels=channels,
            start=int(time.time() * 1000),
        ) as office:
            office.subscribe(ADA, pane="ada", harnessTargetMetadata=home)
            await office.reads()
            await story(Desk(office))

    asyncio.run(told())


async def turns(count: int) -> None:
    """So many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def assert_held(delivery: Delivery, reason: HoldReason) -> None:
    assert delivery.state is DeliveryState.DISPATCHED, delivery
    assert delivery.hold is not None
    assert delivery.hold.reason is reason, delivery.hold


def test_who_can_be_woken_natively_is_and_no_screen_is_looked_at(tmp_path: Path) -> None:
    """Presence is then proof: one look, no composer; and nothing had to be configured for it."""

    async def story(desk: Desk) -> None:
        desk.send()
        done = await desk.wakes()

        assert (done.state, done.outcome, done.proof) == (
            DeliveryState.DELIVERED,
            Outcome.SUBMITTED,
            Proof.ACKNOWLEDGED,
        )
        assert done.adapter == "channel"
        assert desk.line.agent.received == [done.digest]
        assert not desk.looks

    play(tmp_path, story)


@pytest.mark.parametrize(("lasts", "asked_again"), [(JUST_FOUND, []), (JUST_FOUND + 1, ["memory"])])
def test_once_a_route_leads_nowhere_the_others_are_found_at_one_moment(
    tmp_path: Path, lasts: int, asked_again: list[str]
) -> None:
    """Adapters that ask for one pane then share one listing; a place that had to wait for another's answer is found anew."""
    channels = ("channel", "second", "third")

    async def story(desk: Desk) -> None:
        asked: list[str] = []
        answered: list[str] = []
        is_pane_told = asyncio.Event()

        def listened_to(name: str, adapter: Any) -> None:
            ask = adapter.resolve

            async def resolve(address: Address) -> Any:
                asked.append(name)
                await turns(3)
                answered.append(f"{name} after {len(asked)}")
                answer = await ask(address)
                if name == "memory":
                    is_pane_told.set()
                return answer

            adapter.resolve = resolve

        for name, adapter in (*desk.office.channels.items(), ("memory", desk.office.adapter)):
            listened_to(name, adapter)
        seeing = desk.office.channels["third"].resolve

        async def slow(address: Address) -> Any:
            answer = await seeing(address)
            await is_pane_told.wait()
            # its answer is noted within a few turns of the loop
            await turns(50)
            desk.office.clock.turn(lasts)
            return answer

        desk.office.channels["third"].resolve = slow  # type: ignore[method-assign]
        for one in channels:
            desk.office.line(ADA, "ada natively", one).is_open = False
        looks, seeing_pane = [], desk.office.adapter.observe

        async def observe(place: Place, address: Address) -> Observation:
            looks.append([*asked])
            return await seeing_pane(place, address)

        desk.office.adapter.observe = observe  # type: ignore[method-assign]
        desk.send()
        await desk.wakes()

        assert looks[0] == [*channels, "memory", *asked_again]
        assert answered[:4] == ["channel after 1", "second after 4", "third after 4", "memory after 4"]

    play(tmp_path, story, channels)


def test_a_route_that_hangs_does_not_keep_a_wake_from_one_that_stands_before_it(tmp_path: Path) -> None:
    """It is asked at the same moment as the one that is used, and never answers."""

    async def story(desk: Desk) -> None:
        async def hangs(address: Address) -> Any:
            del address
            await asyncio.Event().wait()

        desk.office.channels["third"].resolve = hangs  # type: ignore[method-assign]
        desk.line.is_open = False
        second = desk.office.line(ADA, "ada natively", "second")
        desk.send()
        async with asyncio.timeout(5):
            await desk.wakes()

        assert len(second.agent.received) == 1
        assert desk.pane.received == []

    play(tmp_path, story, ("channel", "second", "third"))


def test_a_draft_in_the_pane_does_not_keep_a_native_wake_back(tmp_path: Path) -> None:
    """`userTyping` blocks only screen channels; the draft stands as it was."""

    async def story(desk: Desk) -> None:
        desk.pane.composer = "half a thought"
        desk.send()

        assert (await desk.wakes()).adapter == "channel"
        assert desk.pane.composer == "half a thought"

    play(tmp_path, story)


def test_without_its_line_the_agent_is_woken_in_its_pane(tmp_path: Path) -> None:
    """No socket, no session: the next route, through the full gate with its two looks."""

    async def story(desk: Desk) -> None:
        desk.line.is_open = False
        desk.send()
        done = await desk.wakes()

        assert (done.adapter, desk.received) == ("memory", [done.digest])
        assert len(desk.looks) == 2

    play(tmp_path, story)


@pytest.mark.parametrize("state", [PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL])
def test_a_pane_that_looks_idle_is_not_typed_into_while_its_agent_says_it_is_busy(
    tmp_path: Path, state: PresenceState
) -> None:
    """A running turn or a dialog holds on every route."""

    async def story(desk: Desk) -> None:
        desk.line.agent.state = state
        desk.send()

        assert_held(await desk.wakes(), HoldReason(state.value))
        for _ in range(5):
            assert_held(await desk.later(60), HoldReason(state.value))
        assert not desk.received
        assert not desk.looks

        desk.line.agent.state = PresenceState.IDLE
        assert (await desk.later(60)).adapter == "channel"

    play(tmp_path, story)


def test_what_is_only_seen_natively_is_woken_in_its_pane_by_the_panes_own_vetoes(tmp_path: Path) -> None:
    """What can say that the agent is idle and cannot wake it leaves the rest to the next route."""

    async def story(desk: Desk) -> None:
        desk.line.only_seen = True
        desk.pane.composer = "half a thought"
        desk.send()

        assert_held(await desk.wakes(), HoldReason.USER_TYPING)
        desk.pane.composer = ""
        await desk.later(60)
        done = await desk.later(60)
        assert (done.adapter, desk.received) == ("memory", [done.digest])

    play(tmp_path, story)


def test_what_a_line_gives_back_unsent_takes_the_next_route_at_once(tmp_path: Path) -> None:
    """Refused before sending falls to the next through the full gate; the refused submit costs no rest."""

    async def story(desk: Desk) -> None:
        desk.line.answers = "refuses"
        desk.send()
        done = await desk.wakes()

        assert (done.adapter, done.attempts) == ("memory", 0)
        assert desk.received == [done.digest]
        assert desk.line.sends == 1, "it is not offered again at the second look that the pane needs"
        assert not desk.office.ledger.degraded(ADA)
        submits = [one for one in desk.steps if one in {Step.INTENT_SUBMIT, Step.REFUSED, Step.INTENT_STAGE}]
        assert submits == [Step.INTENT_SUBMIT, Step.REFUSED, Step.INTENT_STAGE, Step.INTENT_SUBMIT]

    play(tmp_path, story)


def test_a_line_that_fails_is_set_aside_and_no_wake_is_counted_against(tmp_path: Path) -> None:
    """Degraded falls to the next; its failures do not use up `max_attempts`."""

    async def story(desk: Desk) -> None:
        desk.line.answers = "fails"
        desk.send()
        done = await desk.wakes()

        assert (done.adapter, done.attempts, done.outcome) == ("memory", 0, Outcome.SUBMITTED)
        assert desk.received == [done.digest]
        assert desk.line.sends == 1, "a route that is set aside is not tried at every look"
        assert desk.office.ledger.degraded(ADA) == {"channel": "the line broke before anything was sent"}

        desk.send("again")
        again = await desk.wakes()
        assert (again.adapter, desk.line.sends) == ("memory", 1)

    play(tmp_path, story)


def test_a_route_that_is_set_aside_is_asked_with_growing_patience_and_taken_back_when_it_answers(
    tmp_path: Path,
) -> None:
    """The way back."""

    async def story(desk: Desk) -> None:
        office = desk.office
        desk.line.answers = "fails"
        desk.send()
        await desk.wakes()
        desk.line.is_open = False
        settings = office.current.settings
        asked: list[int] = []
        resolving = office.channels["channel"].resolve

        async def resolve(address: Address) -> Any:
            asked.append(office.clock.now())
            return await resolving(address)

        office.channels["channel"].resolve = resolve  # type: ignore[method-assign]
        for _ in range(300):
            office.clock.turn(1000)
            await office.recovery.tick()
        gaps = [later - earlier for earlier, later in pairwise(asked)]
        assert gaps[:3] == sorted(gaps[:3])
        assert gaps[0] < gaps[-1] == settings.relook_max_ms
        assert office.ledger.degraded(ADA)

        desk.line.is_open, desk.line.answers = True, "takes it"
        office.clock.turn(settings.relook_max_ms)
        await office.recovery.tick()
        assert not office.ledger.degraded(ADA)
        desk.send("again")
        assert (await desk.wakes()).adapter == "channel"

    play(tmp_path, story)


def test_what_was_set_aside_before_a_restart_is_asked_at_once(tmp_path: Path) -> None:
    """Also at the daemon's start."""

    async def story(desk: Desk) -> None:
        desk.line.answers = "fails"
        desk.send()
        await desk.wakes()
        desk.line.answers = "takes it"
        await desk.office.restarts()

        await desk.office.recovery.tick()

        assert not desk.office.ledger.degraded(ADA)

    play(tmp_path, story)


def test_nothing_is_asked_while_no_route_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs an idle daemon something is done for a reason."""
    monkeypatch.setattr(route_recovery, "ROUND", 0)

    async def story(desk: Desk) -> None:
        rounds: list[int] = []
        looking = desk.office.ledger.degraded_routes

        def degraded_routes() -> list[DegradedRoute]:
            rounds.append(desk.office.clock.now())
            return looking()

        monkeypatch.setattr(desk.office.ledger, "degraded_routes", degraded_routes)
        asking = asyncio.create_task(desk.office.recovery.run())
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(rounds) == 1

        desk.line.answers = "fails"
        desk.send()
        await desk.wakes()
        assert desk.office.ledger.degraded(ADA)
        desk.line.answers = "takes it"
        while desk.office.ledger.degraded(ADA):
            desk.office.clock.turn(desk.office.current.settings.relook_max_ms)
            await asyncio.sleep(0)
        asking.cancel()

    play(tmp_path, story)


def test_an_adapter_that_is_not_there_any_more_is_forgotten(tmp_path: Path) -> None:
    """What is not installed cannot be set aside."""

    async def story(desk: Desk) -> None:
        desk.office.ledger.degrade(ADA, "pigeon", "the bird is lost", desk.office.clock.now())
        await desk.office.recovery.tick()
        assert not desk.office.ledger.degraded(ADA)

    play(tmp_path, story)


def test_the_only_route_there_is_fails_by_the_count(tmp_path: Path) -> None:
    """Without another route `max_attempts` ends what keeps failing, and a person is told."""

    async def story(desk: Desk) -> None:
        desk.allow(adapter="channel", pane="")
        desk.line.answers = "fails"
        desk.send()
        await desk.wakes()
        for _ in range(10):
            await desk.later(60)

        assert (desk.delivery.outcome, desk.delivery.attempts) == (Outcome.FAILED, 5)
        assert not desk.office.ledger.degraded(ADA)

    play(tmp_path, story)


def test_nothing_falls_back_once_bytes_may_have_been_accepted(tmp_path: Path) -> None:
    """A failed push never licenses typing for the same delivery; what came in is found by its echo."""

    async def story(desk: Desk) -> None:
        desk.line.answers = "takes it and falls silent"
        desk.send()
        held = await desk.wakes()

        assert held.state is DeliveryState.LOCKED
        assert held.hold is not None
        assert (held.hold.reason, held.adapter) == (HoldReason.UNKNOWN, "channel")
        assert held.hold.detail.startswith("it may have been sent")
        assert not desk.pane.received

        done = await desk.later(60)
        assert (done.outcome, done.proof, done.adapter) == (Outcome.SUBMITTED, Proof.ACKNOWLEDGED, "channel")
        assert desk.received == [done.digest]

    play(tmp_path, story)


def test_what_the_agents_own_record_proves_absent_is_given_another_way(tmp_path: Path) -> None:
    """Only that proof takes an intent back after the fact; then it goes out once."""

    async def story(desk: Desk) -> None:
        desk.line.answers = "falls silent"
        desk.send()
        assert (await desk.wakes()).state is DeliveryState.LOCKED
        desk.line.answers = "refuses"
        await desk.later(60)
        done = await desk.later(60)

        assert Step.ABSENT in desk.steps
        assert (done.outcome, done.adapter) == (Outcome.SUBMITTED, "memory")
        assert desk.received == [done.digest]

    play(tmp_path, story)


def test_what_may_have_been_sent_over_a_line_that_is_gone_ends_unknown_and_is_never_typed(tmp_path: Path) -> None:
    """What cannot be known is reported as unknown; the pane is idle all the while."""

    async def story(desk: Desk) -> None:
        desk.line.answers = "falls silent"
        desk.send()
        await desk.wakes()
        desk.line.is_open = False
        for _ in range(6):
            await desk.later(60)

        assert desk.delivery.outcome is Outcome.UNKNOWN
        assert not desk.received

    play(tmp_path, story)


def test_an_agent_that_has_ended_since_is_still_asked_for_what_it_was_sent(tmp_path: Path) -> None:
    """Its end may prove that the wake never came in: then another route takes it, instead of an end as `unknown`."""

    async def story(desk: Desk) -> None:
        channel = desk.office.channels["channel"]
        resolving, looked = channel.resolve, list[Place]()

        async def resolve(address: Address) -> Any:
            found = await resolving(address)
            return replace(found, fence=FENCE) if isinstance(found, Place) else found

        async def deliver(place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
            del address
            if wake.progress is Progress.UNTOUCHED:
                await journal(Step.INTENT_SUBMIT, {})
                desk.line.is_open = False
                return Failed(retryable=True, reason="the agent was killed")
            looked.append(place)
            await journal(Step.ABSENT, {"why": "its process has ended without it"})
            return Refused(HoldReason.UNREACHABLE, "it never came in")

        channel.resolve, channel.deliver = resolve, deliver  # type: ignore[method-assign]
        desk.send()
        assert (await desk.wakes()).state is DeliveryState.LOCKED
        await desk.later(60)
        done = await desk.later(60)

        assert [(one.key, one.fence) for one in looked] == [(f"channel:{ADA}", FENCE)]
        assert (done.adapter, done.outcome, desk.received) == ("memory", Outcome.SUBMITTED, [done.digest])

    play(tmp_path, story)


def test_text_that_stands_in_a_pane_is_submitted_there_though_a_line_has_opened(tmp_path: Path) -> None:
    """Resume goes on with the adapter that began; another would find no trace and send it again."""

    async def story(desk: Desk) -> None:
        office = desk.office
        desk.line.is_open = False
        delivering = office.adapter.deliver

        async def stages_only(place: Place, address: Address, wake: Any, journal: Any) -> Any:
            desk.pane.state = PresenceState.ACTIVE
            await journal(Step.INTENT_STAGE, {})
            desk.pane.composer = wake.text
            await journal(Step.STAGED, {})
            return await delivering(place, address, wake, journal)

        office.adapter.deliver = stages_only  # type: ignore[method-assign]
        desk.send()
        assert (await desk.wakes()).state is DeliveryState.LOCKED
        office.adapter.deliver = delivering  # type: ignore[method-assign]
        desk.pane.state, desk.line.is_open = PresenceState.IDLE, True

        done = await desk.later(60)

        assert (done.outcome, done.adapter) == (Outcome.SUBMITTED, "memory")
        assert (desk.pane.received, desk.line.agent.received) == ([done.digest], [])

    play(tmp_path, story)


def test_what_another_program_began_and_no_adapter_knows_is_never_sent_again(tmp_path: Path) -> None:
    """An adapter that is gone leaves what it may have submitted `unknown`."""

    async def story(desk: Desk) -> None:
        office = desk.office
        desk.line.agent.state = PresenceState.ACTIVE
        desk.send()
        held = await desk.wakes()
        locked = office.ledger.lock(
            held,
            Lock(
                digest="a block",
                events=[one.id for one in office.ledger.events_of(held.id)],
                adapter="pigeon",
                where="a loft",
                pane_key="pigeon:1",
                until=office.clock.now(),
            ),
            office.clock.now(),
        )
        office.ledger.append(locked, Step.INTENT_SUBMIT, {}, office.clock.now())
        desk.line.agent.state = PresenceState.IDLE
        for _ in range(6):
            await desk.later(60)

        assert desk.delivery.outcome is Outcome.UNKNOWN
        assert not desk.received

    play(tmp_path, story)


def test_a_running_turn_is_added_to_only_where_the_target_says_steer(tmp_path: Path) -> None:
    """By default hold until the turn ends; `[targets].steer = true` adds to it by its id."""

    async def story(desk: Desk) -> None:
        desk.line.agent.state = PresenceState.ACTIVE
        desk.send()
        assert_held(await desk.wakes(), HoldReason.ACTIVE)

        desk.allow(steer=True)
        done = await desk.later(60)

        assert (done.outcome, desk.received) == (Outcome.SUBMITTED, [done.digest])
        (settled,) = [one for one in desk.office.ledger.journal_of(done.id) if one.step is Step.SETTLED]
        assert settled.detail["turn"] == "turn-1"

    play(tmp_path, story)


def test_a_conversation_that_nobody_has_open_is_begun_only_with_authority(tmp_path: Path) -> None:
    """`[targets].may_start_thread` is the explicit authority of the seed."""

    async def story(desk: Desk) -> None:
        desk.line.is_loaded = False
        del desk.office.adapter.agents["ada"]
        desk.send()
        assert_held(await desk.wakes(), HoldReason.NOT_LOADED)

        desk.allow(may_start_thread=True)
        done = await desk.later(60)
        assert (done.adapter, desk.line.agent.received) == ("channel", [done.digest])

    play(tmp_path, story)


def test_a_conversation_that_nobody_has_open_leaves_the_wake_to_the_pane(tmp_path: Path) -> None:
    """Not loaded, without authority: the next route."""

    async def story(desk: Desk) -> None:
        desk.line.is_loaded = False
        desk.send()
        done = await desk.wakes()
        assert (done.adapter, desk.pane.received) == ("memory", [done.digest])

    play(tmp_path, story)


def test_a_target_that_names_a_native_adapter_has_no_other_route(tmp_path: Path) -> None:
    """`[targets].adapter`: it wins; then nothing is typed, whatever the screen shows."""

    async def story(desk: Desk) -> None:
        desk.allow(adapter="channel", pane="")
        desk.line.is_open = False
        desk.send()

        assert_held(await desk.wakes(), HoldReason.UNREACHABLE)
        assert [one.adapter for one in desk.office.routes.of(ADA)] == ["channel"]
        assert not desk.received

    play(tmp_path, story)


def test_native_channels_are_asked_in_one_order_and_the_first_that_leads_somewhere_serves(tmp_path: Path) -> None:
    """One driver; whoever has no session in one channel is looked for in the next."""

    async def story(desk: Desk) -> None:
        desk.line.is_open = False
        other = desk.office.line(ADA, "ada elsewhere", "another")
        assert [one.adapter for one in desk.office.routes.of(ADA)] == ["another", "channel", "memory"]
        desk.send()
        assert ((await desk.wakes()).adapter, len(other.agent.received)) == ("another", 1)

    play(tmp_path, story, ("channel", "another"))


def test_whoever_is_left_to_the_heartbeat_has_no_native_route(tmp_path: Path) -> None:
    """`disabled | none | degraded`, so only the heartbeat announces it."""

    async def story(desk: Desk) -> None:
        office = desk.office
        office.subscribe(REST, "disabled", pane="rest")
        line = office.line(REST, "rest natively")
        await office.reads()
        assert [one.adapter for one in office.routes.of(REST)] == ["heartbeat"]

        office.core.send("@me", REST, "for the heartbeat")
        await office.reads()
        await office.heartbeat.tick(office.clock.now())
        await office.works()

        assert len(office.agent("rest").received) == 1
        assert line.sends == 0

    play(tmp_path, story)


def test_native_and_screen_wakes_of_one_agent_share_its_rest(tmp_path: Path) -> None:
    """Limits are the agent's, whichever door was used."""

    async def story(desk: Desk) -> None:
        desk.send()
        assert (await desk.wakes()).adapter == "channel"
        desk.line.is_open = False
        desk.send("at once again")

        assert_held(await desk.wakes(), HoldReason.REFRACTORY)

    play(tmp_path, story, window=1)


def test_of_two_drivers_that_race_for_one_delivery_one_delivers(tmp_path: Path) -> None:
    """Hook, native and screen race by the lease; whoever takes it first delivers."""

    async def story(desk: Desk) -> None:
        office = desk.office
        rival = Gate(
            office.ledger,
            office.queries,
            office.routes,
            office.watch,
            office.recovery,
            office.current,
            office.clock,
            other_driver=lambda: None,
        )
        for number in range(10):
            desk.send(f"race {number}")
            await office.reads()
            office.ledger.gather(office.clock.now(), iter([f"01RACE{number:020}"]).__next__)
            office.clock.turn(120 * 1000)
            (due,) = office.ledger.due(office.clock.now())

            async def drive(gate: Gate, due: Delivery = due) -> None:
                with suppress(StaleLease):
                    await gate.take(due, patient=False)

            await asyncio.gather(drive(office.gate), drive(rival))
            assert desk.delivery.outcome is Outcome.SUBMITTED
        assert len(desk.received) == len(set(desk.received)) == 10

    play(tmp_path, story)


def test_a_dry_run_tries_no_route(tmp_path: Path) -> None:
    """`run --dry-run`: decides and logs, types nothing."""

    async def story(desk: Desk) -> None:
        office = desk.office
        office.gate = Gate(
            office.ledger,
            office.queries,
            office.routes,
            office.watch,
            office.recovery,
            office.current,
            office.clock,
            other_driver=lambda: None,
            dry_run=True,
        )
        desk.send()
        assert_held(await desk.wakes(), HoldReason.DRY_RUN)
        assert not desk.received
        assert desk.line.sends == 0

    play(tmp_path, story)
