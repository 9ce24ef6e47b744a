"""Whether the process that wrote a record is still that process: ids are used again (DESIGN §6.2)."""

from __future__ import annotations

import platform
from calendar import timegm
from enum import Enum
from pathlib import Path
from time import strptime
from typing import Final

import psutil

_STATE: Final = 0
_STARTED: Final = 19
_STOPPED: Final = frozenset({"T", "t"})
_ENDED: Final = frozenset({"Z", "X", "x"})

CLOCKS_APART: Final = 2.0
"""Seconds by which two answers about the start of one process may differ where they are whole seconds."""

MONITOR: Final = ("claude", "monitor")
"""The end of a monitor's command line."""


class Life(Enum):
    """How a process stands."""

    ENDED = "ended"
    SUSPENDED = "suspended"
    RUNS = "runs"


def life_of(pid: int, started: str) -> Life:
    """How the process stands that has this id and, in the harness's words, this start."""
    return _from_proc(pid, started) if platform.system() == "Linux" else _from_psutil(pid, started)


def start_of(pid: int) -> str:
    """The start of a process as the harness writes it on Linux; empty where the process is gone, or elsewhere."""
    fields = _stat_fields(pid)
    return fields[_STARTED] if fields else ""


def monitors_below(pid: int) -> int | None:
    """How many of our monitors run below a process; None where that cannot be told."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return 0
    except psutil.Error:
        return None
    count = 0
    for one in below:
        try:
            count += tuple(one.cmdline()[-len(MONITOR) :]) == MONITOR
        except psutil.NoSuchProcess:
            continue
        except psutil.Error:
            return None
    return count


def _from_proc(pid: int, started: str) -> Life:
    fields = _stat_fields(pid)
    if not fields or fields[_STATE] in _ENDED or fields[_STARTED] != started:
        return Life.ENDED
    return Life.SUSPENDED if fields[_STATE] in _STOPPED else Life.RUNS


def _from_psutil(pid: int, started: str) -> Life:
    """On macOS the record has what `LC_ALL=C TZ=UTC ps -o lstart=` says."""
    try:
        process = psutil.Process(pid)
        status, created = process.status(), process.create_time()
        written = timegm(strptime(started, "%a %b %d %H:%M:%S %Y"))
    except (psutil.Error, ValueError):
        return Life.ENDED
    if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD} or abs(created - written) > CLOCKS_APART:
        return Life.ENDED
    return Life.SUSPENDED if status == psutil.STATUS_STOPPED else Life.RUNS


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may itself hold blanks and brackets; [] if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
