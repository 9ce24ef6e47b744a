"""One wake past the composer: the line that asks, the attempt, and what the session's file says became of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Final

from wake_bridge.domain.delivery import HoldReason, Proof, Step
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Journal, Refused, Trace, Unknown, Wake
from wake_bridge.ports.sessions import Sessions
from wake_bridge_adapters.claude_code.session import Life, LiveSession, LiveSessions, life_of, monitors_below
from wake_bridge_adapters.claude_code.transcript import Echo, EchoSearch, Transcripts

LONGEST: Final = 500
"""UTF-16 units of a line; the harness cuts what is longer and says `...(truncated)` (measured on 2.1.332)."""

GAP: Final = "   "
_CUT: Final = "…"


def one_line(text: str, mark: str) -> str:
    """The digest on one line, with its mark whatever else must go.

    Lines are joined by a gap. What is too long loses its end before the last line, which has the mark, and the line
    before that, which says how to read the mail.
    """
    lines = [cleaned for line in text.splitlines() if (cleaned := _printable(line))]
    if not any(mark in line for line in lines):
        lines.append(f"Wake: {mark}")
    whole = GAP.join(lines)
    if _units(whole) <= LONGEST:
        return whole
    for kept in (2, 1):
        head, tail = GAP.join(lines[:-kept]), GAP.join(lines[-kept:])
        room = LONGEST - _units(tail) - _units(_CUT + GAP)
        if head and mark in tail and room >= LONGEST // 4:
            return f"{_first(head, room)}{_CUT}{GAP}{tail}"
    trailer = f"Wake: {mark}"
    return f"{_first(whole, LONGEST - _units(_CUT + GAP + trailer))}{_CUT}{GAP}{trailer}"


def _printable(line: str) -> str:
    """Without anything that could end the line or move a cursor, and without blanks around it."""
    return "".join(letter if letter.isprintable() else " " for letter in line).strip()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


def _first(text: str, units: int) -> str:
    """As much of the beginning as fits."""
    return text.encode("utf-16-le", "replace")[: 2 * units].decode("utf-16-le", "ignore").rstrip()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt waits, in seconds; all of it together stays below a lease.

    Args:
        written: for what a hook said that the agent was given, to stand in the transcript as well. The hook speaks first, then
            the model is asked, then the row is written, all within 0.3 s: a program that is killed in between has told nobody.
        queued: for what the harness has in its queue, to reach the agent.
        rest: how long a harness must have been at rest without the wake before the wake counts as never come in; measured:
            it has a line in its queue 0.5 s after that was written, and the agent has it 0.3 s later.
        proof: for that rest to come about.
    """

    written: float = 1.5
    queued: float = 25.0
    rest: float = 10.0
    proof: float = 25.0


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of one wake at one moment; times are in seconds.

    Args:
        echo: how far the transcripts have it. They are read after it was asked whether the process lives.
        life: how the process stands.
        heard_for: how long ago its hook said that the agent was given it; None where none did.
        rested_for: how long the harness has been at rest without it, with nobody there who could still write it.
        waited_for: how long it has been looked for.
    """

    echo: Echo
    life: Life
    heard_for: float | None = None
    rested_for: float = 0.0
    waited_for: float = 0.0


class Verdict(Enum):
    """What became of the wake, and why."""

    TOLD = "the agent was given it: transcript"
    HEARD = "the agent was given it: hook"
    QUEUED = "the harness's own queue has it"
    ENDED = "its process has ended without it"
    RESTED = "it is at rest without it"
    UNSEEN = "it may have been given to the monitor, and nothing shows that it was not"

    @property
    def is_absence(self) -> bool:
        """The harness's own record proves that the wake never came in."""
        return self in {Verdict.ENDED, Verdict.RESTED}


def verdict_on(seen: Seen, patience: Patience) -> Verdict | None:
    """The first line that applies; None while it is to be looked for further."""
    if seen.echo is Echo.TOLD:
        return Verdict.TOLD
    if seen.life is Life.ENDED:
        return Verdict.ENDED
    if seen.heard_for is not None:
        return Verdict.HEARD if seen.heard_for > patience.written else None
    if seen.echo is Echo.QUEUED:
        return Verdict.QUEUED if seen.waited_for > patience.queued else None
    if seen.rested_for > patience.rest:
        return Verdict.RESTED
    return Verdict.UNSEEN if seen.waited_for > patience.proof else None


FENCED_BY: Final = "claude"
"""The socket in a fence of ours, which has none."""

LOOKS_APART: Final = 0.1
"""Seconds between two looks into the transcript, in which a hook may say the same."""


