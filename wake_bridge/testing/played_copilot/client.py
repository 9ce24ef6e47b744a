"""Starts, drives and ends the played Copilot CLI."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from wake_bridge.demo.sandbox import end_process_with_us
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.clock import Clock
from wake_bridge.testing import HUNG
from wake_bridge.testing.played_copilot import server
from wake_bridge.testing.played_screen import PlayedScreen

SESSION: Final = str(server.FRESH["foreground"])


class PlayedCopilot:
    """A process of the real one's name, with its server and record below `home`, in a pane of `owner`. A context manager.

    Attributes:
        screen: the pane.
        process: the program, None while there is none.
    """

    def __init__(self, home: Path, owner: Identity, clock: Clock) -> None:
        self.home = home
        self.screen = PlayedScreen(owner, "copilot", clock)
        self.process: subprocess.Popen[str] | None = None
        self._port = 0
        home.mkdir(parents=True, exist_ok=True)
        self._program = home / "copilot"
        self._program.symlink_to(Path(sys.executable).resolve())
        self.starts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_killed()

    def record(self, session: str = SESSION) -> Path:
        """The record of a session, which is begun if it was not."""
        file = self.home / "session-state" / session / "events.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return file

    def starts(self) -> None:
        """Start it, if it is not running, at rest in its session."""
        if self.process is not None and self.process.poll() is None:
            return
        self.is_killed()
        self.record()
        command = [str(self._program), "-S", server.__file__, str(self.home)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        end_process_with_us(self.process.pid)
        if self.process.stdout is None:
            raise RuntimeError("the played Copilot CLI did not start")
        self._port = int(self.process.stdout.readline())
        self.screen.agent_pid = self.process.pid

    def begins_anew(self) -> None:
        """As it was at first, in the same process if it lives."""
        self.starts()
        self.plays(**server.FRESH)
        self.record().write_text("", encoding="utf-8")
        self.screen.agent_pid = self.process.pid if self.process is not None else 0
        self.screen.vote = PresenceState.IDLE

    def is_killed(self) -> None:
        """Kill it, if it still lives."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=HUNG)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def scene(self, name: str) -> None:
        """Bring its session into a scene of the contract."""
        self.starts()
        pending = [{"requestId": "r-1"}] if name == "approval" else []
        self.plays(processing=name in {"busy", "approval"}, pending=pending)
        self.screen.vote = PresenceState.USER_TYPING if name == "draft" else PresenceState.IDLE

    def plays(self, **state: Any) -> dict[str, Any]:
        """Change what it answers from now on, see `server.FRESH`; answers all that it has been told and asked."""
        body = json.dumps({"id": 1, "method": "played", "params": state}).encode()
        with socket.create_connection(("127.0.0.1", self._port), timeout=HUNG) as link, link.makefile("rwb") as lines:
            lines.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            lines.flush()
            length = int(lines.readline().split(b":")[1])
            lines.readline()
            found: dict[str, Any] = json.loads(lines.read(length))["result"]
        return found

    def told(self) -> dict[str, Any]:
        """All that it has been told and asked."""
        return self.plays()

    def given(self, session: str = SESSION) -> list[str]:
        """The texts in the record of a session."""
        rows = [json.loads(line) for line in self.record(session).read_text(encoding="utf-8").splitlines()]
        return [str(row["data"]["content"]) for row in rows if row["type"] == "user.message"]
