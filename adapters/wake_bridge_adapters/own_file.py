"""Reads a file that another program of the same user keeps, and trusts no other."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_LAST: Final = 4 * 1024 * 1024
"""Bytes at the end of a conversation's record in which a wake is looked for."""


def content_of(file: Path, longest: int) -> bytes | None:
    """The bytes of a regular file of our own, no more than `longest` and through no link; None otherwise."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_size > longest:
            return None
        return os.read(descriptor, longest)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def row_with(file: Path, mark: str, told_by: Callable[[Mapping[str, Any]], str]) -> str:
    """What the last row of a record of lines of JSON tells that has the mark and tells anything; empty where none does.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
        stream.seek(max(0, os.fstat(descriptor).st_size - _LAST))
        lines = stream.read(_LAST).split(b"\n")
    for line in reversed(lines):
        if mark.encode() not in line:
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and (told := told_by(row)):
            return told
    return ""
