"""The life of a delivery: states, legal moves, journal steps, holds, outcomes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import Final

# adapters of third parties find the hold reasons here
from wake_bridge.domain.causes import SHOWS_THE_ID, Cause, cause_of
from wake_bridge.domain.causes import HoldReason as HoldReason  # noqa: PLC0414 - said again
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.sessions import HOOK
from wake_bridge.domain.values import dataclass


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "PENDING"
    DISPATCHED = "DISPATCHED"
    LOCKED = "LOCKED"
    ESCALATED = "ESCALATED"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Nothing but the proof level ever changes again."""
        return self in {DeliveryState.DELIVERED, DeliveryState.FAILED}

    @property
    def is_frozen(self) -> bool:
        """The digest stands; no event may join."""
        return self not in {DeliveryState.PENDING, DeliveryState.DISPATCHED}


LEGAL_MOVES: Final = frozenset(
    {
        (DeliveryState.PENDING, DeliveryState.DISPATCHED),
        (DeliveryState.DISPATCHED, DeliveryState.LOCKED),
        (DeliveryState.LOCKED, DeliveryState.DISPATCHED),
        (DeliveryState.LOCKED, DeliveryState.DELIVERED),
        (DeliveryState.LOCKED, DeliveryState.FAILED),
        (DeliveryState.LOCKED, DeliveryState.ESCALATED),
        (DeliveryState.ESCALATED, DeliveryState.DELIVERED),
        (DeliveryState.ESCALATED, DeliveryState.FAILED),
    }
)
"""The eight legal moves; the other 28 pairs are refused."""


class Outcome(StrEnum):
    """How a delivery ended."""

    SUBMITTED = "submitted"
    ACKNOWLEDGED = "acknowledged"
    READ = "read"
    EMPTY = "empty"
    FAILED = "failed"
    UNKNOWN = "unknown"
    ESCALATED = "escalated"


class Proof(IntEnum):
    """How far it was seen to get."""

    NONE = 0
    ACCEPTED = 1
    SUBMITTED = 2
    ACKNOWLEDGED = 3


class Step(StrEnum):
    """What the append-only journal records.

    Those up to `absent` are the attempt; the rest mark the delivery's own moves. A channel without a composer
    writes `absent` when its agent's own record proves that a wake which may have been sent never came in. `called` says that a
    person was asked for, and `stale` that an answer came too late, under a lease that had passed on: it was dropped.
    """

    PROBED = "probed"
    HELD = "held"
    INTENT_STAGE = "intent_stage"
    STAGED = "staged"
    INTENT_SUBMIT = "intent_submit"
    SUBMITTED = "submitted"
    ACKED = "acked"
    REFUSED = "refused"
    ABSENT = "absent"
    SETTLED = "settled"
    OPENED = "opened"
    JOINED = "joined"
    DISPATCHED = "dispatched"
    LOCKED = "locked"
    RELEASED = "released"
    ESCALATED = "escalated"
    CALLED = "called"
    STALE = "stale"


class Progress(StrEnum):
    """How far an attempt can have got, judged from its journal alone."""

    UNTOUCHED = "untouched"
    MAYBE_STAGED = "maybe_staged"
    STAGED = "staged"
    MAYBE_SUBMITTED = "maybe_submitted"
    SUBMITTED = "submitted"


def progress_of(steps: Iterable[Step]) -> Progress:
    """Judge from the journal's steps, oldest first, what can have reached the target.

    A `refused` step takes back the intent right before it (tmux printed that its own condition refused) and nothing
    else: not what was seen to happen, and not an earlier intent that nobody refused. What may have been submitted is
    never taken for less by a text that is staged or seen to stand there, which may only not be drawn yet; an `absent` step, proof from the other end, takes back every intent to
    submit, also across a restart. What goes on from a `released` step begins anew, on whichever route.
    """
    progress = before_submit = Progress.UNTOUCHED
    before_intent: Progress | None = None
    for step in steps:
        before, before_intent = before_intent, None
        match step:
            case Step.INTENT_STAGE:
                before_intent = progress
                if progress not in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
                    progress = Progress.MAYBE_STAGED
            case Step.STAGED if progress not in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
                progress = Progress.STAGED
            case Step.INTENT_SUBMIT if progress is not Progress.SUBMITTED:
                before_intent = progress
                before_submit = before_submit if progress is Progress.MAYBE_SUBMITTED else progress
                progress = Progress.MAYBE_SUBMITTED
            case Step.SUBMITTED:
                progress = Progress.SUBMITTED
            case Step.REFUSED if before is not None:
                progress = before
            case Step.ABSENT if progress is Progress.MAYBE_SUBMITTED:
                progress = before_submit
            case Step.RELEASED:
                progress = before_submit = Progress.UNTOUCHED
            case _:
                pass
    return progress


