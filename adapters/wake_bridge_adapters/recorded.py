"""One attempt on a conversation whose harness keeps a record of it: sent once, and then only looked for in that record.

OpenCode and Copilot CLI are woken this way, each by calls of its own; Codex is searched at the same pace, to the same ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final, Protocol

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Proof, Step
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Journal, Refused, Trace, Unknown, Wake
from wake_bridge.ports.clock import Clock

SETTLES: Final = 2.0
"""Seconds a conversation must be at rest without the wake before its living program can have nothing of it any more.

OpenCode 1.18.33 has a message in its record some 10 ms after the answer, Codex some 40 ms; while a turn runs one may wait
unseen for a tool's end.
"""

UNANSWERED_SETTLES: Final = 5.0
"""The same, where the request itself was not answered."""

PATIENCE: Final = 10.0
"""Seconds one search lasts; the delivery stays locked and is searched for again."""

_FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25
"""Seconds between two looks, once the first few have shown nothing."""

UNDECIDED_FOR: Final = 120_000
"""Milliseconds after which what cannot be decided is `unknown`."""


class NotThere(Exception):
    """There is no server to speak to, or none that is known. Nothing was sent."""


class AnswerLost(Exception):
    """No answer came. Whether the server took the request, nobody can tell."""


class Declined(Exception):
    """The server answered that it will not. It did nothing. `status` is the error's number, 0 where it has none."""

    def __init__(self, said: str, status: int = 0) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True)
class Program:
    """One life of a program: its process, and when that began."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class RecordLook:
    """One look into the record. `echo` says where the wake stands in it, empty where nowhere; `program` is who answered.

    `is_at_rest` is the program's own word, given after the wake was sent: a screen rests, too, while nothing is read.
    """

    program: Program
    is_at_rest: bool
    echo: str = ""


class RecordedConversation(Protocol):
    """A conversation behind a door of its harness's own."""

    @property
    def where(self) -> str:
        """What a person calls it."""

    async def look(self, mark: str) -> RecordLook:
        """Look for a wake; the record is read after it was asked whether a turn runs. Raises `NotThere` and `AnswerLost`."""

    async def send(self, text: str, mark: str) -> None:
        """Hand the text over, once. Raises `Declined`, `AnswerLost` where it may have been taken, `NotThere` where not."""


