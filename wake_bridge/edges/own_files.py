"""Files of our own at names that anybody can guess: opened through no link, made anew beside, read without waiting.

Whatever lies there before us (a link to another file, a pipe, a directory, another user's file) is an `OSError` at once:
it is never written through, never truncated, and nothing hangs on it (SECURITY.md).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from wake_bridge.edges.configuration.paths import PRIVATE_FILE

_UNSEEN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Follow no link, wait for nobody at a pipe's other end, take no terminal for our own."""

LONGEST: Final = 16 * 1024 * 1024
"""Bytes that are read of one of our own files at most."""


def open_own_file(path: Path, flags: int, mode: int = PRIVATE_FILE) -> int:
    """A descriptor of a regular file that belongs to this user; `flags` as for `os.open`.

    Raises:
        OSError: there is none, or something else lies there.
    """
    try:
        descriptor = os.open(path, flags | _UNSEEN, mode)
    except OSError as refusal:
        if refusal.errno in {errno.ELOOP, errno.ENXIO}:
            raise OSError(refusal.errno, "it is a link or a pipe, no regular file", str(path)) from refusal
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    raise PermissionError(errno.EPERM, "it belongs to another user", str(path))


def read_own_file(path: Path, at_most: int = LONGEST) -> bytes:
    """Its content, or the first `at_most` bytes of it.

    Raises:
        OSError: there is none, or something else lies there.
    """
    with open(open_own_file(path, os.O_RDONLY), "rb") as file:
        return file.read(at_most)


def touch_own_file(path: Path, at: int | None = None) -> None:
    """Make it if it is absent, and let its time be `at` (nanoseconds), or now.

    Raises:
        OSError: it cannot be made, or something else lies there.
    """
    descriptor = open_own_file(path, os.O_WRONLY | os.O_CREAT)
    try:
        if at is None:
            os.utime(descriptor)
        else:
            os.utime(descriptor, ns=(at, at))
    finally:
        os.close(descriptor)


def begin_draft(draft: Path, mode: int = PRIVATE_FILE) -> int:
    """A descriptor of a new, empty file; what lay at its name is unlinked, whatever it was, and never opened.

    Raises:
        OSError: the file system refuses.
    """
    draft.unlink(missing_ok=True)
    return os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _UNSEEN, mode)
