"""Hints that the graph may have changed. They are only hints: `PRAGMA data_version` decides.

Measured on Linux: watchfiles costs 0.46 % of a core for hints within 12 ms, or 0.14 % within 51 ms, because it polls its own
watcher; inotify itself costs nothing and hints within a millisecond. So Linux listens to inotify, other systems to
watchfiles, and macOS, which reports no writes to a WAL, to nobody.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wake_bridge.ports.change_log import ChangeSignal

if TYPE_CHECKING:
    from watchfiles import Change

LOOKS_AGAIN: Final = (0.005, 0.015, 0.040)
"""A file changes before its commit can be seen: there are looks at once, at 5, 20 and 60 ms."""

RETRY_AFTER: Final = 5.0
"""Seconds until a watch that failed, or whose directory went away, is tried again."""

_MODIFY: Final = 0x2
_MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_MOVED_AWAY: Final = 0x800
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ONLY_A_DIRECTORY: Final = 0x1000000
_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 65_536


def _where_it_is_written(graph: Path) -> tuple[Path, frozenset[str]]:
    """The directory, and the names in it that a commit writes to."""
    # SQLite follows a link: the log lies beside the file itself
    file = graph.resolve()
    return file.parent, frozenset({file.name, f"{file.name}-wal", f"{file.name}-journal"})


class InotifySignal:
    """Hints from inotify on the graph's directory.

    Args:
        graph: the database file; its `-wal` and `-journal` lie beside it.
        report: told once, in a clause, when there can be no hints.
    """

    looks_again: Sequence[float] = LOOKS_AGAIN
    later_by: float = 0.0

    def __init__(self, graph: Path, report: Callable[[str], None]) -> None:
        self._directory, names = _where_it_is_written(graph)
        self._names = frozenset(os.fsencode(name) for name in names)
        self._report = report
        self._is_reported = False
        self._hint = asyncio.Event()
        self._descriptor: int | None = None
        self._tried_at = float("-inf")

    async def wait(self, timeout: float) -> bool:
        """See `ChangeSignal.wait`."""
        self._arm()
        try:
            async with asyncio.timeout(timeout):
                await self._hint.wait()
        except TimeoutError:
            return False
        self._hint.clear()
        return True

    async def close(self) -> None:
        """See `ChangeSignal.close`."""
        self._disarm()

    def _arm(self) -> None:
        if self._descriptor is not None or time.monotonic() - self._tried_at < RETRY_AFTER:
            return
        self._tried_at = time.monotonic()
        try:
            self._descriptor = _watch(self._directory)
        except (OSError, AttributeError) as refusal:
            if not self._is_reported:
                self._report(f"{self._directory} cannot be watched ({refusal})")
            self._is_reported = True
            return
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        # what was written since the last look and before the watch, nobody would hint at
        self._hint.set()

    def _disarm(self) -> None:
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = None

    def _read(self) -> None:
        if self._descriptor is None:
            return
        try:
            events = list(_events(os.read(self._descriptor, _BUFFER)))
        except BlockingIOError:
            return
        if any(name in self._names or mask & _OVERFLOW for mask, name in events):
            self._hint.set()
        if any(mask & (_IGNORED | _MOVED_AWAY) for mask, _ in events):
            # the directory went away, and the watch with it
            self._disarm()


def why_it_cannot_be_watched(graph: Path) -> str:
    """Why there would be no hints of changes to that file now; empty if there would be."""
    directory = graph.resolve().parent
    try:
        os.close(_watch(directory))
    except (OSError, AttributeError) as refusal:
        return f"{directory} cannot be watched ({refusal})"
    return ""


def _watch(directory: Path) -> int:
    """A descriptor that becomes readable when something in the directory changes; raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        raise _last_error()
    mask = _MODIFY | _MOVED_TO | _CREATE | _MOVED_AWAY | _ONLY_A_DIRECTORY
    if libc.inotify_add_watch(descriptor, os.fsencode(directory), mask) < 0:
        error = _last_error()
        os.close(descriptor)
        raise error
    return descriptor


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _events(buffer: bytes) -> Iterator[tuple[int, bytes]]:
    """Mask and file name of each event."""
    offset = 0
    while offset < len(buffer):
        _, mask, _, length = _HEAD.unpack_from(buffer, offset)
        offset += _HEAD.size
        yield mask, buffer[offset : offset + length].rstrip(b"\0")
        offset += length


STEP: Final = 50
"""Milliseconds between two looks of watchfiles at its own watcher."""

REARM_AFTER: Final = 60.0
"""Seconds until a watch that failed is tried again."""


def signal_for(graph: Path, report: Callable[[str], None], *, enabled: bool) -> ChangeSignal:
    """The best source of hints this system has; `report` is told, once, when it fails."""
    if not enabled or sys.platform == "darwin":
        return SilentSignal()
    return InotifySignal(graph, report) if sys.platform == "linux" else WatchfilesSignal(graph, report)


class SilentSignal:
    """No hints: the tail looks every `poll_interval`."""

    looks_again: Sequence[float] = ()
    later_by: float = 0.0

    async def wait(self, timeout: float) -> bool:
        """Let the time pass."""
        await asyncio.sleep(timeout)
        return False

    async def close(self) -> None:
        """Nothing to stop."""


class WatchfilesSignal:
    """Hints from watchfiles on the graph's directory.

    Args:
        graph: the database file; its `-wal` and `-journal` lie beside it.
        report: told once, in a clause, when there can be no hints.
    """

    looks_again: Sequence[float] = LOOKS_AGAIN
    later_by: float = 0.0

    def __init__(self, graph: Path, report: Callable[[str], None]) -> None:
        self._directory, self._names = _where_it_is_written(graph)
        self._report = report
        self._hint = asyncio.Event()
        self._stop = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def wait(self, timeout: float) -> bool:
        """See `ChangeSignal.wait`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="watch the graph")
        try:
            async with asyncio.timeout(timeout):
                await self._hint.wait()
        except TimeoutError:
            return False
        self._hint.clear()
        return True

    async def close(self) -> None:
        """See `ChangeSignal.close`."""
        self._stop.set()
        if self._watching is not None:
            await self._watching
        self._watching = None

    async def _watch(self) -> None:
        """Hint for every change; a watch that cannot be had is reported once and tried again now and then."""
        from watchfiles import awatch  # noqa: PLC0415 - Linux needs none of it

        is_reported = False
        while not self._stop.is_set():
            # what was written since the last look and before the watch, nobody would hint at
            self._hint.set()
            try:
                async for _ in awatch(
                    self._directory, watch_filter=self._concerns, step=STEP, recursive=False, stop_event=self._stop
                ):
                    self._hint.set()
            except (OSError, RuntimeError) as refusal:
                if not is_reported:
                    self._report(f"{self._directory} cannot be watched ({refusal})")
                is_reported = True
            with suppress(TimeoutError):
                async with asyncio.timeout(REARM_AFTER):
                    await self._stop.wait()

    def _concerns(self, _: Change, path: str) -> bool:
        return Path(path).name in self._names
