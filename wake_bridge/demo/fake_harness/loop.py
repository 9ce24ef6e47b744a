"""The fake harness's event loop: descriptors, signals, timers and commands in one `select`.

asyncio would do; to import it takes longer than all else that the harness does before it is drawn.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

COMMAND_TIMEOUT = 60.0
"""Seconds a command may take."""

_AGAIN = 0.01
"""Seconds after which a command that has closed its output is asked again whether it has ended."""


class Loop:
    """Calls what is due, on one thread: readers, timers, and handlers of signals."""

    def __init__(self) -> None:
        self._readers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timers_made = 0
        self._handlers: dict[int, Callable[[], None]] = {}
        self._commands: set[Command] = set()
        self._signals, arrives = os.pipe()
        for one in (self._signals, arrives):
            os.set_blocking(one, False)
        signal.set_wakeup_fd(arrives, warn_on_full_buffer=False)
        self.reads(self._signals, self._handle_signals)

    def reads(self, descriptor: int, act: Callable[[], None]) -> None:
        """Have `act` called whenever there is something to read."""
        self._readers[descriptor] = act

    def forgets(self, descriptor: int) -> None:
        """Read from it no more."""
        self._readers.pop(descriptor, None)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Have `act` called once, `seconds` from now; after what is done now, also where these are none."""
        self.at(time.monotonic() + seconds, act)

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """The same, at a moment of the monotonic clock."""
        self._timers_made += 1
        heapq.heappush(self._timers, (moment, self._timers_made, act))

    def on_signal(self, number: int, act: Callable[[], None]) -> None:
        """Have `act` called when the signal comes."""
        self._handlers[number] = act
        signal.signal(number, lambda *_: None)

    def _handle_signals(self) -> None:
        for number in os.read(self._signals, 4096):
            self._handlers.get(number, lambda: None)()

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Go on until it is over."""
        while not is_over():
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            for descriptor in select.select([*self._readers], [], [], wait)[0]:
                # one that was called before it may have taken it away
                self._readers.get(descriptor, lambda: None)()
            now = time.monotonic()
            due = []
            while self._timers and self._timers[0][0] <= now:
                due.append(heapq.heappop(self._timers)[2])
            for act in due:
                act()

    def goes_through(self, turn: Iterator[float | Command]) -> None:
        """Go through a turn: what it gives out is waited for, seconds or a command, and then it goes on."""
        awaited = next(turn, None)
        if isinstance(awaited, Command):
            self._commands.add(awaited)
            awaited.starts(self, lambda: self._has_ended(awaited, turn))
        elif awaited is not None:
            self.later(awaited, lambda: self.goes_through(turn))

    def _has_ended(self, command: Command, turn: Iterator[float | Command]) -> None:
        self._commands.discard(command)
        # a turn whose command was given up ends there
        if command.status is not None:
            self.goes_through(turn)

    def close(self) -> None:
        """End the commands that still run."""
        for one in self._commands:
            one.ends()


class Command:
    """A shell command without the terminal; `status` and `output` once it has ended, no status if it was given up."""

    def __init__(self, line: str, environment: Mapping[str, str]) -> None:
        self._line = line
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.output = b""
        self.status: int | None = None

    def starts(self, loop: Loop, ended: Callable[[], None]) -> None:
        """Start it; `ended` is called once it has ended and closed its output, or has been given up."""
        import subprocess  # noqa: PLC0415 - few of these harnesses run any

        process = self._process = subprocess.Popen(
            ["/bin/sh", "-c", self._line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101
        descriptor = process.stdout.fileno()
        deadline = time.monotonic() + COMMAND_TIMEOUT
        is_over = False

        def read() -> None:
            if chunk := os.read(descriptor, 65536):
                self.output += chunk
                return
            loop.forgets(descriptor)
            ask()

        def ask() -> None:
            if is_over:
                return
            if process.poll() is None:
                loop.later(_AGAIN, ask)
                return
            self.status = process.returncode
            over()

        def give_up() -> None:
            if not is_over:
                self.ends()
                over()

        def over() -> None:
            nonlocal is_over
            is_over = True
            loop.forgets(descriptor)
            ended()

        loop.reads(descriptor, read)
        loop.at(deadline, give_up)

    def ends(self) -> None:
        """End it with all it has started, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
