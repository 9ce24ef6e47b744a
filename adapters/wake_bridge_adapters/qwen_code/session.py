"""A running session of Qwen Code: the record it keeps of itself (`sessions/PID.json`), and the transcript of its conversation.

By its maker's cross-session protocol, version 1; seen on 0.24.4. The record names the conversation, which `/clear` and
`/resume` change, and the inbox. It does not say whether a turn runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.own_file import content_of
from wake_bridge_adapters.recorded import Program
from wake_bridge_adapters.tmux.occupants import started_at

HARNESS: Final = "qwen"

_LONGEST: Final = 64 * 1024
"""Bytes of a record; a real one has about 500."""

_SCHEMA: Final = 1
_AT_A_TERMINAL: Final = "tui"
_NAME: Final = re.compile(r"(\d{1,10})(?:-[0-9a-f]{8})?\.json")
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{7,63}")
_MOST_RECORDS: Final = 500


@dataclass(frozen=True, slots=True)
class QwenSession:
    """One session at a terminal whose process lives; `inbox` and the key to it are empty while it has none."""

    program: Program
    id: str
    inbox: str


def home_of(configured: str, environment: Mapping[str, str]) -> Path:
    """Where Qwen Code keeps its things."""
    home = environment.get("HOME") or str(Path.home())
    named = configured or environment.get("QWEN_HOME") or f"{home}/.qwen"
    return Path(f"{home}/{named[2:]}" if named.startswith("~/") else named)


def sessions_in(home: Path) -> list[QwenSession]:
    """All that live and are understood."""
    folder = home / "sessions"
    try:
        names = sorted(entry.name for entry in os.scandir(folder))[:_MOST_RECORDS]
    except OSError:
        return []
    found = [_session_in(folder / name, int(match[1])) for name in names if (match := _NAME.fullmatch(name))]
    return [one for one in found if one is not None]


def session_in_group(home: Path, pid: int) -> list[QwenSession]:
    """The sessions of the program that a process has in front of a terminal: it and its helpers are one process group."""
    try:
        group = os.getpgid(pid)
    except OSError:
        return []
    return [one for one in sessions_in(home) if _group_of(one.program.pid) == group]


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _session_in(file: Path, pid: int) -> QwenSession | None:
    content = content_of(file, _LONGEST)
    try:
        said = json.loads(content) if content is not None else None
    except (ValueError, RecursionError):
        return None
    started = started_at(pid)
    if not isinstance(said, dict) or said.get("pid") != pid or not started or not _is_that_process(said, started):
        return None
    session_id = str(said.get("sessionId"))
    if said.get("schemaVersion") != _SCHEMA or said.get("kind", _AT_A_TERMINAL) != _AT_A_TERMINAL:
        return None
    inbox = said.get("ipcPath")
    if not _SESSION_ID.fullmatch(session_id):
        return None
    return QwenSession(Program(pid, started), session_id, inbox if isinstance(inbox, str) else "")


def _is_that_process(said: Mapping[str, Any], started: str) -> bool:
    """The record has the boot and the start ticks of its process on Linux, and nothing elsewhere."""
    written = said.get("procStart")
    if sys.platform == "darwin":
        return written is None
    return isinstance(written, str) and written == f"{_boot()}:{started}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "?"


def transcript_of(home: Path, session_id: str) -> Path | None:
    """The transcript of a conversation; None where there is none, or the id is no name for a file."""
    if not _SESSION_ID.fullmatch(session_id):
        return None
    try:
        rooms = list((home / "projects").iterdir())
    except OSError:
        return None
    return next((file for room in rooms if (file := room / "chats" / f"{session_id}.jsonl").is_file()), None)


def told_by(row: Mapping[str, Any]) -> str:
    """Which message a row of the transcript is; empty for what the model said, or a tool: that is no echo."""
    is_ours = row.get("type") == "user" and row.get("subtype") == "notification"
    return str(row.get("uuid") or "?") if is_ours else ""
