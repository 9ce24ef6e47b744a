"""One contract suite runs on every native adapter and its fake (DESIGN §11)."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.edges.steady_clock import SteadyClock
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.testing.channel_contract import CHANNEL_PROMISES, ChannelPromise, ChannelScene, ChannelStage
from wake_bridge.testing.memory_adapter import ImaginedAgent, MemoryConfig
from wake_bridge.testing.memory_channel import ImaginedLine, MemoryChannel

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


@pytest.fixture
def stage() -> ChannelStage:
    return MemoryChannelStage()


@pytest.mark.parametrize("promise", CHANNEL_PROMISES, ids=lambda promise: promise.__name__)
def test_every_native_adapter_keeps_the_promise(promise: ChannelPromise, stage: ChannelStage) -> None:
    """DESIGN §§7, 8: what `ports/adapter.py` says, for channels that do not go through the composer."""
    asyncio.run(promise(stage))
