"""A remedy that says "nothing to do" is taken literally: nothing is done, and the hold ends by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Outcome, Proof, Step
from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.names import AttentionKind, Identity, Instant
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.engine.settings import EngineSettings
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Delivered,
    Failed,
    Journal,
    Place,
    Refused,
    Wake,
)
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.memory_adapter import MemoryAdapter, MemoryConfig
from wake_bridge.testing.office import MOMENT, Office
from wake_bridge.testing.turned_clock import live

ADA: Final = Identity("@ada")
START: Final = 1_800_000_000_000 - 1_800_000_000_000 % 86_400_000 + 3 * 3_600_000
"""Three in the morning, UTC."""

LONGEST: Final = 20 * 60_000
"""Milliseconds within which what ends by itself must have ended here."""


class Died(BaseException):
    """The daemon is gone in the middle of what it does."""


class Scripted(MemoryAdapter):
    """The imagined agent; the next looks and attempts are as a test says."""

    def __init__(self, office: Office) -> None:
        super().__init__(MemoryConfig(), AdapterContext(10, 10, "", {}, office.clock))
        self.agents = office.adapter.agents
        self.looks: list[tuple[Evidence, int]] = []
        self.attempts: list[Callable[[Journal], Awaitable[AttemptOutcome]]] = []
        self._office = office

    async def observe(self, place: Place, address: Address) -> Observation:
        """What the test says, so many milliseconds old; then the agent as it is."""
        if not self.looks:
            return await super().observe(place, address)
        evidence, age = self.looks.pop(0)
        return Observation(Instant(self._office.clock.now() - age), (evidence,), fingerprint="", where=place.label)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """What the test says; then one that goes well."""
        if not self.attempts:
            return await super().deliver(place, address, wake, journal)
        return await self.attempts.pop(0)(journal)


@dataclass
class Scene:
    """One identity, its mail, and what stands in the way."""

    office: Office
    script: Scripted
    sent: list[str] = field(default_factory=list)
    moment: int = MOMENT

    def mail(self, to: str = ADA) -> None:
        """Another message."""
        now = datetime.fromtimestamp(self.office.clock.wall() / 1000, UTC).isoformat()
        self.sent.append(self.office.core.send("@me", to, f"mail {len(self.sent)}", sentAt=now))

    async def works(self) -> Delivery:
        """Let what is due be taken on once; the newest delivery."""
        office = self.office
        await office.reads()
        office.ledger.gather(office.clock.now(), new_ulid)
        office.clock.turn(self.moment)
        for delivery in office.ledger.due(office.clock.now()):
            fresh = office.ledger.delivery(delivery.id)
            if fresh is not None and not fresh.state.is_terminal:
                await office.gate.take(fresh, patient=False)
        return office.deliveries(ADA)[-1]

    async def until_told(self) -> Delivery:
        """Let time pass until the newest delivery has ended."""
        for _ in range(60):
            if (delivery := await self.works()).state.is_terminal:
                return delivery
        raise AssertionError(f"it still waits: {delivery.hold}")


Put = Callable[[Scene], Awaitable[None]]


def _sees(rule: str, vote: PresenceState, cause: Cause = Cause.OTHER, *, age: int = 0) -> Put:
    async def put(scene: Scene) -> None:
        scene.script.looks = [(Evidence(rule, vote, region="composer", cause=cause), age)] * 2
        scene.mail()

    return put


def _answers(outcome: AttemptOutcome, *steps: Step) -> Put:
    async def put(scene: Scene) -> None:
        async def attempt(journal: Journal) -> AttemptOutcome:
            for step in steps:
                await journal(step, {})
            return outcome

        async def goes_well(journal: Journal) -> AttemptOutcome:
            await journal(Step.SUBMITTED, {})
            return Delivered(Proof.SUBMITTED)

        scene.script.attempts = [attempt, goes_well]
        scene.mail()

    return put


async def _busy(scene: Scene) -> None:
    """The agent works for a minute."""
    scene.script.looks = [(Evidence("turn", PresenceState.ACTIVE, region="bottom"), 0)] * 3
    scene.mail()


async def _just_woken(scene: Scene) -> None:
    scene.mail()
    first = await scene.until_told()
    assert first.outcome is Outcome.SUBMITTED
    scene.mail()


async def _woken_too_often(scene: Scene) -> None:
    scene.office.current.settings = EngineSettings(
        default_adapter="memory", limits=Limits(refractory=0, storm=1, storm_period=240)
    )
    await _just_woken(scene)


async def _at_night(scene: Scene) -> None:
    scene.office.current.settings = EngineSettings(
        default_adapter="memory", quiet_hours=QuietHours.parse("22:00-03:10")
    )
    scene.mail()


async def _whose_audience_is_late(scene: Scene) -> None:
    """A broadcast whose recipients may still be written joins what waits; the rest of that is read."""
    await _busy(scene)
    await scene.works()
    scene.moment = 0
    scene.mail(to="AGENT:*")
    await scene.office.reads()
    scene.office.core.mark_read(scene.sent[0])
    scene.office.ledger.gather(scene.office.clock.now(), new_ulid)
    scene.office.ledger.look_at_once(ADA, scene.office.clock.now())
    scene.script.looks = []


def _window(scene: Scene, subscription: str, seconds: int) -> None:
    properties = scene.office.core.properties(subscription)
    metadata = {**properties["harnessTargetMetadata"], "coalesceWindow": seconds}
    scene.office.core.put(subscription, "WAKE_SUBSCRIPTION", {**properties, "harnessTargetMetadata": metadata})


async def _stopped_on_the_way(scene: Scene) -> None:
    """The daemon dies when the digest is locked and nothing typed yet."""

    async def dies(_: Journal) -> AttemptOutcome:
        raise Died

    scene.script.attempts = [dies]
    scene.mail()
    with pytest.raises(Died):
        await scene.until_told()
    await scene.office.restarts()


async def _no_more_than_mail(scene: Scene) -> None:
    scene.mail()


async def _set_aside(scene: Scene) -> None:
    await scene.office.reads()
    scene.office.ledger.degrade(ADA, "memory", "the line was closed", scene.office.clock.now())
    scene.mail()


def _at_limit(says: str) -> Put:
    async def put(scene: Scene) -> None:
        agent = scene.office.agent("ada")
        agent.sign, agent.says = AttentionKind.LIMITED, says
        scene.mail()

    return put


async def _failed_at_once(scene: Scene) -> None:
    office, agent = scene.office, scene.office.agent("ada")
    agent.turns_fail = AttentionKind.FAILED
    scene.mail()
    await scene.until_told()
    await office.watch.round()
    office.episodes.look(office.clock.now())
    await office.failed_turns.look(office.clock.now())
    agent.turns_fail = agent.sign = None


WAITED: Final[dict[Cause, Put]] = {
    Cause.LIMITED: _at_limit("resets in 1m"),
    Cause.LIMIT_UNTIMED: _at_limit(""),
    Cause.TURN_FAILED: _failed_at_once,
    Cause.ACTIVE: _busy,
    Cause.STARTING: _sees("starting", PresenceState.UNKNOWN),
    Cause.MOVING: _sees("moving", PresenceState.ACTIVE),
    Cause.EMPTY_SCREEN: _sees("no-composer", PresenceState.UNKNOWN, Cause.EMPTY_SCREEN),
    Cause.MAYBE_SENT: _answers(
        Refused(HoldReason.UNREACHABLE, "the scrollback cannot be read", "ada"),
        Step.INTENT_SUBMIT,
    ),
    Cause.OLD_LOOK: _sees("imagined", PresenceState.IDLE, age=60_000),
    Cause.ONE_LOOK: _no_more_than_mail,
    Cause.TAKEN_UP_AGAIN: _stopped_on_the_way,
    Cause.NOT_YET_SHOWN: _answers(
        Refused(HoldReason.STAGED, "worded in any way", "ada", Cause.NOT_YET_SHOWN), Step.INTENT_STAGE
    ),
    Cause.WINDOW: _whose_audience_is_late,
    Cause.BUSY_PANE: _answers(Refused(HoldReason.BUSY_PANE, "another writer has the pane", "ada")),
    Cause.REFRACTORY: _just_woken,
    Cause.STORM: _woken_too_often,
    Cause.QUIET_HOURS: _at_night,
    Cause.ADAPTER_FAILED: _answers(Failed(retryable=True, reason="tmux exited with 1")),
    Cause.ALL_DEGRADED: _set_aside,
}
"""What is put in the way, by the cause that is met then."""


@pytest.mark.parametrize("cause", list(WAITED))
def test_what_needs_nothing_to_be_done_ends_by_itself(tmp_path: Path, cause: Cause) -> None:
    """Where it says "nothing to do", time passes, nobody acts, and the wake is submitted once."""
    office = Office(tmp_path, [ADA, "@me"], start=START)
    script = Scripted(office)
    office.adapters["memory"] = script

    async def story() -> None:
        async with office:
            scene = Scene(office, script)
            subscription = office.subscribe(ADA, pane="ada")
            if cause is Cause.REFRACTORY:
                _window(scene, subscription, 1)
            await office.reads()
            await WAITED[cause](scene)
            held = await _held_by(scene, cause)
            assert held.hold is not None
            remedy = held.hold.remedy(ADA)
            assert remedy.startswith("nothing to do"), remedy
            done = await _left_alone(scene)
            assert (done.id, done.outcome) == (held.id, Outcome.SUBMITTED), done

    live(office.clock, story())


def test_a_wake_whose_adapter_was_taken_away_goes_on_once_that_is_enabled_again(tmp_path: Path) -> None:
    """Another adapter would find no trace of its text and send it again; the remedy, taken literally, ends the hold."""
    office = Office(tmp_path, [ADA, "@me"], start=START)
    script = Scripted(office)
    office.adapters["memory"] = script

    async def dies_once_staged(journal: Journal) -> AttemptOutcome:
        await journal(Step.INTENT_STAGE, {})
        raise Died

    async def goes_well(journal: Journal) -> AttemptOutcome:
        await journal(Step.INTENT_SUBMIT, {})
        await journal(Step.SUBMITTED, {})
        return Delivered(Proof.SUBMITTED)

    async def story() -> None:
        async with office:
            scene = Scene(office, script)
            office.subscribe(ADA, pane="ada")
            await office.reads()
            script.attempts = [dies_once_staged, goes_well]
            scene.mail()
            with pytest.raises(Died):
                await scene.until_told()
            del office.adapters["memory"]
            await office.restarts()
            held = await _held_by(scene, Cause.LEFT_BY_ADAPTER)
            assert held.hold is not None
            assert "enable it again and restart the daemon (no_adapter: begun by memory" in held.hold.remedy(ADA)
            office.adapters["memory"] = script
            await office.restarts()
            done = await _left_alone(scene)
            assert (done.id, done.outcome) == (held.id, Outcome.SUBMITTED), done

    live(office.clock, story())


async def _held_by(scene: Scene, cause: Cause) -> Delivery:
    """The delivery, as soon as it is held like that."""
    for _ in range(60):
        delivery = await scene.works()
        if delivery.hold is not None and delivery.hold.cause is cause:
            return delivery
        assert not delivery.state.is_terminal, delivery
        scene.office.clock.turn(1_000)
    raise AssertionError(f"never held by {cause}: {delivery.hold}")


async def _left_alone(scene: Scene) -> Delivery:
    """Let time pass, and do nothing."""
    began = scene.office.clock.now()
    while scene.office.clock.now() - began < LONGEST:
        scene.office.clock.turn(1_000)
        await scene.office.recovery.tick()
        delivery = await scene.works()
        if delivery.state.is_terminal:
            return delivery
    raise AssertionError(f"it still waits: {delivery.hold}")
