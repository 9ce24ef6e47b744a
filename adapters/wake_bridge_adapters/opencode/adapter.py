"""The OpenCode adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.presence import Observation, PresenceSource
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AdapterContext, Check, Nowhere, Place, config_from
from wake_bridge_adapters.loopback import Listener, program_in_group
from wake_bridge_adapters.native_channel import HowItStands, NativeChannel
from wake_bridge_adapters.opencode.conversations import (
    HARNESS,
    Conversation,
    all_conversations,
    messages_of,
    shown_by,
    standing_of,
)
from wake_bridge_adapters.opencode.server import NOT_INSTALLED, Credentials, OpenCodeServer, connect
from wake_bridge_adapters.own_screen import OwnScreen, in_the_way
from wake_bridge_adapters.program_servers import ProgramServers
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere, Program, RecordLook
from wake_bridge_adapters.tmux.occupants import started_at

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import OpenCodeConfig

_CALLED: Final = "OpenCode"
_ADVICE: Final = "it has no server: start it with --port, as in `opencode --port 0`"
_SEARCHED: Final = 200
"""Messages at the end of a conversation among which a wake is looked for."""


@dataclass(frozen=True, slots=True)
class OpenCodeConversation:
    """The conversation that an identity's program shows, the connection to its server, and what the screen showed."""

    server: OpenCodeServer
    conversation: Conversation
    all: tuple[Conversation, ...]
    screen: OwnScreen
    seen: Observation

    @property
    def program(self) -> Program:
        """The program."""
        return self.server.program

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self.conversation.id

    async def stands(self) -> HowItStands:
        """By the server's word; at rest also what the screen says against beginning a turn."""
        standing = await standing_of(self.server, self.conversation, self.all)
        evidence = (in_the_way(self.seen) if standing.is_at_rest else None) or standing.evidence
        return HowItStands(evidence, evidence.saw, standing.turn_id)


class OpenCodeAdapter(NativeChannel):
    """Sees and wakes OpenCode through the server in its terminal program: drafts on the screen are not its concern."""

    name: ClassVar[str] = HARNESS
    harness: ClassVar[str] = HARNESS
    called: ClassVar[str] = "OpenCode session"
    source: ClassVar[PresenceSource] = PresenceSource.OPENCODE_SERVER
    may_add: ClassVar[bool] = True
    """The server takes a message at any time: one for a turn that has ended meanwhile begins another."""
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, can_steer=True, guard="turn id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:OpenCodeConfig")
    label: ClassVar[str] = ""

    def __init__(self, config: OpenCodeConfig, context: AdapterContext) -> None:
        super().__init__(context)
        credentials = Credentials.of(context.environment)

        async def open_at(program: Program, at: Listener) -> OpenCodeServer:
            return await connect(program, at, credentials, config.versions, context.timeout)

        self._servers = ProgramServers(open_at, _ADVICE, context.clock)

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system; empty where it can."""
        del environment
        return "" if find_spec("httpx2") else NOT_INSTALLED

    async def find(self, address: Address) -> OpenCodeConversation | Nowhere:
        """The conversation whose title the program on the identity's screen shows."""
        screen = await self.own_screen(address, _CALLED)
        server = await self._server_on(screen)
        conversations = await all_conversations(server)
        # what is shown is asked last: it is what a person may change at any moment
        seen = await screen.look(address)
        label = screen.place.label
        shown = shown_by(seen.title, conversations)
        if not shown:
            return Nowhere(
                HoldReason.UNREACHABLE, "the title of its window names no conversation, as on its first screen", label
            )
        if len(shown) > 1:
            why = f"its screen may show any of {len(shown)} conversations of the same title"
            return Nowhere(HoldReason.AMBIGUOUS, why, label)
        if shown[0].parent:
            return Nowhere(HoldReason.UNREACHABLE, "its screen shows the conversation of a sub-agent", label)
        return OpenCodeConversation(server, shown[0], tuple(conversations), screen, seen)

    def conversation(self, fence: Binding, address: Address) -> _Door:
        """See `NativeChannel.conversation`."""
        return _Door(self, fence.session_id, address)

    async def sign_of(self, place: Place, program: Program) -> str:
        """What the server says is running."""
        del place
        server = self._servers.known(program)
        try:
            return str(await server.get("/session/status")) if server is not None else ""
        except (AnswerLost, Declined):
            return ""

    async def probe(self) -> Sequence[Check]:
        """For `doctor`: nothing is known of a server without the pane that it belongs to; `routes` tells of those."""
        return []

    async def server_of(self, address: Address) -> OpenCodeServer:
        """The connection to the server of the program on the identity's screen. Raises `NotThere`."""
        return await self._server_on(await self.own_screen(address, _CALLED))

    async def _server_on(self, screen: OwnScreen) -> OpenCodeServer:
        pid = await asyncio.to_thread(program_in_group, screen.agent_pid, HARNESS)
        if pid is None:
            raise NotThere("the program on its screen is no OpenCode")
        return await self._servers.of(Program(pid, started_at(pid)))


@dataclass(frozen=True, slots=True)
class _Door:
    """A conversation, by whichever server the identity's program has now: all read the same record."""

    adapter: OpenCodeAdapter
    id: str
    address: Address

    @property
    def where(self) -> str:
        return self.adapter.label_of(self.id)

    async def look(self, mark: str) -> RecordLook:
        server = await self.adapter.server_of(self.address)
        conversations = [Conversation(self.id, ""), *await all_conversations(server)]
        standing = await standing_of(server, conversations[0], conversations)
        for message in reversed(await messages_of(server, self.id, _SEARCHED)):
            if _holds(message, mark):
                return RecordLook(server.program, standing.is_at_rest, str(message["info"].get("id", "")))
        return RecordLook(server.program, standing.is_at_rest)

    async def send(self, text: str, mark: str) -> None:
        del mark
        server = await self.adapter.server_of(self.address)
        await server.post(f"/session/{self.id}/prompt_async", {"parts": [{"type": "text", "text": text}]})


def _holds(message: Mapping[str, object], mark: str) -> bool:
    """Whether a message of the person's side has the mark: an answer that quotes it is no echo."""
    info, parts = message.get("info"), message.get("parts")
    if not isinstance(info, dict) or info.get("role") != "user" or not isinstance(parts, list):
        return False
    return any(isinstance(part, dict) and mark in str(part.get("text", "")) for part in parts)
