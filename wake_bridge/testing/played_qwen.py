"""A session of Qwen Code as somebody outside sees it: its record, its inbox, its transcript and its screen; for tests.

The process is the test's own. What the inbox does with a message is what 0.24.4 was seen to do.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.clock import Clock
from wake_bridge.system.processes import processes
from wake_bridge.testing.played_screen import PlayedScreen

TOKEN: Final = f"qpc_{'a1' * 32}"
SESSION: Final = "2a80fffd-b042-490f-8ba7-ca8deece706c"
_VOTES: Final = {
    "busy": PresenceState.ACTIVE,
    "approval": PresenceState.WAITING_ON_APPROVAL,
    "draft": PresenceState.USER_TYPING,
}


class PlayedQwen:
    """One session in a directory of Qwen Code's. Use as a context manager.

    Attributes:
        session: the conversation; `is_there` writes the record anew.
        verdict: the receipt that a message gets, empty for none.
        writes_down: whether a message that was taken comes into the transcript.
        messages: all that came with a token that counts.
        settled: the verdict on each id that was met.
        said: every line that came, whoever sent it.
        reads: set while it reads what comes; cleared on a machine that gives it no time.
    """

    def __init__(self, home: Path, owner: Identity, clock: Clock) -> None:
        self.home = home
        self.screen = PlayedScreen(owner, "qwen", clock)
        self.screen.agent_pid = os.getpid()
        self.token_file = home / "token"
        self.session = SESSION
        self.verdict = "delivered"
        self.writes_down = True
        self.messages: list[dict[str, Any]] = []
        self.settled: dict[str, str] = {}
        self.said: list[Any] = []
        self.reads = threading.Event()
        self.reads.set()
        self._folder = tempfile.mkdtemp(prefix="wake-bridge-", dir="/tmp")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"{self._folder}/inbox")
        self._socket.listen()
        self._thread = threading.Thread(target=self._serves, name="played inbox", daemon=True)
        (home / "sessions").mkdir(parents=True)
        (home / "projects/-room/chats").mkdir(parents=True)
        self.transcript.touch()
        self.token_file.touch(0o600)
        self.token_file.write_text(f"{TOKEN}\n", encoding="ascii")

    def __enter__(self) -> Self:
        self._thread.start()
        self.is_there()
        return self

    def __exit__(self, *_: object) -> None:
        self.reads.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        shutil.rmtree(self._folder)

    @property
    def record(self) -> Path:
        """Its record."""
        return self.home / "sessions" / f"{os.getpid()}.json"

    @property
    def transcript(self) -> Path:
        """The transcript of its conversation."""
        return self.home / "projects/-room/chats" / f"{self.session}.jsonl"

    def is_there(self, **changes: Any) -> None:
        """Write the record, as 0.24.4 does, with these changes."""
        boot = Path("/proc/sys/kernel/random/boot_id")
        record = {
            "schemaVersion": 1,
            "pid": os.getpid(),
            "procStart": f"{boot.read_text().strip()}:{processes().started_at(os.getpid())}" if boot.exists() else None,
            "sessionId": self.session,
            "cwd": "/room",
            "qwenVersion": "0.24.4",
            "kind": "tui",
            "ipcPath": f"{self._folder}/inbox",
            "ipcToken": "c0ffee",
        }
        self.record.write_text(json.dumps({**record, **changes}), encoding="utf-8")

    def scene(self, name: str) -> None:
        """Bring it into a scene of the contract."""
        if name == "gone":
            self.record.unlink()
            return
        self.is_there()
        self.screen.vote = _VOTES.get(name, PresenceState.IDLE)

    def texts(self) -> list[str]:
        """What the model was given."""
        return [str(one["message"]["content"]) for one in self.messages]

    def _serves(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            self.reads.wait()
            with link, link.makefile("rb") as lines:
                said = [json.loads(line) for line in lines]
            self.said += said
            if said and said[0].get("type") == "auth" and said[0].get("token") == TOKEN:
                for message in said[1:]:
                    self._takes(message)

    def _takes(self, message: dict[str, Any]) -> None:
        name = str(message["msgId"])
        verdict = self.settled.get(name) or (self.verdict if message["toSessionId"] == self.session else "misaddressed")
        if verdict == "delivered" and name not in self.settled:
            self.messages.append(message)
            if self.writes_down:
                row = {"type": "user", "subtype": "notification", "uuid": "u-1", "message": message["message"]}
                with self.transcript.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        self.settled[name] = verdict
        if verdict:
            receipt = {"type": "control", "action": "delivery_status", "status": verdict, "origMsgId": name}
            # whoever sent it may have gone on by now
            with suppress(OSError), socket.socket(socket.AF_UNIX) as back:
                back.connect(message["from"])
                lines = [{"type": "auth", "token": message["replyToken"]}, receipt]
                back.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
