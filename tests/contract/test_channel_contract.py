"""One contract suite runs on every native adapter and its fake."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

import pytest
from wake_bridge_adapters.codex import CodexAdapter
from wake_bridge_adapters.copilot_cli import CopilotAdapter
from wake_bridge_adapters.opencode import OpenCodeAdapter
from wake_bridge_adapters.qwen_code import QwenCodeAdapter
from wake_bridge_adapters.tables import CodexConfig, CopilotConfig, OpenCodeConfig, QwenCodeConfig

from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.channel_contract import CHANNEL_PROMISES, ChannelPromise, ChannelScene, ChannelStage
from wake_bridge.testing.fake_app_server import FakeAppServer
from wake_bridge.testing.memory_adapter import ImaginedAgent, ImaginedLine, MemoryChannel, MemoryConfig
from wake_bridge.testing.played_copilot import PlayedCopilot
from wake_bridge.testing.played_opencode import PlayedOpenCode
from wake_bridge.testing.played_qwen import PlayedQwen

AGENT = Identity("@agent")
CONTEXT = AdapterContext(timeout=10, typing_quiet=10, screens_directory="", environment={}, clock=SteadyClock())


class MemoryChannelStage:
    """The imagined channel and its agent."""

    STATES: ClassVar = {"busy": PresenceState.ACTIVE, "approval": PresenceState.WAITING_ON_APPROVAL}

    def __init__(self) -> None:
        self.adapter = MemoryChannel(MemoryConfig(), CONTEXT)
        self.line = self.adapter.lines[AGENT] = ImaginedLine(ImaginedAgent())
        self.address = Address(AGENT)
        self.nowhere = Address(Identity("@nobody"))

    def shows(self, scene: ChannelScene) -> None:
        self.line.is_open = scene != "gone"
        self.line.agent.state = self.STATES.get(scene, PresenceState.IDLE)
        self.line.agent.composer = "half a thought" if scene == "draft" else ""
        self.line.sends = 0

    def submitted(self) -> list[str]:
        return self.line.agent.received

    def was_touched(self) -> bool:
        return self.line.sends > 0

    def composer(self) -> str:
        return self.line.agent.composer


class CodexStage:
    """The codex adapter and the fake app-server in a process of its own."""

    THREAD: Final = "01a220c2-df1b-7ba2-9dbf-12cb1539168c"

    def __init__(self, server: FakeAppServer) -> None:
        self._server = server
        self.adapter = CodexAdapter(CodexConfig(home=str(server.home)), CONTEXT)
        self.address = Address(AGENT, sessions=(Session("codex", self.THREAD, AGENT),))
        self.nowhere = Address(AGENT, sessions=(Session("codex", "01a220c2-0000-7000-8000-000000000000", AGENT),))
        self._changes: list[str] = []
        server.opens_terminal(server.home, self.THREAD)

    def shows(self, scene: ChannelScene) -> None:
        if scene == "gone":
            self._server.is_killed()
            return
        self._server.starts()
        self._server.thread(self.THREAD, scene="idle" if scene == "draft" else scene)
        self._changes = self._server.changes_asked_for()

    def submitted(self) -> list[str]:
        return self._server.recorded(self.THREAD)

    def was_touched(self) -> bool:
        return bool(self._server.pid) and self._server.changes_asked_for() != self._changes

    def composer(self) -> str:
        return ""


class ProgramStage:
    """The opencode or the copilot adapter, and a played program with its server and screen."""

    def __init__(self, adapter: OpenCodeAdapter | CopilotAdapter, played: PlayedOpenCode | PlayedCopilot) -> None:
        self._played = played
        self.adapter = adapter
        self.adapter.see_through(played.screen.of)
        self.address, self.nowhere = Address(AGENT), Address(Identity("@nobody"))
        self._asked: list[str] = []

    def shows(self, scene: ChannelScene) -> None:
        if scene == "gone":
            self._played.is_killed()
            return
        self._played.scene(scene)
        self._asked = self._played.told()["asked"]

    def submitted(self) -> list[str]:
        return self._played.given()

    def was_touched(self) -> bool:
        return self._played.process is not None and self._played.told()["asked"] != self._asked

    def composer(self) -> str:
        return ""


class QwenStage:
    """The qwen adapter, and a played session with its inbox and screen."""

    def __init__(self, played: PlayedQwen) -> None:
        self._played = played
        self.adapter = QwenCodeAdapter(
            QwenCodeConfig(home=str(played.home), token_file=str(played.token_file)), CONTEXT
        )
        self.adapter.see_through(played.screen.of)
        self.address, self.nowhere = Address(AGENT), Address(Identity("@nobody"))
        self._had = 0

    def shows(self, scene: ChannelScene) -> None:
        self._played.scene(scene)
        self._had = len(self._played.settled)

    def submitted(self) -> list[str]:
        return self._played.texts()

    def was_touched(self) -> bool:
        return len(self._played.settled) != self._had

    def composer(self) -> str:
        return ""


@pytest.fixture(params=["memory", "codex", "opencode", "qwen", "copilot"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChannelStage]:
    if request.param == "memory":
        yield MemoryChannelStage()
        return
    if request.param == "opencode":
        with PlayedOpenCode(AGENT, CONTEXT.clock) as played:
            yield ProgramStage(OpenCodeAdapter(OpenCodeConfig(), CONTEXT), played)
        return
    if request.param == "copilot":
        home = tmp_path / "copilot"
        with PlayedCopilot(home, AGENT, CONTEXT.clock) as copilot:
            yield ProgramStage(CopilotAdapter(CopilotConfig(home=str(home)), CONTEXT), copilot)
        return
    if request.param == "qwen":
        with PlayedQwen(tmp_path / "qwen", AGENT, CONTEXT.clock) as session:
            yield QwenStage(session)
        return
    with FakeAppServer(tmp_path / "codex") as server:
        yield CodexStage(server)


@pytest.mark.parametrize("promise", CHANNEL_PROMISES, ids=lambda promise: promise.__name__)
def test_every_native_adapter_keeps_the_promise(promise: ChannelPromise, stage: ChannelStage) -> None:
    """What `ports/adapter.py` says, for channels that do not go through the composer."""
    asyncio.run(promise(stage))
