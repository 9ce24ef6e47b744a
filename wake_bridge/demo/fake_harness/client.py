"""Drives a fake harness from a test: starts it, switches it, and reads what it received."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, Final

from wake_bridge.demo import HUNG

_POLL: Final = 0.01
"""Seconds between two looks at the log."""


class FakeHarness:
    """One fake harness: the command that starts it in a pane, its control channel and its log.

    Args:
        directory: where its log lies.
        name: shown in its title; several in one directory need different ones.
    """

    def __init__(self, directory: Path, name: str = "fake") -> None:
        self.name = name
        self.log = directory / f"{name}.jsonl"
        # a Unix socket's path has room for about a hundred bytes, less than test directories take
        channel = tempfile.mkdtemp(prefix="wbf-")
        self.socket = Path(channel) / "control"
        weakref.finalize(self, shutil.rmtree, channel, ignore_errors=True)

    def command(self, *options: str) -> list[str]:
        """The argv that starts it; `options` as on its command line."""
        return [
            sys.executable,
            "-m",
            "wake_bridge.demo.fake_harness",
            "--name",
            self.name,
            "--log",
            str(self.log),
            "--control",
            str(self.socket),
            *options,
        ]

    def command_before_shell(self, *options: str) -> str:
        """A line for the shell: it starts the harness as a shell would, and a shell takes over when it ends."""
        # set -m: the harness gets a process group of its own, as under the shell a person types into
        return f"set -m; {shlex.join(self.command(*options))}; exec sh"

    def control(self, timeout: float = HUNG, **message: Any) -> dict[str, Any]:
        """Send one control message; the state after it. Waits for the harness to come up, `timeout` seconds at most.

        Raises:
            TimeoutError: nothing answers.
            ValueError: the harness refuses the message.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer = self._ask(message, timeout)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the fake harness {self.name!r} does not answer: {error}") from error
                time.sleep(_POLL)
        if not answer.get("ok"):
            raise ValueError(answer.get("error", "refused"))
        return answer

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(self.socket))
            connection.sendall(json.dumps(message).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
        if not line:
            raise ConnectionResetError("it ended before it answered")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def shows(self, mode: str, text: str = "", *, keep: bool = False) -> None:
        """Put it into a mode; afterwards the composer holds `text`, or with `keep` what it held."""
        if mode in {"crash", "exit"}:
            self._leave(mode)
        else:
            self.control(mode=mode, text=text, keep=keep)

    def _leave(self, mode: str) -> None:
        before = len(self.events("exited"))
        try:
            self.control(mode=mode)
        except TimeoutError:
            if len(self.events("exited")) == before:
                raise
        self.waits_for("exited", count=before + 1)

    def turn(self, **knobs: int | bool | str) -> None:
        """Turn knobs while it runs."""
        self.control(set=knobs)

    def state(self) -> dict[str, Any]:
        """Its mode, composer, cursor and number of submits, now."""
        return self.control()

    def records(self) -> list[dict[str, Any]]:
        """Everything in its log so far, oldest first."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def events(self, event: str) -> list[dict[str, Any]]:
        """The records of one kind."""
        return [record for record in self.records() if record["event"] == event]

    def submits(self) -> list[str]:
        """What was submitted, in order."""
        return [record["text"] for record in self.events("submit")]

    def bytes_received(self) -> bytes:
        """Every byte that reached it."""
        return b"".join(bytes.fromhex(record["hex"]) for record in self.events("bytes"))

    def waits_for(self, event: str, count: int = 1, timeout: float = HUNG) -> list[dict[str, Any]]:
        """The records of one kind, once there are `count` of them.

        Raises:
            TimeoutError: they did not come within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            size = self._size()
            if len(found := self.events(event)) >= count:
                return found
            while self._size() == size:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.name!r} has {len(found)} of {count} {event!r} in its log")
                time.sleep(_POLL)

    def _size(self) -> int:
        """Bytes of its log, which only grows."""
        return self.log.stat().st_size if self.log.exists() else 0
