"""One writer per pane, across all processes of the user (`flock` keyed by socket, server pid, pane id)."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


class PaneIsTaken(Exception):
    """Another writer has the pane, or the lock cannot be had; nothing may be typed without it."""


@contextlib.contextmanager
def pane_lock(socket: str, server_pid: int, pane_id: str) -> Iterator[None]:
    """Hold the pane's lock; never waits.

    The file lies beside the socket, the one directory that everybody who can reach this server shares, whatever its
    environment. It is unlinked before the lock is given up, so that nothing is left behind.

    Raises:
        PaneIsTaken: somebody else has it, or the directory cannot be written.
    """
    path = lock_path(socket, server_pid, pane_id)
    descriptor = _locked(path)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)


def lock_path(socket: str, server_pid: int, pane_id: str) -> Path:
    """Where the lock of a pane lies; the same for every spelling of the socket's path."""
    real = Path(os.path.realpath(socket))
    name = hashlib.sha256(f"{real}\0{server_pid}\0{pane_id}".encode()).hexdigest()[:16]
    return real.parent / f".wake-bridge-{name}.lock"


def _locked(path: Path) -> int:
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(descriptor)
            raise PaneIsTaken(f"another writer has the pane: {problem.strerror}") from problem
        if _is_still(descriptor, path):
            return descriptor
        os.close(descriptor)  # its holder unlinked it between our open and our lock


def _opened(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise PaneIsTaken(f"the pane cannot be locked: {path}: {problem.strerror}") from problem
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        os.close(descriptor)
        raise PaneIsTaken(f"the pane cannot be locked: {path} belongs to another user")
    return descriptor


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
