"""What the system reports about processes inside a harness."""

from __future__ import annotations

import os
from typing import Final

import psutil

from wake_bridge.engine.sessions.session_identity import Processes
from wake_bridge.system.ancestry import stat_fields

_STAT_PARENT: Final = 1
_STAT_GROUP: Final = 2
_STAT_TERMINAL: Final = 4
_STAT_FOREGROUND: Final = 5
_STAT_START_TIME: Final = 19
_DEEPEST: Final = 64


def processes() -> Processes:
    """The system's own answers; on Linux from /proc, which costs microseconds."""
    return Processes(_group_of, _terminal_of, _started_at, _ancestors_of, _terminals_in)


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid) if pid else 0
    except OSError:
        return 0


def _terminal_of(pid: int) -> int:
    return int(fields[_STAT_TERMINAL]) if (fields := stat_fields(pid)) else 0


def _started_at(pid: int) -> str:
    return fields[_STAT_START_TIME] if (fields := stat_fields(pid)) else ""


def _ancestors_of(pid: int) -> list[int]:
    above: list[int] = []
    while (fields := stat_fields(pid)) and len(above) < _DEEPEST:
        pid = int(fields[_STAT_PARENT])
        above.append(pid)
    if above or os.path.exists("/proc/self/stat"):  # noqa: PTH110 - a pseudo file
        return above
    try:
        return [one.pid for one in psutil.Process(pid).parents()]
    except psutil.Error:
        return []


def _terminals_in(name: str, directory: str) -> frozenset[int]:
    found = set()
    for pid in (int(entry) for entry in _entries("/proc") if entry.isdigit()):
        if _name_of(pid) == name and (terminal := _in_foreground(pid)) and _directory_of(pid) == directory:
            found.add(terminal)
    return frozenset(found)


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - names alone
    except OSError:
        return []


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a pseudo file
            return file.read().rstrip("\n")
    except OSError:
        return ""


def _directory_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - a pseudo file
    except OSError:
        return ""


def _in_foreground(pid: int) -> int:
    """The terminal in whose foreground the process is; 0 for none."""
    fields = stat_fields(pid)
    return int(fields[_STAT_TERMINAL]) if fields and fields[_STAT_GROUP] == fields[_STAT_FOREGROUND] else 0
