"""One attempt on a conversation whose harness keeps a record of it: sent once, and then only looked for in that record.

OpenCode and Copilot CLI are woken this way, each by calls of its own.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Proof, Step
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Journal, Refused, Trace, Unknown, Wake
from wake_bridge.ports.clock import Clock

SETTLES: Final = 2.0
"""Seconds a conversation must be at rest without the wake before its living program can have nothing of it any more.

OpenCode 1.18.33 has a message in its record some 10 ms after the answer.
"""

UNANSWERED_SETTLES: Final = 5.0
"""The same, where the request itself was not answered."""

_PATIENCE: Final = 10.0
"""Seconds one search lasts; the delivery stays locked and is searched for again."""

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.25

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


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One attempt on one conversation.

    Attributes:
        since: when a wake was first looked for, by its mark; kept by the adapter from one attempt to the next.
    """

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
        loop = asyncio.get_running_loop()
        began, rests_since, pause = loop.time(), None, _FIRST_PAUSE
        settles = UNANSWERED_SETTLES if is_unanswered else SETTLES
        blind = ""
        while loop.time() - began < _PATIENCE:
            try:
                look, blind = await self.conversation.look(self.wake.mark), ""
            except (NotThere, AnswerLost, Declined) as nothing:
                look, blind, rests_since = None, str(nothing), None
            if look is not None:
                if look.echo:
                    return await self._found(look)
                if sent_to is not None and look.program != sent_to:
                    return await self._absent("its program has ended, and the record has no such message")
                rests_since = (rests_since or loop.time()) if look.is_at_rest else None
                if rests_since is not None and loop.time() - rests_since >= settles:
                    return await self._absent("the conversation rests, and its record has no such message")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return self._undecided(blind)

    async def _found(self, look: RecordLook) -> Delivered:
        evidence = {"echo": self.wake.mark, "in": look.echo}
        await self.journal(Step.SUBMITTED, evidence)
        self.since.pop(self.wake.mark, None)
        return Delivered(Proof.ACKNOWLEDGED, evidence)

    async def _absent(self, why: str) -> Refused:
        await self.journal(Step.ABSENT, {"why": why})
        self.since.pop(self.wake.mark, None)
        return Refused(HoldReason.UNKNOWN, f"taken up again: {why}", self.conversation.where, Cause.TAKEN_UP_AGAIN)

    def _undecided(self, blind: str) -> AttemptOutcome:
        why = blind or "its record shows nothing of it yet"
        now = self.clock.now()
        if now - self.since.setdefault(self.wake.mark, now) > UNDECIDED_FOR:
            self.since.pop(self.wake.mark, None)
            return Unknown({"why": why})
        reason = HoldReason.UNREACHABLE if blind else HoldReason.ACTIVE
        return Refused(reason, why, self.conversation.where)


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
