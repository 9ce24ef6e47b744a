"""The conversation as the harness writes it down: whether it has the mark of a wake (DESIGN §7, ack by echo).

Measured on 2.1.332: a line of a monitor is noted as `queue-operation` within 0.3 s, whatever the agent does, and as a
message of the conversation once the agent is given it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final

MOST_READ: Final = 64 * 1024 * 1024
"""Bytes at the end of a transcript that are searched."""

_PIECE: Final = 1024 * 1024
_NOT_IN_FOLDERS: Final = re.compile(r"[^A-Za-z0-9]")
_QUEUE: Final = "queue-operation"
_BY_A_MONITOR: Final = b"<task-notification>"
"""Stands around what came from a monitor: a mark that somebody only speaks of is no echo."""


class Echo(IntEnum):
    """How far a wake is seen to have come."""

    NONE = 0
    QUEUED = 1
    TOLD = 2


class Transcripts:
    """The transcripts below `projects/`, by session id.

    Args:
        directory: the harness's own.
    """

    def __init__(self, directory: Path) -> None:
        self._projects = directory / "projects"

    def echo_of(self, mark: str, session_id: str, room: str = "") -> Echo:
        """How far the wake with that mark has come in one conversation.

        Args:
            mark: a ULID.
            session_id: the conversation.
            room: the directory it runs in, as far as known: where its transcript most likely lies.
        """
        found = Echo.NONE
        for file in self._files(session_id, room):
            for line in _lines_with(mark.encode(), file):
                found = max(found, _told_by(line))
        return found

    def can_be_read(self, session_id: str, room: str = "") -> bool:
        """Whether there is a transcript of the conversation."""
        return any(os.access(file, os.R_OK) for file in self._files(session_id, room))

    def _files(self, session_id: str, room: str) -> list[Path]:
        name = f"{session_id}.jsonl"
        likely = self._projects / _NOT_IN_FOLDERS.sub("-", room) / name
        if room and likely.is_file():
            return [likely]
        try:
            return [file for folder in self._projects.iterdir() if (file := folder / name).is_file()]
        except OSError:
            return []


def _lines_with(mark: bytes, file: Path) -> Iterator[bytes]:
    """The lines at the end of the file that hold the mark."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return
        stream.seek(max(0, found.st_size - MOST_READ))
        rest = b""
        while piece := stream.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line for line in lines if _is_echo(mark, line))
        if _is_echo(mark, rest):
            yield rest


def _is_echo(mark: bytes, line: bytes) -> bool:
    return mark in line and _BY_A_MONITOR in line


def _told_by(line: bytes) -> Echo:
    """What a row says; one that is not whole yet says that something is there."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return Echo.QUEUED
    return Echo.QUEUED if isinstance(row, dict) and row.get("type") == _QUEUE else Echo.TOLD
