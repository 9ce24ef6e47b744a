"""The Qwen Code adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.delivery import Progress
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    HarnessAdapter,
    Journal,
    Nowhere,
    Place,
    Refused,
    Trace,
    Wake,
)
from wake_bridge_adapters.own_file import content_of
from wake_bridge_adapters.own_screen import OwnScreen, ScreenOf, find_screen, in_the_way
from wake_bridge_adapters.qwen_code.inbox import send
from wake_bridge_adapters.qwen_code.session import (
    HARNESS,
    QwenSession,
    echo_in,
    home_of,
    session_in_group,
    sessions_in,
    transcript_of,
)
from wake_bridge_adapters.recorded import (
    NotThere,
    Program,
    RecordedAttempt,
    RecordLook,
    fence_of,
    program_in,
    trace,
)

_TOKEN: Final = re.compile(r"qpc_[0-9a-f]{64}")
_LONGEST_TOKEN: Final = 4096
"""Bytes of the file: all that the command prints may stand in it."""

_ENDED: Final = Program(0, "")
_UNMINTED: Final = "no controller token: `qwen sessions controllers add --label wake-bridge`, into token_file"


class QwenCodeConfig(BaseModel):
    """`[adapters.qwen]`: needs a controller's token, which you mint: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="wake Qwen Code through the inbox of its session, with token_file")
    home: str = Field("", description="its directory; empty: $QWEN_HOME, else ~/.qwen")
    token_file: str = Field(
        "",
        description="a file with what `qwen sessions controllers add` printed, such as "
        "~/.config/wake-bridge/qwen.token; empty: its screen is used",
    )


@dataclass(frozen=True, slots=True)
class SeenSession:
    """The session of the program on an identity's screen, and what the screen showed."""

    session: QwenSession
    screen: OwnScreen
    seen: Observation

    @property
    def evidence(self) -> Evidence:
        """How it stands: the session does not say so itself. A draft is no concern of its inbox."""
        if (veto := in_the_way(self.seen)) is not None:
            return veto
        shown = {one.vote: one for one in self.seen.evidence if one.hold is None}
        rests = shown.get(PresenceState.IDLE) or shown.get(PresenceState.USER_TYPING)
        if rests is None:
            return Evidence("no-composer", PresenceState.UNKNOWN, "its screen shows no composer", "screen")
        return Evidence("composer", PresenceState.IDLE, rests.saw, rests.region)


