"""The contract suite: what every adapter must keep, run on the bundled ones, on the fake, and on yours.

    from wake_bridge.testing.adapter_contract import PROMISES

    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
    def test_the_adapter_keeps(promise, stage):
        asyncio.run(promise(stage))

`stage` is yours: an `AdapterStage` around one place with one agent in it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from wake_bridge.domain.delivery import Progress, Proof, Step
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import Delivered, HarnessAdapter, Nowhere, Place, Refused, Tracer, Unknown, Wake

Scene = Literal["idle", "busy", "draft", "approval"]

MARK: Final = "01JZ8Q5T3VXKM2N4P6R8SAVCWD"
TEXT: Final = f"[WAKE] 1 event for @agent:\n- 1 new message\nWake: {MARK}"


class AdapterStage(Protocol):
    """One place with one agent, played or real.

    `address` leads to it, `nowhere` to no place at all.
    """

    @property
    def adapter(self) -> HarnessAdapter:
        """The adapter that is examined."""

    @property
    def address(self) -> Address:
        """Leads to the agent."""

    @property
    def nowhere(self) -> Address:
        """Leads to no place."""

    def shows(self, scene: Scene) -> None:
        """Bring the agent into that state and return when it is."""

    def submitted(self) -> list[str]:
        """Every message the agent was given, in order."""

    def was_touched(self) -> bool:
        """Whether anything at all was sent to it since the last `shows`."""


class PowerCut(Exception):
    """What a journal raises that cannot write any more."""


@dataclass(slots=True)
class NotedJournal:
    """A journal in memory that notes, at each step, what the agent had by then: messages submitted, and anything sent at all.

    `fails_at` makes one step raise, as a full disk would.
    """

    stage: AdapterStage
    fails_at: Step | None = None
    has_failed: bool = False
    steps: list[Step] = field(default_factory=list)
    submitted_before: dict[Step, int] = field(default_factory=dict)
    touched_before: dict[Step, bool] = field(default_factory=dict)

    async def __call__(self, step: Step, evidence: Mapping[str, str]) -> None:
        """Note the step."""
        del evidence
        if step is self.fails_at:
            self.has_failed = True
            raise PowerCut(step)
        self.steps.append(step)
        self.submitted_before.setdefault(step, len(self.stage.submitted()))
        self.touched_before.setdefault(step, self.stage.was_touched())


async def an_address_leads_to_one_place_and_always_the_same(stage: AdapterStage) -> None:
    """Exactly one place."""
    stage.shows("idle")
    first = await _place(stage)

    assert (await _place(stage)).key == first.key


async def an_address_that_leads_nowhere_says_why(stage: AdapterStage) -> None:
    """None is a hold with a reason, never a guess."""
    found = await stage.adapter.resolve(stage.nowhere)

    assert isinstance(found, Nowhere)
    assert found.detail


async def a_survey_has_a_sign_of_life_for_a_place(stage: AdapterStage) -> None:
    """Bound places are watched cheaply."""
    stage.shows("idle")
    place = await _place(stage)

    assert place.key in await stage.adapter.survey([place])


async def looking_sends_nothing(stage: AdapterStage) -> None:
    """The port: `observe` sends nothing."""
    stage.shows("idle")
    place = await _place(stage)

    await stage.adapter.observe(place, stage.address)

    assert not stage.was_touched()


async def only_an_idle_agent_looks_idle(stage: AdapterStage) -> None:
    """Idle needs positive proof, any veto wins."""
    for scene in ("busy", "draft", "approval"):
        stage.shows(scene)
        seen = await stage.adapter.observe(await _place(stage), stage.address)
        assert single_vote(seen.evidence).vote is not PresenceState.IDLE, scene

    stage.shows("idle")
    seen = await stage.adapter.observe(await _place(stage), stage.address)
    assert single_vote(seen.evidence).vote is PresenceState.IDLE


async def a_wake_is_submitted_once_and_proven(stage: AdapterStage) -> None:
    """Delivered means that it was seen leaving the composer."""
    stage.shows("idle")
    journal = NotedJournal(stage)

    outcome = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), journal)

    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof >= Proof.SUBMITTED
    assert [text for text in stage.submitted() if MARK in text] == [TEXT]


async def every_intent_is_on_disk_before_its_key(stage: AdapterStage) -> None:
    """The ledger before the key."""
    stage.shows("idle")
    journal = NotedJournal(stage)

    await stage.adapter.deliver(await _place(stage), stage.address, _wake(), journal)

    assert Step.INTENT_SUBMIT in journal.steps
    assert journal.submitted_before[Step.INTENT_SUBMIT] == 0
    if Step.INTENT_STAGE in journal.steps:
        assert journal.steps.index(Step.INTENT_STAGE) < journal.steps.index(Step.INTENT_SUBMIT)


async def an_unsafe_moment_is_refused_without_a_byte(stage: AdapterStage) -> None:
    """Never over a draft, a dialog or a running turn."""
    for scene in ("busy", "draft", "approval"):
        stage.shows(scene)

        outcome = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), NotedJournal(stage))

        assert isinstance(outcome, Refused), (scene, outcome)
        assert outcome.detail, scene
        assert not stage.was_touched(), scene


async def a_journal_that_cannot_write_stops_the_hand(stage: AdapterStage) -> None:
    """The port: if the journal raises, no further key is sent."""
    for step in (Step.INTENT_STAGE, Step.INTENT_SUBMIT):
        stage.shows("idle")
        already = len(stage.submitted())
        journal = NotedJournal(stage, fails_at=step)
        try:
            outcome: object = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), journal)
        except PowerCut:
            outcome = None

        if not journal.has_failed:
            continue  # a step that the adapter never writes, such as staging where there is no composer
        assert not isinstance(outcome, Delivered), step
        assert len(stage.submitted()) == already, step


async def what_may_have_been_submitted_is_never_typed_again(stage: AdapterStage) -> None:
    """A crash after the intent to submit is uncertain: look for the mark, else `unknown`."""
    stage.shows("idle")
    place = await _place(stage)
    resumed = Wake("delivery", TEXT, MARK, Progress.MAYBE_SUBMITTED, place.fence)

    outcome = await stage.adapter.deliver(place, stage.address, resumed, NotedJournal(stage))

    assert isinstance(outcome, Unknown), outcome
    assert not stage.was_touched()


async def what_was_submitted_before_a_crash_is_recognised(stage: AdapterStage) -> None:
    """The mark in the transcript is proof."""
    stage.shows("idle")
    place = await _place(stage)
    await stage.adapter.deliver(place, stage.address, _wake(), NotedJournal(stage))
    resumed = Wake("delivery", TEXT, MARK, Progress.MAYBE_SUBMITTED, place.fence)

    outcome = await stage.adapter.deliver(place, stage.address, resumed, NotedJournal(stage))

    assert isinstance(outcome, Delivered), outcome
    assert len([text for text in stage.submitted() if MARK in text]) == 1


async def a_later_look_tells_whether_it_arrived_and_sends_nothing(stage: AdapterStage) -> None:
    """Decision 11: what is nowhere while the agent rests is absent, beside anything else it cannot be told."""
    adapter = stage.adapter
    if not isinstance(adapter, Tracer):
        return
    stage.shows("idle")
    place = await _place(stage)
    resumed = Wake("delivery", TEXT, MARK, Progress.MAYBE_SUBMITTED, place.fence)
    nowhere = await adapter.trace(place, stage.address, resumed)
    assert (nowhere.proof, nowhere.is_absent) == (Proof.NONE, True), nowhere
    assert not stage.was_touched()

    for scene in ("busy", "approval"):
        stage.shows(scene)
        unsure = await adapter.trace(place, stage.address, resumed)
        assert (unsure.proof, unsure.is_absent) == (Proof.NONE, False), (scene, unsure)
        assert unsure.told, scene
        assert not stage.was_touched(), scene

    stage.shows("idle")
    await adapter.deliver(place, stage.address, _wake(), NotedJournal(stage))
    arrived = await adapter.trace(place, stage.address, resumed)
    assert arrived.proof >= Proof.SUBMITTED, arrived
    assert len([text for text in stage.submitted() if MARK in text]) == 1


async def nothing_is_sent_twice_because_nothing_was_seen(stage: AdapterStage) -> None:
    """The port: what may only be slow to show is neither pasted nor submitted a second time."""
    stage.shows("idle")
    place = await _place(stage)
    journal = NotedJournal(stage, fails_at=Step.INTENT_SUBMIT)
    with suppress(PowerCut):
        await stage.adapter.deliver(place, stage.address, _wake(), journal)
    if Step.INTENT_STAGE not in journal.steps:
        return  # nothing of it ever stands unsent
    already = len(stage.submitted())

    entered = Wake("delivery", TEXT, MARK, Progress.MAYBE_SUBMITTED, place.fence)
    outcome = await stage.adapter.deliver(place, stage.address, entered, NotedJournal(stage))

    assert isinstance(outcome, Refused | Unknown), outcome
    assert len(stage.submitted()) == already

    for progress in (Progress.MAYBE_STAGED, Progress.STAGED):
        stage.shows("idle")
        pasted = Wake("delivery", TEXT, MARK, progress, place.fence)
        outcome = await stage.adapter.deliver(place, stage.address, pasted, NotedJournal(stage))

        assert isinstance(outcome, Refused | Unknown), (progress, outcome)
        assert not stage.was_touched(), progress


Promise = Callable[[AdapterStage], Coroutine[Any, Any, None]]

PROMISES: Final[tuple[Promise, ...]] = (
    an_address_leads_to_one_place_and_always_the_same,
    an_address_that_leads_nowhere_says_why,
    a_survey_has_a_sign_of_life_for_a_place,
    looking_sends_nothing,
    only_an_idle_agent_looks_idle,
    a_wake_is_submitted_once_and_proven,
    every_intent_is_on_disk_before_its_key,
    an_unsafe_moment_is_refused_without_a_byte,
    a_journal_that_cannot_write_stops_the_hand,
    what_may_have_been_submitted_is_never_typed_again,
    what_was_submitted_before_a_crash_is_recognised,
    a_later_look_tells_whether_it_arrived_and_sends_nothing,
    nothing_is_sent_twice_because_nothing_was_seen,
)
"""Every promise; each takes a stage and raises `AssertionError` when it is broken."""


async def _place(stage: AdapterStage) -> Place:
    found = await stage.adapter.resolve(stage.address)
    assert isinstance(found, Place), found
    return found


def _wake() -> Wake:
    return Wake("delivery", TEXT, MARK)
