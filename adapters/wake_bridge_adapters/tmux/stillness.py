"""Whether a tmux server has run at all since its panes were listed: one that slept has drawn nothing and read no key.

The kernel counts how often and how long a process ran. Reading that costs a hundredth of a call to tmux. Silent changes, such as
another program in the foreground, leave no trace there: so a listing counts for a while at most.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

SETTLES: Final = 0.1
"""Seconds in which a server is done with the client of a call that has ended."""

COUNTS_FOR: Final = 30.0
"""Seconds for which a listing counts while its server sleeps."""


class Stillness:
    """What one listing said of some panes, and that its server has slept since. Needs a running loop.

    Args:
        server_pid: of the tmux server.
        signs: of the panes that were asked for, by their keys.
        wanted: those keys; some may have no pane.
    """

    def __init__(self, server_pid: int, signs: Mapping[str, str], wanted: frozenset[str]) -> None:
        self.signs = signs
        self._wanted = wanted
        self._directory = f"/proc/{server_pid}"
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + COUNTS_FOR
        self._account = b""
        self._settling: asyncio.TimerHandle | None = None
        self._settle()

    def holds(self, wanted: frozenset[str]) -> bool:
        """Whether the listing still says what a new one would, of just these panes."""
        return wanted == self._wanted and self._loop.time() < self._ends and self._is_still()

    @contextmanager
    def while_we_look(self) -> Iterator[None]:
        """A call of our own that changes nothing: the server runs for it, and is still again afterwards if it was before."""
        was_still = self._is_still()
        yield
        if was_still:
            self._settle()

    def _is_still(self) -> bool:
        return bool(self._account) and self._account == self._read()

    def _settle(self) -> None:
        self._account = b""
        if self._settling is not None:
            self._settling.cancel()
        self._settling = self._loop.call_later(SETTLES, self._note)

    def _note(self) -> None:
        self._settling = None
        self._account = self._read()

    def _read(self) -> bytes:
        """How long and how often the server ran; empty where that cannot be told, or another process has its number."""
        try:
            if not _contents(f"{self._directory}/comm").startswith(b"tmux"):
                return b""
            return _contents(f"{self._directory}/schedstat")
        except OSError:
            return b""


def _contents(path: str) -> bytes:
    """A short file whole, without what `open` does for text: this is read at every round. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 256)
    finally:
        os.close(descriptor)