class QwenCodeAdapter:
    """Wakes Qwen Code through its session's inbox: drafts and dialogs on its screen are not touched."""

    name: ClassVar[str] = HARNESS
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, guard="session id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = QwenCodeConfig

    def __init__(self, config: QwenCodeConfig, context: AdapterContext) -> None:
        self._context = context
        self._home = home_of(config.home, context.environment)
        self._token_file = _expanded(config.token_file, context.environment)
        self._screen_of: ScreenOf = lambda _: None
        self._screens: dict[str, OwnScreen] = {}
        self._left: set[str] = set()
        self._searched_since: dict[str, int] = {}
        self._taken: set[str] = set()

    def see_through(self, screen_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """See `ScreenServed.see_through`."""
        self._screen_of = screen_of

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The session of the program on the identity's screen; without a token it can only be reached there."""
        try:
            self._token()
            screen, session = await self._session_of(address)
        except NotThere as gone:
            return Nowhere(HoldReason.UNREACHABLE, str(gone))
        place = _place_of(session)
        self._screens[place.key] = screen
        self._left.discard(place.key)
        return place

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """What the screen looks like from outside."""
        signs: dict[str, str] = {}
        for place in places:
            screen = self._screens.get(place.key)
            if screen is None or place.key in self._left:
                continue
            pulse = (await screen.adapter.survey([screen.place])).get(screen.place.key)
            if pulse is not None:
                signs[place.key] = pulse
        return signs

    async def observe(self, place: Place, address: Address) -> Observation:
        """Whether it is still that conversation, and what its screen says of it."""
        try:
            found = await self._find(place, address)
        except NotThere as gone:
            self._left.add(place.key)
            unseen = Evidence("no-answer", PresenceState.UNKNOWN, str(gone), "session", hold=HoldReason.UNREACHABLE)
            return Observation(self._context.clock.now(), (unseen,), where=place.label)
        return Observation(
            at=self._context.clock.now(),
            evidence=(found.evidence,),
            fingerprint=found.seen.fingerprint and f"{found.evidence.vote} {found.seen.fingerprint}",
            where=place.label,
            capabilities=(HARNESS,),
        )

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One message to the inbox; what may have been sent is only looked for."""
        if wake.progress in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
            fence = wake.fence if program_in(wake.fence, HARNESS) else place.fence
            attempt = self._attempt(fence, address, wake, journal)
            return await attempt.look_for(program_in(fence, HARNESS), is_unanswered=True)
        try:
            self._token()
            found = await self._find(place, address)
        except NotThere as gone:
            return Refused(HoldReason.UNREACHABLE, str(gone), place.label)
        said = found.evidence
        if said.vote is not PresenceState.IDLE:
            return Refused(said.reason, said.told, place.label, said.why)
        return await self._attempt(place.fence, address, wake, journal).send(found.session.program, "inbox")

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look into the transcript of the conversation that it was sent to."""
        fence = wake.fence if program_in(wake.fence, HARNESS) else place.fence
        return await trace(self._door(fence, address), wake.mark, program_in(fence, HARNESS))

    async def probe(self) -> Sequence[Check]:
        """For `doctor`: how many sessions there are, and whether there is a token; nothing where Qwen Code does not run."""
        live = await asyncio.to_thread(sessions_in, self._home)
        if not live:
            return []
        try:
            self._token()
        except NotThere as missing:
            return [("qwen sessions", None, f"{len(live)} live, woken through their screens: {missing}", "")]
        return [("qwen sessions", True, f"{len(live)} live, woken through their inboxes", "")]

    async def _session_of(self, address: Address) -> tuple[OwnScreen, QwenSession]:
        """Raises `NotThere`."""
        if {address.harness, address.expected.agent} - {"", HARNESS}:
            raise NotThere(f"{address.identity} is no Qwen Code")
        screen = await find_screen(self._screen_of, address)
        if screen is None or not screen.agent_pid:
            raise NotThere("no screen is known on which its Qwen Code is")
        found = await asyncio.to_thread(session_in_group, self._home, screen.agent_pid)
        if len(found) != 1:
            raise NotThere(f"the program on its screen keeps {len(found) or 'no'} records of a Qwen Code session")
        return screen, found[0]

    async def _find(self, place: Place, address: Address) -> SeenSession:
        """Raises `NotThere`, also where another conversation has taken the place's."""
        screen, session = await self._session_of(address)
        if _place_of(session).key != place.key:
            raise NotThere("its program now has another conversation")
        return SeenSession(session, screen, await screen.look(address))

    def _token(self) -> str:
        """Raises `NotThere`."""
        if self._token_file is None:
            raise NotThere(_UNMINTED)
        content = content_of(self._token_file, _LONGEST_TOKEN)
        found = _TOKEN.search((content or b"").decode("utf-8", "replace"))
        if found is None:
            raise NotThere(f"{self._token_file} holds no controller token, or is not a file of yours")
        if self._token_file.stat().st_mode & 0o077:
            raise NotThere(f"others may read {self._token_file}: chmod 600")
        return found.group()

    async def rests(self, session_id: str, address: Address) -> bool:
        """Whether the conversation is the one on the identity's screen, and at rest there."""
        try:
            screen, session = await self._session_of(address)
        except NotThere:
            return False
        seen = SeenSession(session, screen, await screen.look(address))
        return session.id == session_id and seen.evidence.vote is PresenceState.IDLE

    def _attempt(self, fence: Binding | None, address: Address, wake: Wake, journal: Journal) -> RecordedAttempt:
        door = self._door(fence, address)
        return RecordedAttempt(door, wake, journal, self._context.clock, self._searched_since)

    def _door(self, fence: Binding | None, address: Address) -> _Inbox:
        return _Inbox(self, fence, address, self._home, self._token, self._context.timeout, self._taken)


@dataclass(frozen=True, slots=True)
class _Inbox:
    """The conversation that a fence names: its inbox, and its transcript.

    `taken` are the marks that a session said it has, in its queue or before its person: no rest proves that these never
    came in.
    """

    adapter: QwenCodeAdapter
    fence: Binding | None
    address: Address
    home: Path
    token: Callable[[], str]
    timeout: float
    taken: set[str]

    @property
    def where(self) -> str:
        return _label(self.fence.session_id if self.fence is not None else "")

    async def look(self, mark: str) -> RecordLook:
        """What rests has read its queue, and writes it down at once where it keeps a transcript at all."""
        program = program_in(self.fence, HARNESS)
        if self.fence is None or program is None:
            raise NotThere("the conversation to which it may have been sent is not known")
        rests = mark not in self.taken and await self.adapter.rests(self.fence.session_id, self.address)
        return await asyncio.to_thread(self._looked, program, self.fence.session_id, mark, rests)

    def _looked(self, program: Program, session_id: str, mark: str, rests: bool) -> RecordLook:  # noqa: FBT001 - of `look`
        lives = any(one.program == program for one in sessions_in(self.home))
        file = transcript_of(self.home, session_id)
        try:
            echo = echo_in(file, mark) if file is not None else ""
        except OSError as unreadable:
            raise NotThere(f"its transcript cannot be read: {unreadable.strerror}") from unreadable
        return RecordLook(program if lives else _ENDED, is_at_rest=rests and file is not None, echo=echo)

    async def send(self, text: str, mark: str) -> None:
        program = program_in(self.fence, HARNESS)
        session = next((one for one in sessions_in(self.home) if one.program == program), None)
        if session is None or self.fence is None or session.id != self.fence.session_id:
            raise NotThere("its program has another conversation, or has ended")
        if await send(session, self.token(), text, mark, self.timeout):
            self.taken.add(mark)


def _place_of(session: QwenSession) -> Place:
    key = f"{HARNESS}:{session.program.pid}:{session.program.started}:{session.id}"
    return Place(key, _label(session.id), fence_of(HARNESS, session.id, session.program))


def _label(session_id: str) -> str:
    return f"Qwen Code session {session_id}"


def _expanded(path: str, environment: Mapping[str, str]) -> Path | None:
    if not path:
        return None
    home = environment.get("HOME") or str(Path.home())
    return Path(f"{home}/{path[2:]}" if path.startswith("~/") else path)
