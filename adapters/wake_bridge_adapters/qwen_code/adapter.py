"""The Qwen Code adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AdapterContext, Check, Nowhere, config_from
from wake_bridge_adapters.native_channel import HowItStands, NativeChannel
from wake_bridge_adapters.own_file import content_of, row_with
from wake_bridge_adapters.own_screen import OwnScreen, in_the_way
from wake_bridge_adapters.qwen_code.inbox import send
from wake_bridge_adapters.qwen_code.session import (
    HARNESS,
    QwenSession,
    home_of,
    session_in_group,
    sessions_in,
    told_by,
    transcript_of,
)
from wake_bridge_adapters.recorded import NotThere, Program, RecordLook, program_in

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import QwenCodeConfig

_TOKEN: Final = re.compile(r"qpc_[0-9a-f]{64}")
_LONGEST_TOKEN: Final = 4096
"""Bytes of the file: all that the command prints may stand in it."""

_ENDED: Final = Program(0, "")
_UNMINTED: Final = "no controller token: `qwen sessions controllers add --label wake-bridge`, into token_file"


@dataclass(frozen=True, slots=True)
class SeenSession:
    """The session of the program on an identity's screen, and what the screen showed."""

    session: QwenSession
    screen: OwnScreen
    seen: Observation

    @property
    def program(self) -> Program:
        """The program."""
        return self.session.program

    @property
    def id(self) -> str:
        """The conversation that its record names."""
        return self.session.id

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

    async def stands(self) -> HowItStands:
        """By its screen, whose two looks must agree."""
        evidence = self.evidence
        return HowItStands(evidence, self.seen.fingerprint and f"{evidence.vote} {self.seen.fingerprint}")


class QwenCodeAdapter(NativeChannel):
    """Wakes Qwen Code through its session's inbox: drafts and dialogs on its screen are not touched."""

    name: ClassVar[str] = HARNESS
    harness: ClassVar[str] = HARNESS
    called: ClassVar[str] = "Qwen Code session"
    source: ClassVar[PresenceSource] = PresenceSource.BRIDGE_DAEMON
    is_proof: ClassVar[bool] = False
    unanswered: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, guard="session id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:QwenCodeConfig")

    def __init__(self, config: QwenCodeConfig, context: AdapterContext) -> None:
        super().__init__(context)
        self.home = home_of(config.home, context.environment)
        self.timeout = context.timeout
        self._token_file = _expanded(config.token_file, context.environment)

    async def find(self, address: Address) -> SeenSession | Nowhere:
        """The session of the program on the identity's screen; without a token it can only be reached there."""
        if not await asyncio.to_thread(sessions_in, self.home):
            raise NotThere("no session of Qwen Code runs here")
        self.token()
        screen = await self.own_screen(address, "Qwen Code")
        found = await asyncio.to_thread(session_in_group, self.home, screen.agent_pid)
        if len(found) != 1:
            raise NotThere(f"the program on its screen keeps {len(found) or 'no'} records of a Qwen Code session")
        return SeenSession(found[0], screen, await screen.look(address))

    def conversation(self, fence: Binding, address: Address) -> _Inbox:
        """See `NativeChannel.conversation`."""
        del address
        return _Inbox(self, fence)

    async def probe(self) -> Sequence[Check]:
        """For `doctor`: how many sessions there are, and whether there is a token; nothing where Qwen Code does not run."""
        live = await asyncio.to_thread(sessions_in, self.home)
        if not live:
            return []
        try:
            self.token()
        except NotThere as missing:
            return [("qwen sessions", None, f"{len(live)} live, woken through their screens: {missing}", "")]
        return [("qwen sessions", True, f"{len(live)} live, woken through their inboxes", "")]

    def token(self) -> str:
        """What lets a message in. Raises `NotThere`."""
        if self._token_file is None:
            raise NotThere(_UNMINTED)
        content = content_of(self._token_file, _LONGEST_TOKEN)
        found = _TOKEN.search((content or b"").decode("utf-8", "replace"))
        if found is None:
            raise NotThere(f"{self._token_file} holds no controller token, or is not a file of yours")
        if self._token_file.stat().st_mode & 0o077:
            raise NotThere(f"others may read {self._token_file}: chmod 600")
        return found.group()


@dataclass(frozen=True, slots=True)
class _Inbox:
    """The conversation that a fence names: its inbox, and its transcript."""

    adapter: QwenCodeAdapter
    fence: Binding

    @property
    def where(self) -> str:
        return self.adapter.label_of(self.fence.session_id)

    async def look(self, mark: str) -> RecordLook:
        """Only its end proves that it never came: while it lives, what it has not read yet looks as what it never got."""
        program = program_in(self.fence, HARNESS)
        if program is None:
            raise NotThere("the conversation to which it may have been sent is not known")
        return await asyncio.to_thread(self._looked, program, mark)

    def _looked(self, program: Program, mark: str) -> RecordLook:
        lives = any(one.program == program for one in sessions_in(self.adapter.home))
        file = transcript_of(self.adapter.home, self.fence.session_id)
        try:
            echo = row_with(file, mark, told_by) if file is not None else ""
        except OSError as unreadable:
            raise NotThere(f"its transcript cannot be read: {unreadable.strerror}") from unreadable
        return RecordLook(program if lives else _ENDED, is_at_rest=False, echo=echo)

    async def send(self, text: str, mark: str) -> None:
        program = program_in(self.fence, HARNESS)
        session = next((one for one in sessions_in(self.adapter.home) if one.program == program), None)
        if session is None or session.id != self.fence.session_id:
            raise NotThere("its program has another conversation, or has ended")
        await send(session, self.adapter.token(), text, mark, self.adapter.timeout)


def _expanded(path: str, environment: Mapping[str, str]) -> Path | None:
    if not path:
        return None
    home = environment.get("HOME") or str(Path.home())
    return Path(f"{home}/{path[2:]}" if path.startswith("~/") else path)
