"""One bounded call of another program: it is killed with its process group in time, and its exit status and stderr are read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

from wake_bridge.domain.values import dataclass

NOT_EXECUTABLE: Final = 126
"""The exit status a shell gives for a program that cannot be started."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call came to. Exit 0 proves only that the program took the command."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    program: str = "tmux"

    @property
    def is_well(self) -> bool:
        """Whether it ran to its end and found nothing wrong."""
        return self.returncode == 0 and not self.timed_out

    @property
    def complaint(self) -> str:
        """Why it is not well, one line."""
        if self.timed_out:
            return f"{self.program} did not answer in time"
        return self.stderr.strip().replace("\n", "; ") or f"{self.program} exited with {self.returncode}"


class BoundedCall:
    """A program in a process group of its own; the whole group is killed after `timeout` seconds, or before."""

    def __init__(self, argv: Sequence[str], stdin: str, timeout: float, environment: Mapping[str, str]) -> None:
        self._argv = argv
        self._program = PurePath(argv[0]).name
        self._stdin = stdin.encode()
        self._timeout = timeout
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._starting = threading.Lock()

    def run(self) -> CallResult:
        """Run it to its end. Blocks."""
        with self._starting:
            if self._is_killed:
                return CallResult(-signal.SIGKILL, "", "cancelled", program=self._program)
            try:
                self._process = process = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError as refusal:
                why = f"{self._argv[0]} cannot be started: {refusal.strerror}"
                return CallResult(NOT_EXECUTABLE, "", why, program=self._program)
        with process:
            try:
                output, errors = process.communicate(self._stdin, self._timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                return CallResult(process.wait(), "", "", timed_out=True, program=self._program)
        said, complaints = output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")
        return CallResult(process.returncode, said, complaints, program=self._program)

    def kill(self) -> None:
        """Kill it and all it started; from any thread, at any time."""
        with self._starting:
            self._is_killed = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
