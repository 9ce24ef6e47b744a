"""The Copilot CLI adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AdapterContext, Check, Nowhere, Place, config_from
from wake_bridge_adapters.copilot_cli.server import CopilotServer, connect
from wake_bridge_adapters.loopback import Listener, program_in_group
from wake_bridge_adapters.native_channel import HowItStands, NativeChannel
from wake_bridge_adapters.own_file import row_with
from wake_bridge_adapters.own_screen import OwnScreen, in_the_way
from wake_bridge_adapters.program_servers import ProgramServers
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere, Program, RecordLook, program_in
from wake_bridge_adapters.tmux.occupants import process_now, started_at

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import CopilotConfig

HARNESS: Final = "copilot"
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENDED: Final = Program(0, "")
_ADVICE: Final = "it has no server: start it with --ui-server, as in `copilot --ui-server --port 0`"


@dataclass(frozen=True, slots=True)
class CopilotConversation:
    """The session in front of a program, the connection to its server, and what the screen showed."""

    server: CopilotServer
    id: str
    screen: OwnScreen
    seen: Observation

    @property
    def program(self) -> Program:
        """The program."""
        return self.server.program

    async def stands(self) -> HowItStands:
        """By the server's word; what a person is asked besides is on the screen alone."""
        asks, runs = await standing_of(self.server, self.id)
        on_screen = in_the_way(self.seen)
        if asks:
            evidence = _said("permission", PresenceState.WAITING_ON_APPROVAL)
        elif on_screen is not None and (not runs or on_screen.vote is PresenceState.WAITING_ON_APPROVAL):
            evidence = on_screen
        else:
            evidence = _said("processing", PresenceState.ACTIVE) if runs else _said("idle", PresenceState.IDLE)
        return HowItStands(evidence, evidence.saw)


async def standing_of(server: CopilotServer, session: str) -> tuple[bool, bool]:
    """Whether it waits for a permission, and whether a turn runs. Raises `AnswerLost` and `Declined`."""
    if session not in server.attached:
        # it neither begins anything nor is asked for permissions: those stay with the person's own program
        wishes = {"disableResume": True, "requestPermission": False, "requestUserInput": False, "streaming": False}
        await server.call("session.resume", sessionId=session, clientName="wake-bridge", **wishes)
        server.attached.add(session)
    pending = await server.call("session.permissions.pendingRequests", sessionId=session)
    state = await server.call("session.metadata.isProcessing", sessionId=session)
    runs = state.get("processing") if isinstance(state, Mapping) else None
    if not isinstance(pending, Mapping) or not isinstance(pending.get("items"), list) or not isinstance(runs, bool):
        raise AnswerLost("its server answers in words that are not known")
    return bool(pending["items"]), runs


async def foreground_of(server: CopilotServer) -> str:
    """The session that the program shows; empty where it shows none. Raises `AnswerLost` and `Declined`."""
    shown = await server.call("session.getForeground")
    session = str(shown.get("sessionId")) if isinstance(shown, Mapping) else ""
    return session if _ID.fullmatch(session) else ""


