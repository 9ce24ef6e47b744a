"""The daemon's lock in its state directory, and its signs of life.

The lock, not the file's text, says whether a daemon lives: the kernel drops it with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Self

from wake_bridge.domain.errors import AlreadyRunning, DiskFull, LedgerUnwritable
from wake_bridge.domain.names import Instant
from wake_bridge.domain.values import dataclass
from wake_bridge.system.clock import timestamp_now
from wake_bridge.system.files import open_own_file, read_own_file, touch_own_file

LOCK_NAME: Final = "daemon.lock"
SIGN_OF_LIFE: Final = "heartbeat.alive"
SHOWN_EVERY: Final = 5.0
"""Seconds between two signs of life, at most."""

PATIENCE: Final = 0.5
"""Seconds to try for: a command that asks who holds the lock takes it for an instant."""

Liveness = Literal["yes", "no", "cannot_tell"]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock. `pid` is 0 while the holder has not written its name yet.

    The lock of a graph says besides where its daemon keeps its state, and where it listens to commands.
    """

    pid: int = 0
    host: str = ""
    since: str = ""
    state_dir: str = ""
    control_socket: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "a daemon that is just starting"
        kept = f", with the state directory {self.state_dir}" if self.state_dir else ""
        return f"pid {self.pid} on {self.host} since {self.since}{kept}"


class InstanceLock:
    """Held from `acquire` until the process ends, or `release`.

    Args:
        state_dir: the directory that at most one daemon may serve; it must exist.
    """

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock and write down who holds it; without effect if it is held.

        Raises:
            AlreadyRunning: naming the holder.
            LedgerUnwritable: the state directory refuses.
        """
        if self._descriptor is None:
            self._descriptor = self._taken()

    def _taken(self) -> int:
        path = self.state_dir / LOCK_NAME
        try:
            descriptor = open_own_file(path, os.O_RDWR | os.O_CREAT)
        except OSError as refusal:
            raise self._unwritable(refusal) from refusal
        give_up = time.monotonic() + PATIENCE
        while not try_lock(descriptor):
            if time.monotonic() >= give_up:
                os.close(descriptor)
                raise AlreadyRunning(
                    f"another wake-bridge serves this state directory: {read_holder(path)}",
                    str(self.state_dir),
                    hint="stop it first; one for another graph needs its own daemon.state_dir",
                )
            time.sleep(0.02)
        try:
            write_holder(descriptor)
        except OSError as refusal:
            os.close(descriptor)
            raise self._unwritable(refusal) from refusal
        return descriptor

    def stay(self) -> None:
        """Take the lock anew if its file was deleted; raises as `acquire` does, and may be called again then."""
        lost = self._descriptor
        if lost is None or lies_at(lost, self.state_dir / LOCK_NAME):
            return
        self._descriptor = self._taken()
        os.close(lost)

    def _unwritable(self, refusal: OSError) -> LedgerUnwritable:
        kind = DiskFull if refusal.errno in {errno.ENOSPC, errno.EDQUOT} else LedgerUnwritable
        return kind(
            f"the state directory cannot be written ({refusal.strerror})",
            str(self.state_dir),
            hint="free some space, give this user write access there, or set daemon.state_dir to another directory",
        )

    def release(self) -> None:
        """Give the lock up; without effect if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(state_dir: Path) -> Holder | None:
    """Who serves the state directory now; None if nobody does.

    Raises:
        OSError: it cannot be told (the lock file may not be opened, or the file system has no locks).
    """
    path = state_dir / LOCK_NAME
    with _opened(path) as descriptor:
        if descriptor is None or try_lock(descriptor):
            return None
        return read_holder(path)


def liveness(state_dir: Path) -> Liveness:
    """Whether a daemon serves the state directory."""
    try:
        return "no" if holder(state_dir) is None else "yes"
    except OSError:
        return "cannot_tell"


def daemon_is_running(state_dir: Path) -> bool:
    """Whether a daemon is known to serve the state directory."""
    return liveness(state_dir) == "yes"


def show_life(state_dir: Path) -> None:
    """Leave a sign of life. Raises `OSError` where it cannot be made."""
    touch_own_file(state_dir / SIGN_OF_LIFE)


def show_end(state_dir: Path) -> None:
    """Leave word that this daemon lived until now and no longer. Raises `OSError` where it cannot be made."""
    touch_own_file(state_dir / SIGN_OF_LIFE, time.time_ns() - int(SHOWN_EVERY * 1e9))


def lived_until(state_dir: Path) -> Instant | None:
    """The latest instant at which the last daemon can have lived, by its signs of life; None where it left none."""
    try:
        shown_at = (state_dir / SIGN_OF_LIFE).stat().st_mtime
    except OSError:
        return None
    return Instant(int((shown_at + SHOWN_EVERY) * 1000))


def reload_command(state_dir: Path) -> str:
    """What has the daemon that runs read its configuration again; empty where none is known to."""
    try:
        running = holder(state_dir)
    except OSError:
        return ""
    return f"kill -HUP {running.pid}" if running is not None and running.pid else ""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        descriptor = open_own_file(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    """Try once to lock it; False if somebody else has it. Raises `OSError` where the file system has no locks."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lies_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that lies at a path now."""
    try:
        there = path.lstat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def write_holder(descriptor: int, **besides: str) -> None:
    """Write into a lock who holds it: this process, since now; raises `OSError`."""
    name = {"pid": os.getpid(), "host": socket.gethostname(), "since": timestamp_now(), **besides}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(name).encode() + b"\n", 0)


def read_holder(path: Path) -> Holder:
    """Who says in a lock that it is theirs."""
    try:
        name = json.loads(read_own_file(path))
        told = {field: str(name.get(field, "")) for field in ("host", "since", "state_dir", "control_socket")}
        return Holder(int(name["pid"]), **told)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Holder()
