"""A person at the keys of a real tmux client: a process in a pseudo-terminal, its output read and thrown away."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final, Self

from wake_bridge.testing import HUNG

_POLL: Final = 0.05


class Typist:
    """Runs `command` in a terminal of that size and types into it. Use as a context manager, or `close` it."""

    def __init__(self, command: Sequence[str], width: int = 80, height: int = 24) -> None:
        self._terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=inner,
                stdout=inner,
                stderr=inner,
                env={**environment, "TERM": "xterm-256color"},
                start_new_session=True,
            )
        finally:
            os.close(inner)
        self._shown = bytearray()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, name=f"typist-{self.process.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The client's process."""
        return self.process.pid

    def _read(self) -> None:
        """Keep the terminal's output flowing: a client whose terminal is full stops working."""
        while not self._ended.is_set():
            try:
                if select.select([self._terminal], [], [], _POLL)[0]:
                    self._shown += os.read(self._terminal, 65536)
            except OSError:  # the client is gone
                return

    def waits_until_shown(self, timeout: float = HUNG) -> None:
        """Wait until the client has drawn something: it is attached.

        Raises:
            TimeoutError: it drew nothing within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._shown:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the client {self.pid} showed nothing")
            time.sleep(_POLL / 5)

    def shown(self) -> str:
        """All the client has drawn, as one text."""
        return self._shown.decode(errors="replace")

    def types(self, keys: str | bytes) -> float:
        """Press these keys at once; the time of it in UTC seconds."""
        at = time.time()
        os.write(self._terminal, keys.encode() if isinstance(keys, str) else keys)
        return at

    def types_at(self, moments: Iterable[tuple[float, str]]) -> list[float]:
        """Press keys, each so many seconds after now; the times in UTC seconds at which they went in."""
        start = time.monotonic()
        pressed = []
        for moment, keys in moments:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            pressed.append(self.types(keys))
        return pressed

    def close(self) -> None:
        """End the client and give its terminal back; a second time changes nothing."""
        if self._ended.is_set():
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._ended.set()
        self._reader.join()
        os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