def progress_in(journal: Iterable[JournalEntry]) -> Progress:
    """The same from a delivery's journal itself, oldest entry first."""
    return progress_of(entry.step for entry in journal)


@dataclass(frozen=True, slots=True)
class Hold:
    """A delivery waits: why, what was seen, what a person can do, when it is looked at again.

    A `cause` that is not said, or is none of the reason's, becomes the reason's general one.
    """

    reason: HoldReason
    detail: str = ""
    where: str = ""
    next_look_at: Instant = EPOCH_START
    cause: Cause = Cause.OTHER

    def __post_init__(self) -> None:
        object.__setattr__(self, "cause", cause_of(self.reason, self.cause))

    def remedy(self, identity: Identity, subscription_id: str = "") -> str:
        """What a person can do about it, one clause; with the ID of the subscription where it is known."""
        words = self.cause.remedy
        if subscription_id:
            words = words.replace(SHOWS_THE_ID, "")
        told = self._spelled(words, identity)
        return told.replace("update ID ", f"update {subscription_id} ") if subscription_id else told

    def told(self, identity: Identity) -> str:
        """What is the matter, and what a person can do about it, one clause."""
        return self._spelled(self.cause.alone, identity)

    def _spelled(self, words: str, identity: Identity) -> str:
        return words.format(
            identity=identity,
            where=self.where or "the pane",
            target=shlex.quote(self.where) if self.where else "PANE",
            detail=self.detail or "it did not say",
        )


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of a delivery's journal."""

    at: Instant
    step: Step
    lease: int
    detail: dict[str, str]


def was_called(journal: Iterable[JournalEntry]) -> bool:
    """Whether somebody passed the wake to a person by `escalate`, before its time was over."""
    return any(entry.step is Step.CALLED for entry in journal)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One digest for one target. `due_at` only ever moves to an earlier instant.

    `ack_within` are the milliseconds in which its agent has to answer, 0 where nobody has to; `ack_by` is the deadline. It counts
    from the creation, and anew from the hand-over. `handed_lease` is the lease that the agent was told, and that its answer
    must name. `escalated_at` is when the responsibility passed to a person.
    """

    id: str
    identity: Identity
    state: DeliveryState
    owner_lease: int
    created_at: Instant
    due_at: Instant
    hold: Hold | None = None
    digest: str = ""
    adapter: str = ""
    where: str = ""
    pane_key: str = ""
    attempts: int = 0
    outcome: Outcome | None = None
    proof: Proof = Proof.NONE
    settled_at: Instant | None = None
    lease_until: Instant | None = None
    ack_within: int = 0
    ack_by: Instant | None = None
    handed_lease: int = 0
    escalated_at: Instant | None = None

    @property
    def awaits_ack(self) -> bool:
        """Whether its agent has the wake and has not answered: it keeps no place, and nobody goes on with it."""
        is_held_so = self.hold is not None and self.hold.reason is HoldReason.AWAITING_ACK
        return self.state is DeliveryState.LOCKED and is_held_so

    @property
    def seen_in(self) -> str:
        """Where a person can look at it; empty for what a hook handed over, whose `where` names the moment in a turn."""
        return "" if self.adapter == HOOK else self.where

    @property
    def is_seen_late(self) -> bool:
        """Whether its outcome was unknown, and it was seen since that it had arrived."""
        return self.outcome is Outcome.UNKNOWN and self.proof >= Proof.SUBMITTED


def held_since(journal: Sequence[JournalEntry]) -> Instant | None:
    """When the hold in force began: the first of the last unbroken run of journal lines with its reason."""
    began: Instant | None = None
    reason = ""
    for entry in journal:
        if entry.step not in {Step.HELD, Step.RELEASED}:
            continue
        if entry.detail.get("reason", "") != reason:
            began, reason = entry.at, entry.detail.get("reason", "")
    return began