class CopilotAdapter(NativeChannel):
    """Sees and wakes Copilot CLI through the server in its terminal program: drafts on its screen are not its concern."""

    name: ClassVar[str] = HARNESS
    harness: ClassVar[str] = HARNESS
    called: ClassVar[str] = "Copilot session"
    source: ClassVar[PresenceSource] = PresenceSource.COPILOT_SERVER
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, guard="session id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:CopilotConfig")

    def __init__(self, config: CopilotConfig, context: AdapterContext) -> None:
        super().__init__(context)
        token = context.environment.get("COPILOT_CONNECTION_TOKEN", "")

        async def open_at(program: Program, at: Listener) -> CopilotServer:
            return await connect(program, at, token, context.timeout)

        self._servers = ProgramServers(open_at, _ADVICE, context.clock)
        self._home = home_of(config.home, context.environment)

    async def find(self, address: Address) -> CopilotConversation | Nowhere:
        """The session that the program on the identity's screen says it shows."""
        screen = await self.own_screen(address, "Copilot CLI")
        server = await self._server_on(screen)
        seen = await screen.look(address)
        session = await foreground_of(server)
        if not session:
            return Nowhere(HoldReason.UNREACHABLE, "its server shows no session", screen.place.label)
        return CopilotConversation(server, session, screen, seen)

    def conversation(self, fence: Binding, address: Address) -> _Door:
        """See `NativeChannel.conversation`."""
        return _Door(self, fence, address)

    async def sign_of(self, place: Place, program: Program) -> str:
        """Whether a turn runs; empty where the program shows another session by now."""
        server = self._servers.known(program)
        session = place.fence.session_id if place.fence is not None else ""
        try:
            if server is None or await foreground_of(server) != session:
                return ""
            return str(await standing_of(server, session))
        except (AnswerLost, Declined):
            return ""

    async def probe(self) -> Sequence[Check]:
        """For `doctor`: nothing is known of a server without the pane that it belongs to; `routes` tells of those."""
        return []

    async def server_of(self, address: Address) -> CopilotServer:
        """The connection to the server of the program on the identity's screen. Raises `NotThere`."""
        return await self._server_on(await self.own_screen(address, "Copilot CLI"))

    def record_of(self, session: str) -> Path | None:
        """The record of a session; None where there is none, or the id is no name for a folder."""
        file = self._home / "session-state" / session / "events.jsonl"
        return file if _ID.fullmatch(session) and file.is_file() else None

    async def _server_on(self, screen: OwnScreen) -> CopilotServer:
        pid = await asyncio.to_thread(program_in_group, screen.agent_pid, HARNESS)
        if pid is None:
            raise NotThere("the program on its screen is no Copilot CLI")
        return await self._servers.of(Program(pid, started_at(pid)))


@dataclass(frozen=True, slots=True)
class _Door:
    """The session that a fence names: the server of the identity's program, and the record on disk."""

    adapter: CopilotAdapter
    fence: Binding
    address: Address

    @property
    def where(self) -> str:
        return self.adapter.label_of(self.fence.session_id)

    async def look(self, mark: str) -> RecordLook:
        program = program_in(self.fence, HARNESS)
        if program is None:
            raise NotThere("the session to which it may have been sent is not known")
        rests = await self._rests(program)
        file = self.adapter.record_of(self.fence.session_id)
        try:
            echo = await asyncio.to_thread(row_with, file, mark, _told_by) if file is not None else ""
        except OSError as unreadable:
            raise NotThere(f"its record cannot be read: {unreadable.strerror}") from unreadable
        now = await asyncio.to_thread(process_now, program.pid)
        lives = now is not None and now.started == program.started
        return RecordLook(program if lives else _ENDED, rests and file is not None, echo)

    async def send(self, text: str, mark: str) -> None:
        del mark
        server = await self.adapter.server_of(self.address)
        if server.program != program_in(self.fence, HARNESS):
            raise NotThere("its program is another one")
        await server.call("session.send", sessionId=self.fence.session_id, prompt=text, mode="enqueue")

    async def _rests(self, program: Program) -> bool:
        try:
            server = await self.adapter.server_of(self.address)
            if server.program != program or await foreground_of(server) != self.fence.session_id:
                return False
            return await standing_of(server, self.fence.session_id) == (False, False)
        except (NotThere, AnswerLost, Declined):
            return False


def home_of(configured: str, environment: Mapping[str, str]) -> Path:
    """Where Copilot CLI keeps its things."""
    home = environment.get("HOME") or str(Path.home())
    named = configured or environment.get("COPILOT_HOME") or f"{home}/.copilot"
    return Path(f"{home}/{named[2:]}" if named.startswith("~/") else named)


def _told_by(row: Mapping[str, Any]) -> str:
    return str(row.get("id") or "?") if row.get("type") == "user.message" else ""


def _said(what: str, vote: PresenceState) -> Evidence:
    return Evidence("session-state", vote, what, "session", PresenceSource.COPILOT_SERVER)
