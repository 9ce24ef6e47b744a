"""One daemon per graph, by an OS lock in a place that no environment variable moves.

Two state directories are two ledgers: what the one has told, the other does not know, and would tell again. So a daemon
holds a lock that is named after the graph itself, its device and inode, before it opens it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from wake_bridge.control.client import SOCKET_NAME
from wake_bridge.control.instance_lock import Holder, lies_at, read_holder, try_lock, write_holder
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.errors import AlreadyRunning, OperationFailed, RefusedForSafety
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import PRIVATE_DIRECTORY, open_own_file

LOCK_DIRECTORY: Final = Path(f"/tmp/wake-bridge-{os.geteuid()}")  # noqa: S108 - owner and mode are checked
"""The same for every process of the user, whatever `HOME`, `TMPDIR` or `XDG_RUNTIME_DIR` say."""

SUFFIX: Final = ".lock"
PATIENCE: Final = 0.5
"""Seconds to try for at the start: a command that asks who holds the lock has it for an instant."""

GLANCE: Final = 0.05
"""Seconds to try for while the daemon works."""


@dataclass(frozen=True, slots=True)
class _Held:
    descriptor: int
    path: Path


def graph_key(graph: GraphPlace) -> str | None:
    """What tells one graph from all others, whatever path leads to it: device and inode; None where there is none.

    A database is told by host, port and name, as its URL has them.
    """
    if isinstance(graph, GraphUrl):
        digest = hashlib.sha256(graph.key.encode()).hexdigest()
        return f"{digest[:12]}-{digest[12:24]}"
    try:
        found = graph.stat()
    except OSError:
        return None
    return f"{found.st_dev:x}-{found.st_ino:x}"


class GraphName:
    """The key of the file that lies at a path now; of one that is away for the moment, the last one."""

    def __init__(self, graph: GraphPlace) -> None:
        self._graph = graph
        self._last = ""

    def __call__(self) -> str:
        """The key, empty while there never was one."""
        self._last = graph_key(self._graph) or self._last
        return self._last


def daemon_of(graph: GraphPlace, directory: Path = LOCK_DIRECTORY) -> Holder | None:
    """Which daemon serves the graph now, whatever its state directory; None if none does.

    Raises:
        OSError: it cannot be told.
    """
    key = graph_key(graph)
    if key is None:
        return None
    path = directory / f"{key}{SUFFIX}"
    try:
        descriptor = open_own_file(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return None if try_lock(descriptor, fcntl.LOCK_SH) else read_holder(path)
    finally:
        os.close(descriptor)


def holders() -> Iterator[Holder]:
    """Every daemon of this user that serves a graph now, and says where it keeps its state."""
    for path in sorted(LOCK_DIRECTORY.glob(f"*{SUFFIX}")):
        with suppress(OSError), _opened(path) as descriptor:
            if not try_lock(descriptor, fcntl.LOCK_SH) and (found := read_holder(path)).state_dir:
                yield found


class GraphLock:
    """Held from `acquire` until the process ends, or `release`.

    A graph that is not there yet is not locked: `rival` locks it once it is, and each other file that takes its place.

    Args:
        graph: what at most one daemon of this host may serve.
        state_dir: of this daemon; others are told of it.
        directory: where the locks lie.
    """

    def __init__(self, graph: GraphPlace, state_dir: Path, directory: Path = LOCK_DIRECTORY) -> None:
        self._graph = graph
        self._state_dir = state_dir
        self._directory = directory
        self._held: _Held | None = None
        self._is_refused = False

    def acquire(self) -> None:
        """Take the lock and write down who holds it.

        Raises:
            AlreadyRunning: naming the holder.
            RefusedForSafety: the directory of the locks is another user's, or open to others.
            OperationFailed: nothing can be locked there.
        """
        _make_directory(self._directory)
        _sweep(self._directory)
        if holder := self._taken(PATIENCE):
            raise AlreadyRunning(
                f"another wake-bridge serves this graph: {holder}",
                str(self._graph),
                hint="stop it first: both would wake the same agents for the same mail",
            )

    def rival(self) -> OtherDriver | None:
        """Who else serves the graph as it is now; None while the lock is ours.

        The file may have been replaced, or our lock cleaned away: then it is locked again. Costs two `stat` while it is ours.
        """
        if self._is_held():
            return None
        # it is asked before each wake, on the event loop: who was refused before does not wait again
        patience = 0.0 if self._is_refused else GLANCE
        self._is_refused = True
        try:
            _make_directory(self._directory)
            holder = self._taken(patience)
        except (RefusedForSafety, OperationFailed) as refusal:
            return OtherDriver(f"the graph cannot be locked: {refusal}", Cause.GRAPH_NOT_LOCKED)
        self._is_refused = holder is not None
        return OtherDriver(f"another wake-bridge: {holder}", Cause.ANOTHER_WAKE_BRIDGE) if holder else None

    def stay(self) -> None:
        """Show that the lock is in use to whatever cleans old files away."""
        if self._held is not None:
            with suppress(OSError):
                os.utime(self._held.descriptor)

    def release(self) -> None:
        """Give the lock up and leave no file behind; without effect if it is not held."""
        if self._held is not None:
            _let_go(self._held)
            self._held = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _path(self) -> Path | None:
        key = graph_key(self._graph)
        return self._directory / f"{key}{SUFFIX}" if key else None

    def _is_held(self) -> bool:
        """Whether our lock is that of the file which lies there now; of none there need be none."""
        path = self._path()
        return path is None or (
            self._held is not None and self._held.path == path and lies_at(self._held.descriptor, path)
        )

    def _taken(self, patience: float) -> Holder | None:
        """Lock the graph as it is now, and give up what was locked before; who has it, if that cannot be."""
        path = self._path()
        if path is None:
            return None
        try:
            descriptor = _locked(path, patience)
            if descriptor is None:
                return read_holder(path)
            self._sign(descriptor)
        except OSError as refusal:
            raise OperationFailed(
                f"the graph cannot be locked ({refusal.strerror})",
                str(path),
                hint="check that /tmp is a local directory that this user can write",
            ) from refusal
        self.release()
        self._held = _Held(descriptor, path)
        return None

    def _sign(self, descriptor: int) -> None:
        try:
            write_holder(descriptor, state_dir=str(self._state_dir), control_socket=str(self._state_dir / SOCKET_NAME))
        except OSError:
            os.close(descriptor)
            raise


def _make_directory(directory: Path) -> None:
    """Raises `RefusedForSafety` for one in which somebody else could put locks, or take them away."""
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=PRIVATE_DIRECTORY)
        found = directory.lstat()
    except OSError as refusal:
        raise OperationFailed(
            f"no directory for locks can be made ({refusal.strerror})",
            str(directory),
            hint="give this user write access to /tmp",
        ) from refusal
    if not stat.S_ISDIR(found.st_mode):
        why, hint = "is a link or a file", "remove it"
    elif found.st_uid != os.geteuid():
        why, hint = "belongs to another user", "have it removed: whoever owns it decides which daemon may start"
    elif found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        why, hint = "is open to others", f"look at what lies in it, then run `chmod 700 {directory}`"
    else:
        return
    raise RefusedForSafety(f"the directory for locks {why}", str(directory), hint=hint)


def _locked(path: Path, patience: float) -> int | None:
    """A descriptor that has the lock; None if somebody else has it. Raises `OSError` where nothing can be locked."""
    give_up = time.monotonic() + patience
    while True:
        descriptor = open_own_file(path, os.O_RDWR | os.O_CREAT)
        try:
            has_it = try_lock(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if has_it and lies_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # somebody has it, or its holder unlinked it between our open and our lock
        if not has_it:
            if time.monotonic() >= give_up:
                return None
            time.sleep(0.02)


def _let_go(held: _Held) -> None:
    """Unlinked before it is given up: whoever waits for it sees that, and makes its own."""
    if lies_at(held.descriptor, held.path):
        with suppress(FileNotFoundError):
            held.path.unlink()
    os.close(held.descriptor)


def _sweep(directory: Path) -> None:
    """Remove what daemons left that were killed; a lock that is held stays."""
    for path in directory.glob(f"*{SUFFIX}"):
        with suppress(OSError), _opened(path) as descriptor:
            if try_lock(descriptor):
                _remove(descriptor, path)


def _remove(descriptor: int, path: Path) -> None:
    if lies_at(descriptor, path):
        path.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = open_own_file(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
