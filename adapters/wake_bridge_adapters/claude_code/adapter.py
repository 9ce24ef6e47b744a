"""The Claude Code adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.delivery import HoldReason, Progress, Proof
from wake_bridge.domain.names import AttentionKind
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    Journal,
    Nowhere,
    Place,
    Refused,
    TargetLimits,
    Trace,
    Unknown,
    Wake,
    config_from,
)
from wake_bridge.ports.sessions import Sessions
from wake_bridge_adapters.claude_code.attempt import (
    FENCED_BY,
    LONGEST,
    Bell,
    EchoSearch,
    Patience,
    Transcripts,
    fence_of,
)
from wake_bridge_adapters.claude_code.session import (
    BUSY,
    HARNESS,
    Life,
    LiveSession,
    LiveSessions,
    choose,
    life_of,
    theirs,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import ClaudeCodeConfig

MOST_REMEMBERED: Final = 1000
"""Processes of which it is kept which conversations they have had."""

MOST_SEARCHED: Final = 100
"""Wakes of which it is kept how far the transcripts were searched for them."""

_ONE_LINE: Final = TargetLimits(max_lines=1, max_characters=LONGEST)
_SOURCE: Final = PresenceSource.CLAUDE_SESSION


class ClaudeCodeAdapter:
    """Sees Claude Code by its own record, and wakes it through the monitor that `wake-bridge claude install` puts there."""

    name: ClassVar[str] = "claude"
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, guard="session record", ack_kind="echo of the mark"
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:ClaudeCodeConfig")

    def __init__(
        self,
        config: ClaudeCodeConfig,
        context: AdapterContext,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        del config
        directory = directory_of(context.environment)
        self._clock = context.clock
        self._live = LiveSessions(directory)
        self._transcripts = Transcripts(directory)
        self._patience = patience
        self._sessions: Sessions | None = None
        self._seen: dict[tuple[int, str], dict[str, None]] = {}
        self._searches: dict[str, EchoSearch] = {}

    def serve_sessions(self, sessions: Sessions) -> None:
        """See `SessionServed.serve_sessions`."""
        self._sessions = sessions

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The one session that is the identity's; without a monitor that waits in it, it can only be seen."""
        if address.harness not in {"", HARNESS}:
            return Nowhere(HoldReason.NO_AGENT, f"{address.identity} is no Claude Code but {address.harness}")
        found = choose(address, await self._live.all(), self._known)
        return found if isinstance(found, Nowhere) else self._place(found, address)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """What the record's file looks like from outside, and who listens: one `stat` a place."""
        signs = {place.key: self._sign_of(place) for place in places}
        return {key: sign for key, sign in signs.items() if sign}

    async def observe(self, place: Place, address: Address) -> Observation:
        """What the session says of itself."""
        del address
        session = None
        if place.fence is not None:
            session = await self._live.one(place.fence.agent_pid, place.fence.agent_started)
        evidence = [_gone() if session is None else _said_by(session)]
        if session is not None and evidence[0].vote is PresenceState.IDLE:
            limit = await asyncio.to_thread(self._transcripts.limit_of, session.record.session_id)
            evidence += [_at_limit(limit)] if limit else []
        stamp = f"{session.record.status} {session.record.stamp}" if session is not None else ""
        return Observation(
            self._clock.now(),
            tuple(evidence),
            stamp,
            place.label,
            capabilities=(HARNESS,),
            is_proof=session is not None,
        )

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """Ring the monitor once, while the session is at rest; what may have been sent is only looked for."""
        if self._sessions is None:
            return Refused(HoldReason.UNREACHABLE, "the daemon did not report which monitors wait", place.label)
        bell = Bell(self._sessions, self._live, self._transcripts, self._patience)
        if wake.progress is not Progress.UNTOUCHED:
            fence = wake.fence or place.fence
            if fence is None:
                return Unknown({"why": "the session to which it may have been sent is not known"})
            return await bell.look_for(wake, fence, journal, place.label)
        found = choose(address, await self._live.all(), self._known)
        if isinstance(found, Nowhere):
            return Refused(found.reason, found.detail, place.label, found.cause)
        if self._place(found, address).key != place.key:
            return Refused(HoldReason.NO_AGENT, "another session runs there now", place.label)
        said, listening = _said_by(found), self._listening(found, address)
        if said.vote is not PresenceState.IDLE:
            return Refused(said.reason, said.told, place.label, said.why)
        if not listening:
            return Refused(HoldReason.UNREACHABLE, "no monitor waits in that session", place.label)
        return await bell.ring(found, listening, wake, journal, place.label)

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look into the transcripts of the session that is, or was, there."""
        del address
        fence = place.fence
        if self._sessions is None or fence is None or fence.socket != FENCED_BY:
            return Trace(Proof.NONE, "the session to which it may have been sent is not known")
        search = self._searches.pop(wake.mark, None) or self._transcripts.search(wake.mark)
        self._searches[wake.mark] = search
        if len(self._searches) > MOST_SEARCHED:
            del self._searches[next(iter(self._searches))]
        bell = Bell(self._sessions, self._live, self._transcripts, self._patience)
        return await bell.trace(search, fence)

    async def probe(self) -> Sequence[Check]:
        """For `doctor`: how many sessions can be seen; where Claude Code does not run there is nothing to say."""
        live = await self._live.all()
        return [("claude sessions", True, f"{len(live)} seen by their own record", "")] if live else []

    def _known(self, session_id: str) -> Session | None:
        return self._sessions.session(session_id) if self._sessions is not None else None

    def _place(self, session: LiveSession, address: Address) -> Place:
        record = session.record
        return Place(
            key=f"claude:{record.pid}:{record.started}",
            label=f"Claude Code (pid {record.pid})",
            fence=fence_of(session),
            paper=_ONE_LINE,
            only_seen=not self._listening(session, address),
        )

    def _listening(self, session: LiveSession, address: Address) -> str:
        """The id under which a monitor of that session waits; after `/clear` it is for a while still the one before."""
        if self._sessions is None:
            return ""
        process = (session.record.pid, session.record.started)
        earlier = [one.session_id for one in theirs(address) if (one.pid, one.started) == process]
        seen = self._seen.setdefault(process, {})
        seen |= dict.fromkeys((session.record.session_id, *earlier))
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return next((one for one in reversed(seen) if self._sessions.listens(one)), "")

    def _sign_of(self, place: Place) -> str:
        fence = place.fence
        if fence is None:
            return ""
        life = life_of(fence.agent_pid, fence.agent_started)
        try:
            found = self._live.file_of(fence.agent_pid).stat()
        except OSError:
            return ""
        if life is Life.ENDED:
            return ""
        listens = self._sessions is not None and self._sessions.listens(fence.session_id)
        return f"{found.st_mtime_ns} {found.st_size} {life.value} {listens}"


def directory_of(environment: Mapping[str, str]) -> Path:
    """Where Claude Code keeps records and transcripts."""
    named = environment.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / ".claude"


def _said_by(session: LiveSession) -> Evidence:
    """The record as evidence. A suspended program keeps the record it had."""
    record = session.record
    if session.life is Life.SUSPENDED:
        return Evidence("suspended", PresenceState.UNKNOWN, region="session", source=_SOURCE, hold=HoldReason.NO_AGENT)
    if record.is_at_rest:
        return Evidence("session-idle", PresenceState.IDLE, record.status, "session", _SOURCE)
    if record.status == BUSY:
        return Evidence("session-busy", PresenceState.ACTIVE, record.status, "session", _SOURCE)
    words = "".join(letter for letter in record.waiting_for if letter.isprintable())
    return Evidence("session-waiting", PresenceState.WAITING_ON_APPROVAL, words or record.status, "session", _SOURCE)


def _at_limit(said: str) -> Evidence:
    return Evidence(
        "transcript-limit",
        PresenceState.IDLE,
        said,
        "transcript",
        _SOURCE,
        weighs=False,
        attention=AttentionKind.LIMITED,
        text=said,
    )


def _gone() -> Evidence:
    saw = "its record is gone, or not understood any more"
    return Evidence("session-gone", PresenceState.UNKNOWN, saw, "session", _SOURCE, hold=HoldReason.UNREACHABLE)
