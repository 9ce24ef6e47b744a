"""Starts, drives and ends the fake app-server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, Self

from websockets.sync.client import unix_connect

from wake_bridge.demo.fake_harness import terminal
from wake_bridge.testing import HUNG
from wake_bridge.testing.fake_app_server.server import SOCKET, Book

READS: Final = frozenset(
    {"initialize", "thread/loaded/list", "thread/read", "thread/turns/list", "thread/items/list", "thread/queue/list"}
)
"""What only asks."""


class FakeTerminal:
    """A process of the real one's name that is a client of the app-server of `home`."""

    def __init__(self, home: Path, directory: Path) -> None:
        self._home = home
        self._folder = tempfile.TemporaryDirectory(prefix="wake-bridge-codex-")
        program = Path(self._folder.name) / "codex"
        program.symlink_to(Path(sys.executable).resolve())
        command = [str(program), "-S", terminal.__file__, os.path.realpath(home / SOCKET)]
        self._process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
        self.waits_until_connected()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def waits_until_connected(self) -> None:
        """Return once it is a client, after its own start or after the server's."""
        if self._process.stdout is None or self._process.stdout.readline().strip() != "connected":
            raise RuntimeError("the fake terminal did not connect")

    def opens(self, thread_id: str, at: float | None = None) -> None:
        """Note, as the real one does, that it has opened a thread, now or at another time in seconds since 1970."""
        note = self._home / "tui-thread-reference-capabilities" / thread_id
        note.parent.mkdir(exist_ok=True)
        note.touch()
        if at is not None:
            os.utime(note, (at, at))

    def ends(self) -> None:
        """End it, as by a hang-up."""
        self._process.kill()
        self._process.wait(timeout=HUNG)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()


class FakeAppServer:
    """A fake app-server in a process of its own, in `home`. Use as a context manager."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        # the path of a socket must be short
        self._directory = tempfile.TemporaryDirectory(prefix="wake-bridge-codex-")
        self._process: subprocess.Popen[str] | None = None
        self._terminals: list[FakeTerminal] = []
        self.starts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_killed()
        for one in self._terminals:
            one.ends()
        self._directory.cleanup()

    @property
    def pid(self) -> int:
        """The process's id, 0 while there is none."""
        return self._process.pid if self._process else 0

    def starts(self) -> None:
        """Start it, if it is not running, and wait until it listens; no thread is loaded then."""
        if self._process is not None and self._process.poll() is None:
            return
        self._reaped()
        command = [sys.executable, "-m", "wake_bridge.testing.fake_app_server", str(self.home)]
        command.append(f"{self._directory.name}/socket")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self._process.stdout is None or self._process.stdout.readline().strip() != "listening":
            raise RuntimeError("the fake app-server did not start")

    def is_killed(self) -> None:
        """Kill it, if it still lives."""
        if self._process is not None:
            self._process.kill()
        self._reaped()

    def waits_for_its_end(self) -> None:
        """Wait until it has died of a fault. Raises `subprocess.TimeoutExpired`."""
        if self._process is not None:
            self._process.wait(timeout=HUNG)

    def is_stopped(self) -> None:
        """Let it answer nothing from now on, without ending it."""
        os.kill(self.pid, signal.SIGSTOP)

    def goes_on(self) -> None:
        """The end of that."""
        os.kill(self.pid, signal.SIGCONT)

    def plays(self, method: str, /, **told: Any) -> Any:
        """Have it do one of `fake/…`; answers its answer."""
        with unix_connect(os.path.realpath(self.home / SOCKET), uri="ws://localhost/", compression=None) as link:
            link.send(json.dumps({"id": 1, "method": f"fake/{method}", "params": told}))
            while True:
                answer = json.loads(link.recv(timeout=HUNG))
                if answer.get("id") == 1 and "method" not in answer:
                    return answer.get("result")

    def breaks_next(self, method: str, fault: str) -> None:
        """Let something go wrong with the next such request."""
        self.plays("next", method=method, fault=fault)

    def thread(self, thread_id: str, **told: Any) -> None:
        """Make or change a thread."""
        self.plays("thread", threadId=thread_id, **told)

    def opens_terminal(self, directory: Path, *shown: str) -> FakeTerminal:
        """Start a terminal program in `directory` that is a client, and has opened these threads."""
        made = FakeTerminal(self.home, directory)
        self._terminals.append(made)
        for thread_id in shown:
            made.opens(thread_id)
        return made

    def waits_for_terminals(self) -> None:
        """Return once every terminal is a client again, after a start that followed an end."""
        for one in self._terminals:
            one.waits_until_connected()

    def changes_asked_for(self) -> list[str]:
        """The methods of all requests of this process's life that were more than questions."""
        return [one["method"] for one in self.plays("seen")["requests"] if one["method"] not in READS]

    def answers(self) -> list[Any]:
        """What clients answered to requests of the server's own."""
        return list(self.plays("seen")["answers"])

    def recorded(self, thread_id: str) -> list[str]:
        """The texts of all messages in a thread's record, as it is on disk."""
        threads = Book(self.home).threads
        if thread_id not in threads:
            return []
        said = [item for _, item in threads[thread_id].items if item["type"] == "userMessage"]
        return ["".join(part["text"] for part in item["content"]) for item in said]

    def shown_to_the_model(self) -> list[str]:
        """Every text that was shown to the model, once for each time."""
        return [text for line in Book(self.home).asked() for text in line["texts"]]

    def _reaped(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=HUNG)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