class Bell:
    """Rings a monitor, and listens for the echo.

    Args:
        sessions: who waits inside a harness.
        live: the records of the harnesses that run.
        transcripts: what they have written down.
        patience: how long is waited.
    """

    def __init__(self, sessions: Sessions, live: LiveSessions, transcripts: Transcripts, patience: Patience) -> None:
        self._sessions = sessions
        self._live = live
        self._transcripts = transcripts
        self._patience = patience

    async def ring(
        self, session: LiveSession, listening: str, wake: Wake, journal: Journal, where: str
    ) -> AttemptOutcome:
        """Give the wake to the monitor that waits as `listening`; nothing goes out before its intent is on disk."""
        record = session.record
        await journal(Step.INTENT_SUBMIT, {"session": record.session_id, "process": str(record.pid)})
        written = await self._sessions.ring(listening, wake.mark, one_line(wake.text, wake.mark))
        if written is False:
            await journal(Step.REFUSED, {"why": "the monitor took nothing"})
            return Refused(HoldReason.UNREACHABLE, "its monitor did not take the line", where)
        fence = fence_of(session)
        outcome = await self.look_for(wake, fence, journal, where, listening)
        if isinstance(outcome, Unknown) and written and await self._had_an_unseen_turn(fence):
            await journal(Step.SUBMITTED, {"seen": "a turn began after the line was written"})
            return Delivered(Proof.SUBMITTED, {"by": "session record"})
        return outcome

    async def look_for(
        self, wake: Wake, fence: Binding, journal: Journal, where: str, listening: str = ""
    ) -> AttemptOutcome:
        """What became of a wake that may have been sent; sends nothing."""
        verdict = await self._watch_for(wake.mark, fence, listening)
        if verdict.is_absence:
            await journal(Step.ABSENT, {"why": verdict.value})
            return Refused(HoldReason.UNREACHABLE, f"the wake never came in: {verdict.value}", where)
        if verdict is Verdict.UNSEEN:
            return Unknown({"why": verdict.value})
        if verdict is Verdict.QUEUED:
            return Delivered(Proof.ACCEPTED, {"by": verdict.value})
        await journal(Step.SUBMITTED, {"seen": verdict.value})
        return Delivered(Proof.ACKNOWLEDGED, {"by": verdict.value})

    async def trace(self, search: EchoSearch, fence: Binding) -> Trace:
        """What one look says; a record that rests without the wake does not have it."""
        life = life_of(fence.agent_pid, fence.agent_started)
        echo = await asyncio.to_thread(search.look, await self._conversations(fence, ""))
        if echo is Echo.TOLD:
            return Trace(Proof.ACKNOWLEDGED, Verdict.TOLD.value)
        if echo is Echo.QUEUED:
            return Trace(Proof.ACCEPTED, Verdict.QUEUED.value)
        if life is Life.ENDED:
            return Trace(Proof.NONE, Verdict.ENDED.value, is_absent=True)
        rests = await self._proves_rest(fence, "")
        return Trace(Proof.NONE, (Verdict.RESTED if rests else Verdict.UNSEEN).value, is_absent=rests)

    async def _watch_for(self, mark: str, fence: Binding, listening: str) -> Verdict:
        """Look again and again, until what is seen says something."""
        search = self._transcripts.search(mark)
        began, heard_at, rests_since = _now(), 0.0, 0.0
        while True:
            # asked before the transcript is read: what the process wrote last is then there
            life = life_of(fence.agent_pid, fence.agent_started)
            echo = await asyncio.to_thread(search.look, await self._conversations(fence, listening))
            if not heard_at and await self._sessions.heard(mark, LOOKS_APART):
                heard_at = _now()
            rests = echo is Echo.NONE and not heard_at and await self._proves_rest(fence, listening)
            now = _now()
            rests_since = (rests_since or now) if rests else 0.0
            seen = Seen(
                echo,
                life,
                heard_for=now - heard_at if heard_at else None,
                rested_for=now - rests_since if rests_since else 0.0,
                waited_for=now - began,
            )
            if (verdict := verdict_on(seen, self._patience)) is not None:
                return verdict
            if heard_at:
                await asyncio.sleep(LOOKS_APART)

    async def _conversations(self, fence: Binding, listening: str) -> tuple[str, ...]:
        """Those of that process in which the mark may stand: `/clear` begins another."""
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        now = session.record.session_id if session is not None else ""
        return tuple(dict.fromkeys(one for one in (fence.session_id, now, listening) if one))

    async def _had_an_unseen_turn(self, fence: Binding) -> bool:
        """Whether a turn began, in a session that writes nothing down of its conversation."""
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        if session is None or session.record.stamp == fence.pane_started:
            return False
        return not self._transcripts.can_be_read(session.record.session_id)

    async def _proves_rest(self, fence: Binding, listening: str) -> bool:
        """Whether the harness rests now, could tell if it had the wake, and nobody is there who could still write it.

        A monitor that was given a line and did not say that it wrote it may be about to; one that waits for the next is
        not, as long as it is the only one.
        """
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        if session is None or not session.rests:
            return False
        record = session.record
        had_no_turn = record.stamp == fence.pane_started
        if not had_no_turn and not self._transcripts.can_be_read(record.session_id):
            return False
        monitors = await asyncio.to_thread(monitors_below, record.pid)
        waits = any(self._sessions.listens(one) for one in {record.session_id, listening} if one)
        return monitors == 0 or (monitors == 1 and waits)


def fence_of(session: LiveSession) -> Binding:
    """What must be the same for a session to be the one it was, and, as `pane_started`, when it last changed its status."""
    record = session.record
    return Binding(
        socket=FENCED_BY,
        server_pid=0,
        session_id=record.session_id,
        pane_id="",
        pane_pid=record.pid,
        pane_started=record.stamp,
        agent_pid=record.pid,
        agent_started=record.started,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
