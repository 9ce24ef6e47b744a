"""A Claude Code session as far as outsiders see one: its record, its transcript, and a monitor that waits in it.

Nothing runs but a process that stands for it. What a monitor writes is noted as the real program notes it (measured on
2.1.332): at once in its queue, then as a message of the conversation, while a turn runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal, Self

import psutil

from wake_bridge.domain.names import Identity
from wake_bridge.domain.sessions import Session

Hearing = Literal["tells", "only by hook", "only turns busy", "queues", "drops", "swallows", "dies with it"]
"""What comes of a line.

The agent is given it; so it is, and only a hook says so, or only the record; it stays in the queue; it is written and comes
to nothing; nobody can tell whether it was written; the program ends with it.
"""

_SCENES: Final[dict[str, dict[str, str]]] = {
    "idle": {"status": "idle"},
    "shell": {"status": "shell"},
    "busy": {"status": "busy"},
    "approval": {"status": "waiting", "waitingFor": "permission prompt"},
}


_STANDS: Final = """
import signal, subprocess, sys, time
def spin(*_):
    while True: pass
signal.signal(signal.SIGUSR1, spin)
wait = [sys.executable, "-c", "import time; time.sleep(600)", "claude", "monitor"]
children = [subprocess.Popen(wait) for _ in range(int(sys.argv[1]))]
print("up", flush=True)
time.sleep(600)
"""


class PlayedClaude:
    """One session; a context manager that ends its process.

    Args:
        directory: what `CLAUDE_CONFIG_DIR` names.
        room: where it works.
        session_id: what it calls itself.
        monitors: how many processes below it stand for monitors of ours.
    """

    def __init__(
        self,
        directory: Path,
        room: Path,
        session_id: str = "5cba19df-1111-4222-8333-444455556666",
        *,
        monitors: int = 0,
    ) -> None:
        self.directory = directory
        self.session_id = session_id
        self.room = room
        self.process = subprocess.Popen([sys.executable, "-c", _STANDS, str(monitors)], stdout=subprocess.PIPE)
        if self.process.stdout is not None:
            self.process.stdout.readline()
        self.pid = self.process.pid
        self.started = _started(self.pid)
        self.draft = ""
        self._stamp = 1_795_816_628_572
        (directory / "sessions").mkdir(parents=True, exist_ok=True)
        self.shows("shell")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dies()

    @property
    def file(self) -> Path:
        """Its record."""
        return self.directory / "sessions" / f"{self.pid}.json"

    @property
    def transcript(self) -> Path:
        """What it writes down of the conversation."""
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(self.room))
        return self.directory / "projects" / folder / f"{self.session_id}.jsonl"

    def record(self, **changes: Any) -> dict[str, Any]:
        """The record as the real program writes it, with other values where the test wants some."""
        return {
            "pid": self.pid,
            "sessionId": self.session_id,
            "cwd": str(self.room),
            "startedAt": 1_795_816_621_912,
            "procStart": self.started,
            "version": "2.1.332",
            "peerProtocol": 1,
            "kind": "interactive",
            "entrypoint": "cli",
            "status": "idle",
            "updatedAt": self._stamp,
            "statusUpdatedAt": self._stamp,
            **changes,
        }

    def shows(self, scene: str, **changes: Any) -> None:
        """Write the record of a scene."""
        self._stamp += 1
        self.writes(json.dumps(self.record(**{**_SCENES[scene], **changes})))

    def writes(self, text: str) -> None:
        """Put any text in the record's place."""
        self.file.write_text(text, encoding="utf-8")

    def notes(self, kind: str, line: str) -> None:
        """Add a row with a monitor's line to the transcript."""
        said = f"<task-notification>\n<event>{line}</event>\n</task-notification>"
        row: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": said}}
        if kind == "queue-operation":
            row = {"type": kind, "operation": "enqueue", "content": said}
        self._says(row)

    def reaches_its_limit(self, resets_at: int | None) -> None:
        """Add the row of a turn that ended at the account's usage limit, as the real program writes it.

        `resets_at` is in seconds since 1970; None where the server did not say.
        """
        limits: dict[str, Any] = {"status": "rejected", "rateLimitType": "five_hour", "isUsingOverage": False}
        row = {
            "type": "assistant",
            "isSidechain": False,
            "message": {"role": "assistant", "content": [{"type": "text", "text": "You've hit your 5-hour limit"}]},
            "apiError": "usage_limit_reached",
            "quotaLimits": limits | ({} if resets_at is None else {"resetsAt": resets_at}),
            "isApiErrorMessage": True,
            "apiErrorStatus": 429,
        }
        self._says(row)
        self._says({"type": "last-prompt", "lastPrompt": "hello"})

    def _says(self, row: dict[str, Any]) -> None:
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**row, "sessionId": self.session_id}) + "\n")

    def suspends(self) -> None:
        """As Ctrl-Z does; returns when it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def gets_no_turn(self) -> None:
        """As on a machine that has no processor for it: its record rests, and it reads nothing; returns when that shows."""
        self.process.send_signal(signal.SIGUSR1)
        while psutil.Process(self.pid).status() != psutil.STATUS_RUNNING:
            time.sleep(0.01)

    def dies(self) -> None:
        """As by `kill -9`: the record stays behind."""
        if self.process.poll() is None:
            for child in psutil.Process(self.pid).children():
                child.kill()
        self.process.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process.wait()


class PlayedSessions:
    """`Sessions` for played sessions, by their ids. `hearing` is what comes of the next line.

    Args:
        claude: who is rung.
        identity: whose it made itself known as; empty where it never did.
    """

    def __init__(self, claude: PlayedClaude, identity: str = "") -> None:
        self._claude = claude
        self._identity = identity
        self.listening = {claude.session_id}
        self.hearing: Hearing = "tells"
        self.lines: list[str] = []
        self.marks: set[str] = set()

    def session(self, session_id: str) -> Session | None:
        """See `Sessions.session`."""
        if not self._identity or session_id != self._claude.session_id:
            return None
        return Session("claude", session_id, Identity(self._identity), pid=self._claude.pid)

    def listens(self, session_id: str) -> bool:
        """See `Sessions.listens`."""
        return session_id in self.listening

    async def ring(self, session_id: str, mark: str, line: str) -> bool | None:
        """See `Sessions.ring`."""
        if session_id not in self.listening:
            return False
        if self.hearing == "swallows":
            return None
        self.lines.append(line)
        if self.hearing in {"tells", "queues"}:
            self._claude.notes("queue-operation", line)
        if self.hearing == "tells":
            self._claude.shows("busy")
            self._claude.notes("user", line)
            self._claude.shows("shell")
        if self.hearing == "only by hook":
            self.marks.add(mark)
        if self.hearing == "only turns busy":
            self._claude.shows("busy")
        if self.hearing == "dies with it":
            self._claude.dies()
        return True

    async def heard(self, mark: str, patience: float) -> bool:
        """See `Sessions.heard`."""
        if mark not in self.marks:
            await asyncio.sleep(patience)
        return mark in self.marks


def _started(pid: int) -> str:
    """The process' start in the harness's words."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    answer = subprocess.run(
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
        env={"LC_ALL": "C", "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()
