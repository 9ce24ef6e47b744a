"""The service manager's side of the notify protocol: a socket that keeps what a service says of itself."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from wake_bridge.testing import HUNG


class NotifyListener:
    """Listens where `NOTIFY_SOCKET` points; a context manager.

    Args:
        watchdog: seconds within which a sign of life is expected; None for no watchdog.
    """

    def __init__(self, watchdog: float | None = None) -> None:
        # a Unix socket's path has room for about a hundred bytes, less than test directories take
        self._directory = tempfile.mkdtemp(prefix="wbn-")
        self._path = str(Path(self._directory) / "notify")
        self._watchdog = watchdog
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._path)
        self._said: list[tuple[float, str]] = []

    @property
    def environment(self) -> Mapping[str, str]:
        """What the service is started with."""
        variables = {"NOTIFY_SOCKET": self._path}
        if self._watchdog is not None:
            variables["WATCHDOG_USEC"] = str(int(self._watchdog * 1_000_000))
        return variables

    def said(self, word: str) -> list[float]:
        """When a line such as `WATCHDOG=1` came, by the monotonic clock, oldest first."""
        self._take()
        return [at for at, line in self._said if line == word]

    def waits_for(self, word: str, count: int = 1, timeout: float = HUNG) -> float:
        """When a line came for the `count`th time.

        Raises:
            TimeoutError: it did not within `timeout` seconds; says what came instead.
        """
        deadline = time.monotonic() + timeout
        while len(found := self.said(word)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{word!r} came {len(found)} times, not {count}: {self._said}")
            time.sleep(0.02)
        return found[count - 1]

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> None:
        """Everything that has arrived. It counts as of now, so look often."""
        with contextlib.suppress(BlockingIOError):
            while True:
                message = self._socket.recv(4096, socket.MSG_DONTWAIT).decode()
                self._said += [(time.monotonic(), line) for line in message.splitlines()]
