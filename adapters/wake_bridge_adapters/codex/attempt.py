"""One attempt to hand a wake to a thread: what is sent, after which journal line, and the outcome."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.delivery import HoldReason, Proof, Step
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Failed, Journal, Place, Refused, Wake
from wake_bridge_adapters.bounded_call import BoundedCall, CallResult
from wake_bridge_adapters.codex.search import Search, Sent, is_another
from wake_bridge_adapters.codex.server import AppServer, Connection
from wake_bridge_adapters.codex.threads import IDLE, NOT_LOADED, Thread, active_turn, read_thread
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere
from wake_bridge_adapters.unix_peer import Peer


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """The program, called for one `CODEX_HOME` and bounded by `timeout` seconds."""

    home: Path
    timeout: float
    environment: Mapping[str, str]

    @property
    def program(self) -> str | None:
        """Where it is, None where it is not on the PATH."""
        return shutil.which("codex", path=self.environment.get("PATH"))

    async def run(self, program: str, thread_id: str, text: str) -> CallResult:
        """Put the text into the thread's queue, and have the app-server begin the thread."""
        words = [program, "queue", f"--thread={thread_id}", f"--message={text}", "--resume"]
        environment = {**self.environment, "CODEX_HOME": str(self.home)}
        call = BoundedCall(words, "", self.timeout, environment)
        try:
            return await asyncio.to_thread(call.run)
        finally:
            # a cancelled wait must not leave it running: it would hand the text in after all
            call.kill()


_FOUND: Final = re.compile(r"but found `([^`]+)`")
"""How the server names the turn that runs instead of the expected one."""


@dataclass(frozen=True, slots=True)
class ThreadAttempt:
    """One attempt on one thread."""

    app_server: AppServer
    thread_id: str
    place: Place
    wake: Wake
    journal: Journal
    queue: QueueCommand
    search: Search

    async def make(self) -> AttemptOutcome:
        """Look once more, then do what the moment allows; a moment that allows nothing costs no byte."""
        try:
            connection = await self.app_server.connection()
            thread = await read_thread(connection, self.thread_id)
        except (NotThere, AnswerLost) as gone:
            return self._refused(HoldReason.UNREACHABLE, str(gone))
        if is_another(peer_in(self.place.fence), connection.server):
            # after a crash it must be known which server may have taken it
            return self._refused(HoldReason.UNREACHABLE, "the app-server was just restarted")
        if thread is None:
            return self._refused(HoldReason.UNREACHABLE, "the app-server knows no such thread")
        if thread.status == NOT_LOADED and self.wake.may_start_thread:
            return await self._enqueue(connection)
        if thread.status == IDLE:
            return await self._start(connection)
        if self.wake.turn_id and not thread.is_at_rest and not thread.waits:
            return await self._steer(connection, self.wake.turn_id)
        seen = thread.evidence
        return Refused(reason_of(thread), f"the app-server says: {seen.saw}", self.place.label, seen.why)

    async def _start(self, connection: Connection) -> AttemptOutcome:
        """Begin a turn. If one began meanwhile the server adds to it instead, and the record will show it."""
        answer = await self._sent(connection, "turn/start", self._message())
        if isinstance(answer, Declined):
            return self._refused(HoldReason.UNREACHABLE, f"the app-server declined: {answer}")
        if isinstance(answer, AnswerLost):
            return await self.search.run(Sent(connection.server.peer, is_unanswered=True))
        turn_id = str((answer.get("turn") or {}).get("id", ""))
        return await self.search.run(Sent(connection.server.peer, turn_id))

    async def _steer(self, connection: Connection, turn_id: str, *, is_last: bool = False) -> AttemptOutcome:
        """Add to the running turn, and to no other; a turn that took its place is named once more."""
        answer = await self._sent(connection, "turn/steer", {**self._message(), "expectedTurnId": turn_id})
        if isinstance(answer, AnswerLost):
            return await self.search.run(Sent(connection.server.peer, is_unanswered=True))
        if not isinstance(answer, Declined):
            return await self.search.run(Sent(connection.server.peer))
        if _FOUND.search(str(answer)) and not is_last:
            return await self._steer_the_other(connection)
        return self._refused(HoldReason.ACTIVE, f"the turn has ended or changed: {answer}")

    async def _steer_the_other(self, connection: Connection) -> AttemptOutcome:
        try:
            thread = await read_thread(connection, self.thread_id)
            turn_id = await active_turn(connection, self.thread_id)
        except AnswerLost as gone:
            return self._refused(HoldReason.UNREACHABLE, str(gone))
        if thread is None or thread.waits or not turn_id:
            return self._refused(HoldReason.ACTIVE, "the turn has changed")
        return await self._steer(connection, turn_id, is_last=True)

    async def _enqueue(self, connection: Connection) -> AttemptOutcome:
        """Leave it to Codex's own queue, which begins the thread."""
        program = self.queue.program
        if program is None:
            return self._refused(
                HoldReason.NOT_LOADED, "there is no command codex on the PATH that could begin the thread"
            )
        await self.journal(Step.INTENT_SUBMIT, {"call": "codex queue", "thread": self.thread_id})
        answer = await self.queue.run(program, self.thread_id, self.wake.text)
        sent = Sent(connection.server.peer, is_unanswered=True)
        if answer.timed_out:
            return await self.search.run(sent)
        if not answer.is_well:
            # it may have failed after it had written: only the record and the queue can tell
            found = await self.search.run(Sent(connection.server.peer))
            return Failed(retryable=True, reason=answer.complaint) if isinstance(found, Refused) else found
        await self.journal(Step.SUBMITTED, {"queue": answer.stdout.strip()[:200]})
        echo = await self.search.peek()
        if echo is None:
            return Delivered(Proof.ACCEPTED, {"codex queue": answer.stdout.strip()[:200]})
        return Delivered(Proof.ACKNOWLEDGED, {"turn": echo.turn_id, "codex queue": "begun"})

    def _message(self) -> dict[str, Any]:
        text = {"type": "text", "text": self.wake.text}
        return {"threadId": self.thread_id, "clientUserMessageId": self.wake.mark, "input": [text]}

    async def _sent(
        self, connection: Connection, method: str, parameters: Mapping[str, Any]
    ) -> Mapping[str, Any] | Declined | AnswerLost:
        """Send it after its intent is on disk; what the server declined was not sent."""
        await self.journal(Step.INTENT_SUBMIT, {"call": method, "thread": self.thread_id})
        try:
            return await connection.call(method, **parameters)
        except Declined as no:
            await self.journal(Step.REFUSED, {"said": str(no)[:200]})
            return no
        except AnswerLost as gone:
            return gone

    def _refused(self, reason: HoldReason, detail: str) -> Refused:
        return Refused(reason, detail, self.place.label)


def reason_of(thread: Thread) -> HoldReason:
    """Why a thread must be left alone now."""
    if thread.status == NOT_LOADED:
        return HoldReason.NOT_LOADED
    if thread.waits:
        return HoldReason.WAITING_ON_APPROVAL
    return HoldReason.UNKNOWN if thread.is_at_rest else HoldReason.ACTIVE


def peer_in(fence: Binding | None) -> Peer | None:
    """The process that a fence names."""
    return None if fence is None else Peer(fence.agent_pid, os.geteuid(), fence.agent_started)
