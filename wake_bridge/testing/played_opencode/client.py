"""Starts, drives and ends the played OpenCode."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, Self
from urllib.request import ProxyHandler, Request, build_opener

from wake_bridge.demo.sandbox import end_process_with_us
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.clock import Clock
from wake_bridge.testing import HUNG
from wake_bridge.testing.played_opencode import server
from wake_bridge.testing.played_screen import PlayedScreen

SESSION: Final = "ses_dd7208a7bffeehHkZD5qY7hFph"
TITLE: Final = "Review of the cursor fix"


class PlayedOpenCode:
    """A process of the real one's name, with its server, in a pane of `owner`. Use as a context manager.

    Attributes:
        screen: the pane.
        process: the program, None while there is none.
    """

    def __init__(self, owner: Identity, clock: Clock, name: str = "opencode") -> None:
        self.screen = PlayedScreen(owner, "opencode", clock)
        self._folder = tempfile.TemporaryDirectory(prefix="wake-bridge-opencode-")
        self._program = Path(self._folder.name) / name
        self._program.symlink_to(Path(sys.executable).resolve())
        self.process: subprocess.Popen[str] | None = None
        self._port = 0
        self.starts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_killed()
        self._folder.cleanup()

    def starts(self, sessions: dict[str, Any] | None = None, messages: dict[str, Any] | None = None) -> None:
        """Start it, if it is not running, in a conversation that is at rest."""
        if self.process is not None and self.process.poll() is None:
            return
        self.is_killed()
        command = [str(self._program), "-S", server.__file__, "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        end_process_with_us(self.process.pid)
        if self.process.stdout is None:
            raise RuntimeError("the played OpenCode did not start")
        self._port = int(self.process.stdout.readline())
        self.screen.agent_pid = self.process.pid
        self.plays(sessions=sessions or {SESSION: {"title": TITLE}}, messages=messages or {})
        self.shows(SESSION)

    def begins_anew(self) -> None:
        """As it was at first, in the same process if it lives."""
        self.starts()
        self.plays(**server.FRESH, sessions={SESSION: {"title": TITLE}})
        self.screen.agent_pid = self.process.pid if self.process is not None else 0
        self.screen.vote = PresenceState.IDLE
        self.shows(SESSION)

    def shows(self, session: str) -> None:
        """Let the screen show that conversation."""
        self.screen.title = f"OC | {self.told()['sessions'][session]['title']}"

    def is_killed(self) -> None:
        """Kill it, if it still lives."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=HUNG)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def plays(self, **state: Any) -> None:
        """Change what it answers from now on: see `server.STATE`."""
        self._call("POST", state)

    def scene(self, name: str) -> None:
        """Bring its conversation into a scene of the contract."""
        self.starts()
        is_busy = name in {"busy", "approval"}
        asks = [SESSION] if name == "approval" else []
        begun = [{"info": {"id": "msg_0", "role": "user"}, "parts": []}] if is_busy else []
        self.plays(statuses={SESSION: "busy"} if is_busy else {}, permission=asks, messages={SESSION: begun})
        self.screen.vote = PresenceState.USER_TYPING if name == "draft" else PresenceState.IDLE

    def told(self) -> dict[str, Any]:
        """All that it has been told and asked."""
        return self._call("GET", None)

    def given(self, session: str = SESSION) -> list[str]:
        """The texts in the record of a conversation."""
        messages = self.told()["messages"].get(session, []) if self.process is not None else []
        return [part["text"] for message in messages for part in message["parts"]]

    def _call(self, method: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self._port}/played", data, method=method)
        with build_opener(ProxyHandler({})).open(request, timeout=HUNG) as answer:
            found: dict[str, Any] = json.load(answer)
        return found
