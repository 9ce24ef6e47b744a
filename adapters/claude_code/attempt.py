"""One attempt: a line to the monitor inside the harness, and what shows that the agent was given it (DESIGN §7)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from adapters.claude_code.line import one_line
from adapters.claude_code.live import LiveSession, LiveSessions
from adapters.claude_code.process import Life, life_of, monitors_below
from adapters.claude_code.transcript import Echo, Transcripts
from wake_bridge.domain.delivery import HoldReason, Proof, Step
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Journal, Refused, Unknown, Wake
from wake_bridge.ports.sessions import Sessions

LOOKS_APART: Final = 0.1
"""Seconds between two looks into the transcript, in which a hook may say the same."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt waits, in seconds; all of it together stays below a lease.

    Args:
        queued: for what the harness has in its queue, to reach the agent.
        rest: how long a harness must have been at rest without the wake before the wake counts as never come in; measured:
            it has a line in its queue 0.3 s after that was written, and the agent has it 0.3 s later.
        proof: for that rest to come about.
    """

    queued: float = 25.0
    rest: float = 10.0
    proof: float = 25.0


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
        began = _now()
        search = self._transcripts.search(wake.mark)
        rests_since: float | None = None
        while True:
            # whether the process lives is asked before the transcript: what it wrote last is then there
            life = life_of(fence.agent_pid, fence.agent_started)
            conversations = await self._conversations(fence, listening)
            found = await asyncio.to_thread(search.look, conversations)
            if found is Echo.TOLD or await self._sessions.heard(wake.mark, LOOKS_APART):
                await journal(Step.SUBMITTED, {"seen": "the agent was given it"})
                return Delivered(Proof.ACKNOWLEDGED, {"by": "echo of the mark"})
            if life is Life.ENDED:
                return await self._absent("its process has ended without it", journal, where)
            waited = _now() - began
            if found is Echo.QUEUED and waited > self._patience.queued:
                return Delivered(Proof.ACCEPTED, {"by": "the harness's own queue"})
            rests = found is Echo.NONE and await self._proves_rest(fence, listening)
            rests_since = (rests_since or _now()) if rests else None
            if rests_since is not None and _now() - rests_since > self._patience.rest:
                return await self._absent("it is at rest without it", journal, where)
            if found is Echo.NONE and waited > self._patience.proof:
                return Unknown({"why": "it may have been given to the monitor, and nothing shows that it was not"})

    @staticmethod
    async def _absent(why: str, journal: Journal, where: str) -> Refused:
        await journal(Step.ABSENT, {"why": why})
        return Refused(HoldReason.UNREACHABLE, f"the wake never came in: {why}", where)

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
        socket="claude",
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
