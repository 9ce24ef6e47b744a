"""One attempt: a line to the monitor inside the harness, and what shows that the agent was given it (DESIGN §7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
"""Seconds between two looks into the transcript."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt waits, in seconds; all of it together stays below a lease.

    Args:
        seen: for a line that was written, to be seen; measured: 0.2 s until the harness has it, 0.5 s until the agent.
        queued: for what the harness has in its queue, to reach the agent.
        rest: how long a harness must have been at rest without the wake before the wake counts as never come in.
        proof: for that rest to come about.
    """

    seen: float = 8.0
    queued: float = 25.0
    rest: float = 8.0
    proof: float = 20.0


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
        await self._listen(wake.mark, await self._conversations(fence, listening), self._patience.seen)
        return await self.look_for(wake, fence, journal, where, listening)

    async def look_for(
        self, wake: Wake, fence: Binding, journal: Journal, where: str, listening: str = ""
    ) -> AttemptOutcome:
        """What became of a wake that may have been sent; sends nothing."""
        began = _now()
        rests_since: float | None = None
        while True:
            # whether the process lives is asked before the transcript: what it wrote last is then there
            life = life_of(fence.agent_pid, fence.agent_started)
            found = await self._listen(wake.mark, await self._conversations(fence, listening), LOOKS_APART)
            if found is Echo.TOLD:
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

    async def _listen(self, mark: str, conversations: Sequence[str], patience: float) -> Echo:
        """The first sight of the mark as told, by hook or transcript; else the furthest that was seen in time."""
        hook = asyncio.ensure_future(self._sessions.heard(mark, patience))
        try:
            while True:
                found = await self._echo(mark, conversations)
                if found is Echo.TOLD or (hook.done() and hook.result()):
                    return Echo.TOLD
                if hook.done():
                    return found
                await asyncio.wait({hook}, timeout=LOOKS_APART)
        finally:
            hook.cancel()

    async def _echo(self, mark: str, conversations: Sequence[str]) -> Echo:
        looks = [asyncio.to_thread(self._transcripts.echo_of, mark, one) for one in conversations]
        return max(await asyncio.gather(*looks), default=Echo.NONE)

    async def _conversations(self, fence: Binding, listening: str) -> tuple[str, ...]:
        """Those of that process in which the mark may stand: `/clear` begins another."""
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        now = session.record.session_id if session is not None else ""
        return tuple(dict.fromkeys(one for one in (fence.session_id, now, listening) if one))

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
