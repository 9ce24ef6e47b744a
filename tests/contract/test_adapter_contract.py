"""One contract suite runs on every adapter and its fake."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from wake_bridge_adapters.heartbeat import HeartbeatAdapter
from wake_bridge_adapters.osascript import OsascriptAdapter
from wake_bridge_adapters.tables import HeartbeatConfig, OsascriptConfig, TmuxConfig
from wake_bridge_adapters.tmux import TmuxAdapter

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import AdapterContext, Place
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.adapter_contract import PROMISES, AdapterStage, Promise, Scene
from wake_bridge.testing.mac_desktop import MacDesktop
from wake_bridge.testing.memory_adapter import ImaginedAgent, MemoryAdapter, MemoryConfig

AGENT = Identity("@agent")
CONTEXT = AdapterContext(timeout=10, typing_quiet=10, screens_directory="", environment=os.environ, clock=SteadyClock())


class MemoryStage:
    """The fake adapter and its imagined agent."""

    STATES: ClassVar = {
        "idle": PresenceState.IDLE,
        "busy": PresenceState.ACTIVE,
        "draft": PresenceState.IDLE,
        "approval": PresenceState.WAITING_ON_APPROVAL,
    }

    def __init__(self) -> None:
        self.adapter = MemoryAdapter(MemoryConfig(), CONTEXT)
        self.agent = self.adapter.agents["one"] = ImaginedAgent()
        self.address = Address(AGENT, pane="one")
        self.nowhere = Address(AGENT, pane="none")

    def shows(self, scene: Scene) -> None:
        self.agent.state = self.STATES[scene]
        self.agent.composer = "half a thought" if scene == "draft" else ""
        self.agent.keys = 0

    def submitted(self) -> list[str]:
        return self.agent.received

    def was_touched(self) -> bool:
        return self.agent.keys > 0


class TmuxStage:
    """The tmux adapter and the fake harness in a real pane."""

    def __init__(self, tmux: PrivateTmux, directory: Path) -> None:
        self.fake = FakeHarness(directory)
        self.pane = tmux.new_pane(self.fake.command(), session="agents", width=100, height=24)
        self.adapter = TmuxAdapter(TmuxConfig(socket_name=tmux.socket_name), CONTEXT)
        self.address = Address(AGENT, pane="agents")
        self.nowhere = Address(AGENT, pane="agent")
        self._received = 0
        self.fake.waits_for("started")

    def shows(self, scene: Scene) -> None:
        self.fake.shows(scene, "half a thought" if scene == "draft" else "")
        self._received = len(self.fake.bytes_received())

    def submitted(self) -> list[str]:
        return self.fake.submits()

    def was_touched(self) -> bool:
        # a byte that is on its way needs a moment to be written down
        time.sleep(0.05)
        return len(self.fake.bytes_received()) > self._received


class OsascriptStage:
    """The osascript adapter and a session of iTerm2 on a played desktop, in which a process called claude lives."""

    RULE: ClassVar = "─" * 120
    SCENES: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "idle": {"title": "✳ Claude Code", "busy": False},
        "busy": {"title": "⠂ Claude Code", "busy": True},
        "draft": {"title": "✳ Claude Code", "composer": "half a thought"},
        "approval": {
            "title": "✳ Claude Code",
            "frame": "",
            "below": [" Do you want to proceed?", " ❯ 1. Yes", "   2. No"],
        },
    }

    def __init__(self, directory: Path, pid: int) -> None:
        self.desktop = MacDesktop(directory / "mac")
        self.desktop.open_session("iterm", "w0t0p0", "/dev/ttys003", [pid])
        environment = {**self.desktop.environment, "TMPDIR": str(directory)}
        context = AdapterContext(10, 10, "", environment, SteadyClock())
        self.adapter = OsascriptAdapter(OsascriptConfig(), context)
        self.address = Address(AGENT, pane="iTerm2:ttys003")
        self.nowhere = Address(AGENT, pane="iTerm2:ttys004")

    def shows(self, scene: Scene) -> None:
        blank = {"composer": "", "below": ["  ? for shortcuts"], "busy": False}
        frame = f"{self.RULE}\n❯\u00a0{{}}\n{self.RULE}"
        kept = [f"> {text}" for text in self.submitted()]
        above = ["❯\u00a0hello", "● hi", "", *kept, ""]
        self.desktop.change_session("w0t0p0", **{**blank, "frame": frame, "above": above, **self.SCENES[scene]})
        self.desktop.change(keys=[])
        # a look that is five seconds old would be answered again
        self.adapter._latest.clear()

    def submitted(self) -> list[str]:
        (session,) = self.desktop.read()["sessions"]
        return list(session["submitted"])

    def was_touched(self) -> bool:
        return bool(self.desktop.read()["keys"])


class CarriedStage:
    """The heartbeat adapter on another's stage, through that one's adapter."""

    def __init__(self, carrier: MemoryStage | TmuxStage) -> None:
        self._carrier = carrier
        self.adapter = HeartbeatAdapter(HeartbeatConfig(), CONTEXT)
        self.adapter.ride_on(lambda _: carrier.adapter)
        self.address = carrier.address
        self.nowhere = carrier.nowhere
        self.shows = carrier.shows
        self.submitted = carrier.submitted
        self.was_touched = carrier.was_touched


@pytest.fixture(params=["memory", "tmux", "osascript", "heartbeat on memory", "heartbeat on tmux"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AdapterStage]:
    if request.param == "osascript":
        with subprocess.Popen(["claude", "600"], executable="/bin/sleep") as process:
            yield OsascriptStage(tmp_path, process.pid)
            process.kill()
        return
    with PrivateTmux() as tmux:
        own = MemoryStage() if "memory" in request.param else TmuxStage(tmux, tmp_path)
        yield CarriedStage(own) if "heartbeat" in request.param else own


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_every_adapter_keeps_the_promise(promise: Promise, stage: AdapterStage) -> None:
    """What `ports/adapter.py` says, for every bundled adapter and for the fake alike."""
    asyncio.run(promise(stage))


def test_the_heartbeat_remembers_who_carries_it_to_the_places_alone_that_are_watched() -> None:
    """Agents move and end; each place that they ever had was kept until a restart."""
    carrier = MemoryAdapter(MemoryConfig(), CONTEXT)
    carrier.agents |= {"one": ImaginedAgent(), "two": ImaginedAgent()}
    heartbeat = HeartbeatAdapter(HeartbeatConfig(), CONTEXT)
    heartbeat.ride_on(lambda _: carrier)

    async def moves() -> tuple[Place, Mapping[str, str]]:
        await heartbeat.resolve(Address(AGENT, pane="one"))
        there = await heartbeat.resolve(Address(AGENT, pane="two"))
        assert isinstance(there, Place)
        return there, await heartbeat.survey([there])

    there, signs = asyncio.run(moves())

    assert list(signs) == list(heartbeat._carriers) == [there.key]