class SearchPace:
    """When one search looks again, when it is over, and how long the conversation has been seen at rest in it.

    Args:
        is_unanswered: the request was sent and the answer never came, so that the program may still be at it.
    """

    def __init__(self, *, is_unanswered: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._settles = UNANSWERED_SETTLES if is_unanswered else SETTLES
        self._rests_since: float | None = None
        self._pause = _FIRST_PAUSE

    def goes_on(self, at_most: float = math.inf) -> bool:
        """Whether to look once more; `at_most` are the seconds of a search that is to be a short one."""
        return self._loop.time() - self._began < min(PATIENCE, at_most)

    def has_settled(self, *, is_at_rest: bool) -> bool:
        """Note one look, and answer whether the conversation has rested long enough for its record to prove anything."""
        self._rests_since = (self._rests_since or self._loop.time()) if is_at_rest else None
        return self._rests_since is not None and self._loop.time() - self._rests_since >= self._settles

    async def pause(self) -> None:
        """Wait for the next look, each time a little longer."""
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class SearchedWake:
    """The wake that a search looks for, and how the search ends.

    Attributes:
        where: what a person calls the conversation.
        since: when a wake was first looked for, by its mark; kept by the adapter from one attempt to the next.
    """

    mark: str
    where: str
    journal: Journal
    clock: Clock
    since: dict[str, int]

    async def found(self, evidence: Mapping[str, str]) -> Delivered:
        """It stands in the record."""
        await self.journal(Step.SUBMITTED, evidence)
        self.forget()
        return Delivered(Proof.ACKNOWLEDGED, evidence)

    async def absent(self, why: str) -> Refused:
        """It never came in, and never will: nothing was sent."""
        await self.journal(Step.ABSENT, {"why": why})
        self.forget()
        return Refused(HoldReason.UNKNOWN, f"taken up again: {why}", self.where, Cause.TAKEN_UP_AGAIN)

    def undecided(self, why: str, meanwhile: HoldReason) -> AttemptOutcome:
        """Left to the next attempt, which `meanwhile` holds; after a while to a person."""
        now = self.clock.now()
        if now - self.since.setdefault(self.mark, now) > UNDECIDED_FOR:
            self.forget()
            return Unknown({"why": why})
        return Refused(meanwhile, why, self.where)

    def forget(self) -> None:
        """Whatever is searched for next begins anew."""
        self.since.pop(self.mark, None)


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One attempt on one conversation; `since` as for `SearchedWake`."""

    conversation: RecordedConversation
    wake: Wake
    journal: Journal
    clock: Clock
    since: dict[str, int]

    async def send(self, to: Program, call: str) -> AttemptOutcome:
        """Hand it over after its intent is on disk; what was declined was not sent."""
        where = self.conversation.where
        await self.journal(Step.INTENT_SUBMIT, {"call": call, "conversation": where})
        is_unanswered = False
        try:
            await self.conversation.send(self.wake.text, self.wake.mark)
        except (Declined, NotThere) as no:
            await self.journal(Step.REFUSED, {"said": str(no)[:200]})
            return Refused(HoldReason.UNREACHABLE, f"its server declined: {no}", where)
        except AnswerLost:
            is_unanswered = True
        return await self.look_for(to, is_unanswered=is_unanswered)

    async def look_for(self, sent_to: Program | None, *, is_unanswered: bool = False) -> AttemptOutcome:
        """Look until it is found or proven absent; after a while leave it to the next attempt, at last to a person.

        Args:
            sent_to: who may have taken it, None where nobody knows any more.
            is_unanswered: the request was sent and the answer never came, so that the program may still be at it.
        """
        pace, searched = SearchPace(is_unanswered=is_unanswered), self._searched
        blind = ""
        while pace.goes_on():
            try:
                look, blind = await self.conversation.look(self.wake.mark), ""
            except (NotThere, AnswerLost, Declined) as nothing:
                look, blind = None, str(nothing)
            if look is not None and look.echo:
                return await searched.found({"echo": self.wake.mark, "in": look.echo})
            if look is not None and sent_to is not None and look.program != sent_to:
                return await searched.absent("its program has ended, and the record has no such message")
            if pace.has_settled(is_at_rest=look is not None and look.is_at_rest):
                return await searched.absent("the conversation rests, and its record has no such message")
            await pace.pause()
        why = blind or "its record shows nothing of it yet"
        return searched.undecided(why, HoldReason.UNREACHABLE if blind else HoldReason.ACTIVE)

    @property
    def _searched(self) -> SearchedWake:
        return SearchedWake(self.wake.mark, self.conversation.where, self.journal, self.clock, self.since)


async def trace(conversation: RecordedConversation, mark: str, sent_to: Program | None) -> Trace:
    """One look for a wake that may have been sent long ago; `sent_to` is who may have taken it."""
    try:
        look = await conversation.look(mark)
    except (NotThere, AnswerLost, Declined) as blind:
        return Trace(Proof.NONE, str(blind))
    if look.echo:
        return Trace(Proof.ACKNOWLEDGED, f"it stands in the record of the conversation: {look.echo}")
    if sent_to is not None and look.program != sent_to:
        return Trace(Proof.NONE, "its program has ended, and the record has no such message", is_absent=True)
    if not look.is_at_rest:
        return Trace(Proof.NONE, "its record has no such message so far")
    return Trace(Proof.NONE, "the conversation rests, and its record has no such message", is_absent=True)


def fence_of(door: str, conversation: str, program: Program) -> Binding:
    """What must still hold later: the conversation, and the program that has it."""
    return Binding(
        socket=door,
        server_pid=program.pid,
        session_id=conversation,
        pane_id="",
        pane_pid=0,
        pane_started="",
        agent_pid=program.pid,
        agent_started=program.started,
    )


def program_in(fence: Binding | None, door: str) -> Program | None:
    """The program that a fence of this door names; None for any other."""
    return Program(fence.agent_pid, fence.agent_started) if fence is not None and fence.socket == door else None
