"""The contract suite of native adapters: channels past the composer, into a harness's own control plane.

    from wake_bridge.testing.channel_contract import CHANNEL_PROMISES

    @pytest.mark.parametrize("promise", CHANNEL_PROMISES, ids=lambda promise: promise.__name__)
    def test_the_channel_keeps(promise, stage):
        asyncio.run(promise(stage))

`stage` is yours: a `ChannelStage` around one place with one agent in it. What has a composer keeps
`wake_bridge.testing.adapter_contract` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, Protocol

from wake_bridge.domain.delivery import Progress, Proof, Step, progress_of
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.ports.adapter import Delivered, Failed, Nowhere, Place, Refused, Unknown, Wake
from wake_bridge.testing.adapter_contract import (
    MARK,
    TEXT,
    AdapterStage,
    NotedJournal,
    PowerCut,
    a_survey_has_a_sign_of_life_for_a_place,
    an_address_leads_to_one_place_and_always_the_same,
    an_address_that_leads_nowhere_says_why,
    looking_sends_nothing,
    what_was_submitted_before_a_crash_is_recognised,
)

ChannelScene = Literal["idle", "busy", "draft", "approval", "gone"]
"""`draft`: idle, and a person has typed half a thought. `gone`: nothing answers any more where the place was."""

_AWAY: Final = (Refused, Failed)


class ChannelStage(AdapterStage, Protocol):
    """A stage on which the agent can also be gone and a person can have typed something.

    `was_touched` counts anything but questions.
    """

    def shows(self, scene: ChannelScene) -> None:
        """Bring the agent into that state and return when it is."""

    def composer(self) -> str:
        """What a person has typed and not sent; empty where the stage plays no composer."""


async def only_an_agent_at_rest_looks_idle(stage: ChannelStage) -> None:
    """A running turn and a dialog are never idle; a draft in the composer is no concern of a control plane."""
    for scene in ("busy", "approval"):
        stage.shows(scene)
        seen = await stage.adapter.observe(await _place(stage), stage.address)
        assert single_vote(seen.evidence).vote not in {PresenceState.IDLE, PresenceState.USER_TYPING}, scene

    stage.shows("idle")
    seen = await stage.adapter.observe(await _place(stage), stage.address)
    assert single_vote(seen.evidence).vote is PresenceState.IDLE


async def a_wake_is_given_once_and_proven(stage: ChannelStage) -> None:
    """Delivered means that the agent was seen to have it."""
    stage.shows("idle")

    outcome = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), NotedJournal(stage))

    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof >= Proof.SUBMITTED
    assert len([text for text in stage.submitted() if MARK in text]) == 1


async def a_draft_is_neither_in_the_way_nor_touched(stage: ChannelStage) -> None:
    """A channel that does not go through the composer may proceed, and leaves it as it is."""
    stage.shows("draft")
    draft = stage.composer()

    outcome = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), NotedJournal(stage))

    assert isinstance(outcome, Delivered), outcome
    assert stage.composer() == draft


async def nothing_goes_out_before_its_intent_is_on_disk(stage: ChannelStage) -> None:
    """The ledger before the first byte; and nothing is staged, for there is no composer."""
    stage.shows("idle")
    journal = NotedJournal(stage)

    await stage.adapter.deliver(await _place(stage), stage.address, _wake(), journal)

    assert journal.steps[0] is Step.INTENT_SUBMIT
    assert not journal.touched_before[Step.INTENT_SUBMIT]
    assert not {Step.INTENT_STAGE, Step.STAGED} & set(journal.steps)


async def a_running_turn_and_a_dialog_are_refused_without_a_byte(stage: ChannelStage) -> None:
    """Hold until the turn ends; a dialog is a person's to answer."""
    for scene in ("busy", "approval"):
        stage.shows(scene)
        journal = NotedJournal(stage)

        outcome = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), journal)

        assert isinstance(outcome, Refused), (scene, outcome)
        assert outcome.detail, scene
        assert progress_of(journal.steps) is Progress.UNTOUCHED, scene
        assert not stage.was_touched(), scene


