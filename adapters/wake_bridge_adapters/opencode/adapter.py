"""The OpenCode adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.delivery import Progress
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
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
from wake_bridge_adapters.loopback import program_in_group
from wake_bridge_adapters.opencode.conversations import (
    HARNESS,
    Conversation,
    ConversationStanding,
    all_conversations,
    messages_of,
    shown_by,
    standing_of,
)
from wake_bridge_adapters.opencode.server import NOT_INSTALLED, Credentials, OpenCodeServer, OpenCodeServers
from wake_bridge_adapters.own_screen import OwnScreen, ScreenOf, find_screen, in_the_way
from wake_bridge_adapters.recorded import (
    AnswerLost,
    Declined,
    NotThere,
    Program,
    RecordedAttempt,
    RecordLook,
    fence_of,
    program_in,
    trace,
)
from wake_bridge_adapters.tmux.occupants import started_at

_SEARCHED: Final = 200
"""Messages at the end of a conversation among which a wake is looked for."""

_OTHER: Final = "its program now shows another conversation"


class OpenCodeConfig(BaseModel):
    """`[adapters.opencode]`: needs the extra `opencode`, and `opencode --port N`: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="wake OpenCode through its own server if it was started with --port"
    )
    versions: tuple[Annotated[str, Field(pattern=r"^\d+\.\d+$")], ...] = Field(
        ("1.18",), description="the versions whose server wake-bridge uses, by their first two numbers"
    )


@dataclass(frozen=True, slots=True)
class ShownConversation:
    """The conversation that an identity's program shows, the connection to its server, and what the screen showed."""

    connection: OpenCodeServer
    conversation: Conversation
    all: tuple[Conversation, ...]
    screen: OwnScreen
    seen: Observation

    async def standing(self) -> ConversationStanding:
        """How it stands now. Raises `AnswerLost` and `Declined`."""
        return await standing_of(self.connection, self.conversation, self.all)


class OpenCodeAdapter:
    """Sees and wakes OpenCode through the server in its terminal program: drafts on the screen are not its concern."""

    name: ClassVar[str] = HARNESS
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, can_steer=True, guard="turn id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = OpenCodeConfig
    label: ClassVar[str] = ""

    def __init__(self, config: OpenCodeConfig, context: AdapterContext) -> None:
        self._context = context
        credentials = Credentials.of(context.environment)
        self._servers = OpenCodeServers(config.versions, credentials, context.timeout, context.clock)
        self._screen_of: ScreenOf = lambda _: None
        self._screens: dict[str, OwnScreen] = {}
        self._left: set[str] = set()
        self._searched_since: dict[str, int] = {}

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system; empty where it can."""
        del environment
        return "" if find_spec("httpx2") else NOT_INSTALLED

    def see_through(self, screen_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """See `ScreenServed.see_through`."""
        self._screen_of = screen_of

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The conversation that the program on the identity's screen shows."""
        try:
            found = await self._find(address)
        except (NotThere, AnswerLost, Declined) as gone:
            return Nowhere(HoldReason.UNREACHABLE, str(gone))
        if isinstance(found, Nowhere):
            return found
        place = _place_of(found)
        self._screens[place.key] = found.screen
        self._left.discard(place.key)
        return place

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """What the server says is running, and the sign of the screen: what it shows, only its title tells."""
        # side by side: one that hangs must keep no other waiting
        signs = await asyncio.gather(*(self._sign_of(place) for place in places))
        return {place.key: sign for place, sign in zip(places, signs, strict=True) if sign}

    async def _sign_of(self, place: Place) -> str:
        program, screen = program_in(place.fence, HARNESS), self._screens.get(place.key)
        connection = self._servers.known(program) if program is not None else None
        if connection is None or screen is None or place.key in self._left:
            return ""
        try:
            statuses = await connection.get("/session/status")
        except (AnswerLost, Declined):
            return ""
        pulse = (await screen.adapter.survey([screen.place])).get(screen.place.key)
        return "" if pulse is None else f"{statuses} {pulse}"

    async def observe(self, place: Place, address: Address) -> Observation:
        """How the conversation stands, and at rest also what the screen says against beginning a turn."""
        try:
            found = await self._find(address)
            if isinstance(found, Nowhere):
                return self._observation(place, _unseen(found.detail, found.reason))
            if _place_of(found).key != place.key:
                self._left.add(place.key)
                return self._observation(place, _unseen(_OTHER))
            standing = await found.standing()
        except (NotThere, AnswerLost, Declined) as gone:
            return self._observation(place, _unseen(str(gone)))
        evidence = (in_the_way(found.seen) if standing.is_at_rest else None) or standing.evidence
        return self._observation(place, evidence, standing.turn_id or None)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt on the conversation that is shown; what may have been sent is only looked for."""
        if wake.progress in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
            fence = wake.fence if program_in(wake.fence, HARNESS) else place.fence
            attempt = self._attempt(fence, address, wake, journal)
            return await attempt.look_for(program_in(fence, HARNESS))
        try:
            found = await self._find(address)
            if isinstance(found, Nowhere):
                return Refused(found.reason, found.detail, place.label, found.cause)
            if _place_of(found).key != place.key:
                return Refused(HoldReason.UNREACHABLE, _OTHER, place.label)
            standing = await found.standing()
        except (NotThere, AnswerLost, Declined) as gone:
            return Refused(HoldReason.UNREACHABLE, str(gone), place.label)
        said = standing.evidence
        if standing.is_at_rest:
            said = in_the_way(found.seen) or said
            is_safe = said.vote is PresenceState.IDLE
        else:
            # without a guard of its own the server takes it at any time: a turn that has ended meanwhile is as well
            is_safe = said.vote is PresenceState.ACTIVE and bool(wake.turn_id)
        if not is_safe:
            return Refused(said.reason, said.told, place.label, said.why)
        attempt = self._attempt(place.fence, address, wake, journal)
        return await attempt.send(found.connection.program, "prompt_async")

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look into the record of the conversation that it was sent to."""
        fence = wake.fence if program_in(wake.fence, HARNESS) else place.fence
        return await trace(_Door(self, fence, address), wake.mark, program_in(fence, HARNESS))

    async def probe(self) -> Sequence[Check]:
        """For `doctor`: nothing is known of a server without the pane that it belongs to; `routes` tells of those."""
        return []

    async def program_of(self, address: Address) -> tuple[Program, OwnScreen]:
        """The program on the identity's screen. Raises `NotThere`."""
        if {address.harness, address.expected.agent} - {"", HARNESS}:
            raise NotThere(f"{address.identity} is no OpenCode")
        screen = await find_screen(self._screen_of, address)
        if screen is None or not screen.agent_pid:
            raise NotThere("no screen is known on which its OpenCode is")
        pid = await asyncio.to_thread(program_in_group, screen.agent_pid, HARNESS)
        if pid is None:
            raise NotThere("the program on its screen is no OpenCode")
        return Program(pid, started_at(pid)), screen

    async def connection_of(self, address: Address) -> OpenCodeServer:
        """The connection to the server of the program on the identity's screen. Raises `NotThere`."""
        program, _ = await self.program_of(address)
        return await self._servers.of(program)

    async def _find(self, address: Address) -> ShownConversation | Nowhere:
        """Raises `NotThere`, `AnswerLost`, `Declined`."""
        program, screen = await self.program_of(address)
        connection = await self._servers.of(program)
        conversations = await all_conversations(connection)
        # what is shown is asked last: it is what a person may change at any moment
        seen = await screen.look(address)
        label = screen.place.label
        if seen.capabilities != (HARNESS,):
            return Nowhere(HoldReason.UNREACHABLE, "the program on its screen is no OpenCode", label)
        shown = shown_by(seen.title, conversations)
        if not shown:
            return Nowhere(HoldReason.UNREACHABLE, "its screen shows no conversation that its server names", label)
        if len(shown) > 1:
            why = f"its screen may show any of {len(shown)} conversations of the same title"
            return Nowhere(HoldReason.AMBIGUOUS, why, label)
        if shown[0].parent:
            return Nowhere(HoldReason.UNREACHABLE, "its screen shows the conversation of a sub-agent", label)
        return ShownConversation(connection, shown[0], tuple(conversations), screen, seen)

    def _attempt(self, fence: Binding | None, address: Address, wake: Wake, journal: Journal) -> RecordedAttempt:
        door = _Door(self, fence, address)
        return RecordedAttempt(door, wake, journal, self._context.clock, self._searched_since)

    def _observation(self, place: Place, evidence: Evidence, turn_id: str | None = None) -> Observation:
        return Observation(
            at=self._context.clock.now(),
            evidence=(evidence,),
            fingerprint=evidence.saw,
            where=place.label,
            capabilities=(HARNESS,),
            is_proof=True,
            active_turn_id=turn_id,
        )


