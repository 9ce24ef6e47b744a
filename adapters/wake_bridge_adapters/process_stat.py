"""Reads `/proc/PID/stat`, which every adapter that judges a process on Linux needs the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STATE: Final = 0
TERMINAL_GROUP: Final = 5
START_TIME: Final = 19
"""In clock ticks since the boot."""


def stat_fields(pid: int) -> list[str]:
    """The fields behind the name, which may itself hold blanks and brackets; [] if the process is gone.

    `STATE`, `TERMINAL_GROUP` and `START_TIME` are places in it.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
