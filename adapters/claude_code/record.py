"""The record that a running Claude Code keeps of itself: `sessions/PID.json` in its directory (DESIGN §5).

Measured on 2.1.332: rewritten whenever the session turns busy, idle or comes to wait for a person; a draft changes
nothing; removed at the end, but left behind by `kill -9` with what it last said.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LONGEST: Final = 64 * 1024
"""Bytes; a real one has about 700."""

OLDEST: Final = (2, 1, 224)
"""The first version whose records and monitors are like those that were measured."""

NEXT_MAJOR: Final = 3
"""Of this version nothing is known."""

AT_REST: Final = frozenset({"idle", "shell"})
"""`shell`: idle while a task of its own, such as our monitor, runs in the background."""

BUSY: Final = "busy"
WAITING: Final = "waiting"

SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{7,63}")
"""What a session may be called: a name for a file as well."""

_KNOWN: Final = AT_REST | {BUSY, WAITING}
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:\D.*)?")
_MOST_WORDS: Final = 80


class HalfWritten(Exception):
    """What was read is not whole; another look may find it so."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One interactive session, in words that are understood.

    `started` is its process' start as the harness wrote it, `stamp` when it last changed how it stands, both only to be
    compared. `waiting_for` is what it waits for a person to do.
    """

    pid: int
    started: str
    began_at: int
    session_id: str
    directory: str
    status: str
    waiting_for: str
    stamp: str

    @property
    def is_at_rest(self) -> bool:
        """No turn runs and no dialog is open."""
        return self.status in AT_REST


def read_record(file: Path) -> SessionRecord | None:
    """The record in a file; None where there is none, or none that is ours to understand.

    Raises:
        HalfWritten: it is being written just now, or broken.
    """
    content = _content_of(file)
    if content is None:
        return None
    try:
        said = json.loads(content)
    except (ValueError, RecursionError) as broken:
        raise HalfWritten(str(file)) from broken
    return _understood(said, file.stem) if isinstance(said, dict) else None


def _content_of(file: Path) -> bytes | None:
    """The bytes of a regular file of our own, through no link; None otherwise."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_size > LONGEST:
            return None
        return os.read(descriptor, LONGEST)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _understood(said: Mapping[str, Any], name: str) -> SessionRecord | None:
    """The record, if every word that is relied on is one that is known; it must be called after its process."""
    pid, session_id = said.get("pid"), said.get("sessionId")
    if not isinstance(pid, int) or isinstance(pid, bool) or str(pid) != name:
        return None
    if not isinstance(session_id, str) or not SESSION_ID.fullmatch(session_id):
        return None
    if said.get("kind") != "interactive" or said.get("status") not in _KNOWN or not _is_known_version(said):
        return None
    return SessionRecord(
        pid=pid,
        started=_text(said, "procStart"),
        began_at=_number(said, "startedAt"),
        session_id=session_id,
        directory=_text(said, "cwd"),
        status=str(said["status"]),
        waiting_for=_text(said, "waitingFor")[:_MOST_WORDS],
        stamp=f"{said.get('statusUpdatedAt')}",
    )


def _is_known_version(said: Mapping[str, Any]) -> bool:
    found = _VERSION.fullmatch(_text(said, "version"))
    if found is None:
        return False
    version = tuple(int(part) for part in found.groups())
    return OLDEST <= version < (NEXT_MAJOR,)


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
