"""One bounded tmux call at a time (DESIGN §6: every external call is bounded, its exit status and stderr are read)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

NOT_FOUND: Final = 127
"""The exit status a shell gives for a program that is not there."""

_AT_ONCE: Final = 4
"""Calls to one server at the same time. Each server has threads of its own: one that hangs holds up no other."""

_HUNG_UP: Final = "server exited unexpectedly"
"""What a client says of a server that does not talk to it, alive or not."""

_OWN_VARIABLES: Final = frozenset({"TMUX", "TMUX_PANE"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call came to. Exit 0 proves only that tmux took the command."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False

    @property
    def is_well(self) -> bool:
        """Whether tmux ran the whole list of commands."""
        return self.returncode == 0 and not self.timed_out

    @property
    def complaint(self) -> str:
        """Why it is not well, one line."""
        if self.timed_out:
            return "tmux did not answer in time"
        said = self.stderr.strip().replace("\n", "; ")
        if said == _HUNG_UP:
            return f"{said}: it ended, or it is newer than the tmux on PATH"
        return said or f"tmux exited with {self.returncode}"


class TmuxServer:
    """The tmux server behind one socket.

    Args:
        socket: path of the socket; never the default one by accident, since it is always named.
        timeout: bound of one call in seconds.
        environment: for the tmux client; its `PATH` finds the program.
    """

    def __init__(self, socket: str, timeout: float, environment: Mapping[str, str]) -> None:
        self.socket = socket
        self._timeout = timeout
        self._environment = {name: value for name, value in environment.items() if name not in _OWN_VARIABLES}
        self._threads = ThreadPoolExecutor(_AT_ONCE, "tmux")

    async def ask(self, *commands: Sequence[str], stdin: str = "") -> Answer:
        """Run the commands as one list inside the server and return what they printed.

        tmux runs such a list in one go: nothing else happens between two of its commands, except while one waits for
        its stdin. A cancelled call is killed; what the server had taken by then it may still do.
        """
        program = shutil.which("tmux", path=self._environment.get("PATH"))
        if program is None:
            return Answer(NOT_FOUND, "", "tmux is not on PATH")
        argv = [program, "-u", "-S", self.socket, *joined(commands)]
        call = BoundedCall(argv, stdin, self._timeout, self._environment)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call.run)
        except asyncio.CancelledError:
            call.kill()
            raise


def joined(commands: Sequence[Sequence[str]]) -> list[str]:
    """One argument list of several commands.

    An argument that ends in `;` would end its command; tmux wants that one escaped.
    """
    words: list[str] = []
    for command in commands:
        if words:
            words.append(";")
        words.extend(f"{word[:-1]}\\;" if word.endswith(";") else word for word in command)
    return words


class BoundedCall:
    """A program in a process group of its own; the whole group is killed after `timeout` seconds, or before."""

    def __init__(self, argv: Sequence[str], stdin: str, timeout: float, environment: Mapping[str, str]) -> None:
        self._argv = argv
        self._stdin = stdin.encode()
        self._timeout = timeout
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._starting = threading.Lock()

    def run(self) -> Answer:
        """Run it to its end. Blocks."""
        with self._starting:
            if self._is_killed:
                return Answer(-signal.SIGKILL, "", "cancelled")
            self._process = process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        with process:
            try:
                output, complaints = process.communicate(self._stdin, self._timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                return Answer(process.wait(), "", "", timed_out=True)
        return Answer(process.returncode, output.decode("utf-8", "replace"), complaints.decode("utf-8", "replace"))

    def kill(self) -> None:
        """Kill it and all it started; from any thread, at any time."""
        with self._starting:
            self._is_killed = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
