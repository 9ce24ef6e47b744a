"""The Claude Code adapter keeps the contract of native channels, on a played session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from wake_bridge_adapters.claude_code import ClaudeCodeAdapter
from wake_bridge_adapters.claude_code.attempt import Patience
from wake_bridge_adapters.tables import ClaudeCodeConfig

from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address, Expected
from wake_bridge.ports.adapter import AdapterContext, Nowhere, Place
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.channel_contract import CHANNEL_PROMISES, ChannelPromise, ChannelScene
from wake_bridge.testing.claude_session import PlayedClaude, PlayedSessions

QUICK = Patience(written=0.2, queued=1.0, rest=0.3, proof=1.0)


def by_directory(identity: str, directory: Path, *, is_alone: bool = True) -> Address:
    """An address that knows of its Claude Code only where it works."""
    expected = Expected("claude", str(directory))
    return Address(Identity(identity), expected=expected, has_directory_to_itself=is_alone)


class ClaudeStage:
    """A played session with a monitor in it."""

    def __init__(self, claude: PlayedClaude) -> None:
        self.claude = claude
        self.sessions = PlayedSessions(claude)
        environment = {"CLAUDE_CONFIG_DIR": str(claude.directory)}
        context = AdapterContext(10, 10, "", environment, SteadyClock())
        self.adapter = ClaudeCodeAdapter(ClaudeCodeConfig(), context, QUICK)
        self.adapter.serve_sessions(self.sessions)
        self.address = by_directory("@agent", claude.room)
        self.nowhere = by_directory("@nobody", claude.directory)
        self._rung = 0

    def shows(self, scene: ChannelScene) -> None:
        self.claude.draft = "half a thought" if scene == "draft" else ""
        if scene == "gone":
            self.claude.dies()
        else:
            self.claude.shows("shell" if scene in {"idle", "draft"} else scene)
        self._rung = len(self.sessions.lines)

    def submitted(self) -> list[str]:
        return self.sessions.lines

    def was_touched(self) -> bool:
        return len(self.sessions.lines) > self._rung

    def composer(self) -> str:
        return self.claude.draft


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ClaudeStage]:
    room = tmp_path / "project"
    room.mkdir()
    with PlayedClaude(tmp_path / "claude", room) as claude:
        yield ClaudeStage(claude)


@pytest.mark.parametrize("promise", CHANNEL_PROMISES, ids=lambda promise: promise.__name__)
def test_claude_code_keeps_the_promise(promise: ChannelPromise, stage: ClaudeStage) -> None:
    """What `ports/adapter.py` says, for the channel into Claude Code."""
    asyncio.run(promise(stage))


def test_a_directory_that_another_identity_shares_tells_nothing(stage: ClaudeStage) -> None:
    """Exactly one, never a guess: the session that happens to be there may be the other's."""
    resolve = stage.adapter.resolve
    assert isinstance(asyncio.run(resolve(by_directory("@agent", stage.claude.room))), Place)
    assert isinstance(asyncio.run(resolve(by_directory("@agent", stage.claude.room, is_alone=False))), Nowhere)