@dataclass(frozen=True, slots=True)
class _Door:
    """The conversation that a fence names, by whichever server the identity's program has now: all read the same record."""

    adapter: OpenCodeAdapter
    fence: Binding | None
    address: Address

    @property
    def where(self) -> str:
        return _label(self.fence.session_id if self.fence is not None else "")

    async def look(self, mark: str) -> RecordLook:
        connection, conversation = await self._opened()
        conversations = [Conversation(conversation, ""), *await all_conversations(connection)]
        standing = await standing_of(connection, conversations[0], conversations)
        for message in reversed(await messages_of(connection, conversation, _SEARCHED)):
            if _holds(message, mark):
                return RecordLook(connection.program, standing.is_at_rest, str(message["info"].get("id", "")))
        return RecordLook(connection.program, standing.is_at_rest)

    async def send(self, text: str, mark: str) -> None:
        del mark
        connection, conversation = await self._opened()
        await connection.post(f"/session/{conversation}/prompt_async", {"parts": [{"type": "text", "text": text}]})

    async def _opened(self) -> tuple[OpenCodeServer, str]:
        if self.fence is None or self.fence.socket != HARNESS:
            raise NotThere("the conversation to which it may have been sent is not known")
        return await self.adapter.connection_of(self.address), self.fence.session_id


def _holds(message: Mapping[str, object], mark: str) -> bool:
    """Whether a message of the person's side has the mark: an answer that quotes it is no echo."""
    info, parts = message.get("info"), message.get("parts")
    if not isinstance(info, dict) or info.get("role") != "user" or not isinstance(parts, list):
        return False
    return any(isinstance(part, dict) and mark in str(part.get("text", "")) for part in parts)


def _label(conversation: str) -> str:
    return f"OpenCode session {conversation}"


def _place_of(found: ShownConversation) -> Place:
    program, conversation = found.connection.program, found.conversation.id
    key = f"{HARNESS}:{program.pid}:{program.started}:{conversation}"
    return Place(key, _label(conversation), fence_of(HARNESS, conversation, program))


def _unseen(why: str, hold: HoldReason = HoldReason.UNREACHABLE) -> Evidence:
    return Evidence("no-answer", PresenceState.UNKNOWN, why, "server", source=PresenceSource.OPENCODE_SERVER, hold=hold)
