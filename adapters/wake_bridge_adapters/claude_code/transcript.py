"""The conversation as the harness writes it down: whether it has the mark of a wake.

Measured on 2.1.332: a line of a monitor is noted as `queue-operation` within 0.3 s, whatever the agent does, and as a
message of the conversation once the agent is given it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import Final

from wake_bridge_adapters.claude_code.session import SESSION_ID

MOST_READ: Final = 64 * 1024 * 1024
"""Bytes at the end of a transcript that are searched."""

_PIECE: Final = 1024 * 1024
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

    def search(self, mark: str) -> EchoSearch:
        """A search for one wake, which may take many looks."""
        return EchoSearch(mark.encode(), self._file_of)

    def can_be_read(self, session_id: str) -> bool:
        """Whether there is a transcript of the conversation."""
        file = self._file_of(session_id)
        return file is not None and os.access(file, os.R_OK)

    def _file_of(self, session_id: str) -> Path | None:
        """Below whichever project's folder; None where there is none, or the id is no name for a file."""
        if not SESSION_ID.fullmatch(session_id):
            return None
        name = f"{session_id}.jsonl"
        try:
            return next((file for folder in self._projects.iterdir() if (file := folder / name).is_file()), None)
        except OSError:
            return None


class EchoSearch:
    """Looks for one mark, each time only in what was added since.

    Args:
        mark: what is looked for.
        file_of: the transcript of a conversation.
    """

    def __init__(self, mark: bytes, file_of: Callable[[str], Path | None]) -> None:
        self._mark = mark
        self._file_of = file_of
        self._files: dict[str, Path] = {}
        self._read_to: dict[Path, int] = {}
        self._found = Echo.NONE

    def look(self, conversations: Iterable[str]) -> Echo:
        """How far the wake is seen to have come in any of the conversations."""
        for session_id in conversations:
            file = self._files.get(session_id) or self._file_of(session_id)
            if file is not None:
                self._files[session_id] = file
                with contextlib.suppress(OSError):
                    self._read(file)
        return self._found

    def _read(self, file: Path) -> None:
        """Raises `OSError`: it cannot be read."""
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
            size = os.fstat(descriptor).st_size
            place = self._read_to.get(file, 0)
            place = max(0, size - MOST_READ) if place > size else max(place, size - MOST_READ)
            stream.seek(place)
            rest = b""
            while piece := stream.read(_PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._weigh(line)
            # a line that is still being written is read again
            self._read_to[file] = stream.tell() - len(rest)

    def _weigh(self, line: bytes) -> None:
        if self._mark in line and _BY_A_MONITOR in line:
            self._found = max(self._found, _told_by(line))


def _told_by(line: bytes) -> Echo:
    """What a row says; one that makes no sense says only that something is there."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return Echo.QUEUED
    return Echo.QUEUED if isinstance(row, dict) and row.get("type") == _QUEUE else Echo.TOLD