async def a_journal_that_cannot_write_stops_the_line(stage: ChannelStage) -> None:
    """The port: if the journal raises, nothing more is sent."""
    stage.shows("idle")
    journal = NotedJournal(stage, fails_at=Step.INTENT_SUBMIT)
    try:
        outcome: object = await stage.adapter.deliver(await _place(stage), stage.address, _wake(), journal)
    except PowerCut:
        outcome = None

    assert journal.has_failed
    assert not isinstance(outcome, Delivered)
    assert not stage.was_touched()
    assert not stage.submitted()


async def what_may_have_been_sent_is_only_looked_for(stage: ChannelStage) -> None:
    """After the intent it is uncertain.

    It is `unknown`; or given back, only after `absent` was written down, which takes the agent's own record for a proof; or
    nothing is written down, and it is looked for again.
    """
    stage.shows("idle")
    place = await _place(stage)
    resumed = Wake("delivery", TEXT, MARK, Progress.MAYBE_SUBMITTED, place.fence)
    journal = NotedJournal(stage)

    outcome = await stage.adapter.deliver(place, stage.address, resumed, journal)

    assert isinstance(outcome, Unknown | Refused), outcome
    if isinstance(outcome, Refused) and journal.steps:
        assert progress_of([Step.INTENT_SUBMIT, Step.LOCKED, *journal.steps]) is Progress.UNTOUCHED
    assert not stage.was_touched()


async def a_channel_that_is_gone_gives_the_wake_back(stage: ChannelStage) -> None:
    """What was refused before anything was sent may take the next route; nobody counts it as sent."""
    stage.shows("idle")
    place = await _place(stage)
    stage.shows("gone")
    journal = NotedJournal(stage)

    outcome = await stage.adapter.deliver(place, stage.address, _wake(), journal)

    assert isinstance(outcome, _AWAY), outcome
    assert progress_of(journal.steps) is Progress.UNTOUCHED
    assert isinstance(await stage.adapter.resolve(stage.address), Nowhere)
    await stage.adapter.observe(place, stage.address)
    assert not await stage.adapter.survey([place])


async def a_running_turn_is_added_to_by_its_id(stage: ChannelStage) -> None:
    """Who can steer does it to the turn that was seen, and is otherwise never asked to."""
    if not stage.adapter.capabilities.can_steer:
        return
    stage.shows("busy")
    place = await _place(stage)
    seen = await stage.adapter.observe(place, stage.address)
    assert seen.active_turn_id
    wake = Wake("delivery", TEXT, MARK, turn_id=seen.active_turn_id)

    outcome = await stage.adapter.deliver(place, stage.address, wake, NotedJournal(stage))

    assert isinstance(outcome, Delivered), outcome
    assert len([text for text in stage.submitted() if MARK in text]) == 1


ChannelPromise = Callable[[ChannelStage], Coroutine[Any, Any, None]]

CHANNEL_PROMISES: Final[tuple[ChannelPromise, ...]] = (
    an_address_leads_to_one_place_and_always_the_same,
    an_address_that_leads_nowhere_says_why,
    a_survey_has_a_sign_of_life_for_a_place,
    looking_sends_nothing,
    only_an_agent_at_rest_looks_idle,
    a_wake_is_given_once_and_proven,
    a_draft_is_neither_in_the_way_nor_touched,
    nothing_goes_out_before_its_intent_is_on_disk,
    a_running_turn_and_a_dialog_are_refused_without_a_byte,
    a_journal_that_cannot_write_stops_the_line,
    what_may_have_been_sent_is_only_looked_for,
    what_was_submitted_before_a_crash_is_recognised,
    a_channel_that_is_gone_gives_the_wake_back,
    a_running_turn_is_added_to_by_its_id,
)
"""Every promise; each takes a stage and raises `AssertionError` when it is broken."""


async def _place(stage: ChannelStage) -> Place:
    found = await stage.adapter.resolve(stage.address)
    assert isinstance(found, Place), found
    return found


def _wake() -> Wake:
    return Wake("delivery", TEXT, MARK)
