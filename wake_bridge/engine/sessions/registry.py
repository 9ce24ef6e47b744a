"""The conversations that reported themselves, and the last state of each.

What is known of whose they are outlives the daemon; how they stood does not.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState
from wake_bridge.domain.sessions import NOBODY, Caller, Moment, Session
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.sessions.monitor_lines import MonitorLines
from wake_bridge.engine.sessions.push_clients import PushClients
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import SessionStore

WRITTEN_EVERY: Final = 60_000
"""Milliseconds after which it is written down that a conversation still gives signs: not for every tool it uses."""

MARKS_KEPT: Final = 1000
CONVERSATIONS_KEPT: Final = 1000
"""More than anybody has; some never say that they end."""

_VOTES: Final = {
    Moment.PROMPT: (PresenceState.ACTIVE, "prompt submitted"),
    Moment.TOOL: (PresenceState.ACTIVE, "tool used"),
    Moment.APPROVAL: (PresenceState.WAITING_ON_APPROVAL, "permission asked for"),
    Moment.STOP: (PresenceState.IDLE, "turn ended"),
    Moment.INTERRUPTED: (PresenceState.IDLE, "turn interrupted"),
}


@dataclass(frozen=True, slots=True)
class _Sign:
    """What one conversation's hook last told of its turn."""

    moment: Moment
    at: Instant


class SessionRegistry:
    """Implements `Sessions` on what hooks and monitors report.

    Args:
        ledger: where it is kept whose a conversation is.
        clock: stamps what is heard.
    """

    def __init__(self, ledger: SessionStore, clock: Clock) -> None:
        self.monitor_lines = MonitorLines()
        self.push_clients = PushClients()
        self._ledger = ledger
        self._clock = clock
        self._live: dict[str, Session] = {}
        self._signs: dict[str, _Sign] = {}
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._awaited: dict[str, asyncio.Event] = {}

    # -- the port ------------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> Session | None:
        """See `Sessions.session`; a `bind` since its last sign is the later word."""
        live, written = self._live.get(session_id), self._ledger.session(session_id)
        if live is None or written is None:
            return live or written
        return written if written.seen_at > live.seen_at else live

    def listens(self, session_id: str) -> bool:
        """See `Sessions.listens`."""
        return self.monitor_lines.listens(session_id)

    async def ring(self, session_id: str, mark: str, line: str) -> bool | None:
        """See `Sessions.ring`."""
        return await self.monitor_lines.ring(session_id, mark, line)

    async def heard(self, mark: str, patience: float) -> bool:
        """See `Sessions.heard`."""
        if mark in self._heard:
            return True
        event = self._awaited.setdefault(mark, asyncio.Event())
        try:
            async with asyncio.timeout(patience):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            self._awaited.pop(mark, None)
        return True

    # -- what is reported ----------------------------------------------------------------------------------------

    def meet(self, caller: Caller, identity: Identity | None) -> Session:
        """A conversation gave a sign; answers what is known of it now."""
        now = self._clock.now()
        met = Session(
            harness=caller.harness,
            session_id=caller.session_id,
            identity=identity or NOBODY,
            directory=caller.directory,
            pid=caller.pid,
            started=caller.started,
            socket=caller.socket,
            pane=caller.pane,
            seen_at=now,
        )
        self._live.pop(met.session_id, None)
        self._live[met.session_id] = met
        while len(self._live) > CONVERSATIONS_KEPT:
            longest_silent = next(iter(self._live))
            del self._live[longest_silent]
            self._signs.pop(longest_silent, None)
        if identity is not None:
            self._write_down(met)
        return met

    def note(self, session_id: str, moment: Moment) -> None:
        """How a conversation stands now, as its own hook tells."""
        if moment in _VOTES:
            self._signs[session_id] = _Sign(moment, self._clock.now())

    def part(self, session_id: str) -> None:
        """A conversation has ended."""
        self._live.pop(session_id, None)
        self._signs.pop(session_id, None)
        self.monitor_lines.leave(session_id)
        self._ledger.part_from_session(session_id)

    def hear(self, marks: Iterable[str]) -> None:
        """A prompt that carried these marks was submitted."""
        for mark in marks:
            self._heard[mark] = None
            if mark in self._awaited:
                self._awaited[mark].set()
        while len(self._heard) > MARKS_KEPT:
            self._heard.popitem(last=False)

    # -- what is known -------------------------------------------------------------------------------------------

    def live(self) -> tuple[Session, ...]:
        """Every conversation that has called in since the daemon started and has not ended."""
        return tuple(self._live.values())

    def sessions_of(self, identity: Identity) -> list[Session]:
        """What is written down as the identity's, without what has turned out since to be somebody else's, or nobody's."""
        written = self._ledger.sessions_of(identity)
        return [one for one in written if (now := self.session(one.session_id)) and now.identity == identity]

    def evidence_of(self, identity: Identity, fresh_for_ms: int) -> tuple[Evidence, ...]:
        """How the identity's conversations stood, as their hooks told within the last `fresh_for_ms` milliseconds.

        What speaks against waking weighs. That a turn ended is only said: an interrupted turn, a compaction and a dialog
        of the program's own tell no hook, so no hook proves idle.
        """
        since = self._clock.now() - fresh_for_ms
        found: list[Evidence] = []
        for session in self._live.values():
            sign = self._signs.get(session.session_id)
            if session.identity == identity and sign is not None and sign.at >= since:
                vote, saw = _VOTES[sign.moment]
                weighs = vote is not PresenceState.IDLE
                found.append(Evidence("hook", vote, saw, session.harness, PresenceSource.HARNESS_HOOK, weighs=weighs))
        return tuple(found)

    def acted_since(self, identity: Identity, instant: Instant) -> str:
        """What the identity's agent was told to have done since then, a few words; empty for nothing."""
        if self.push_clients.acted_since(identity, instant):
            return "its client called a tool"
        for session in self._live.values():
            sign = self._signs.get(session.session_id)
            begins = sign is not None and sign.moment in {Moment.PROMPT, Moment.TOOL} and sign.at >= instant
            if session.identity == identity and begins:
                return "a turn began: hook"
        return ""

    def _write_down(self, met: Session) -> None:
        known = self._ledger.session(met.session_id)
        is_same = known is not None and replace(known, seen_at=EPOCH_START) == replace(met, seen_at=EPOCH_START)
        if known is None or not is_same or met.seen_at - known.seen_at >= WRITTEN_EVERY:
            self._ledger.meet_session(met)
