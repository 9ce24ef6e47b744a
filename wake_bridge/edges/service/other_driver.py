"""Whether an upstream wake daemon drives the same directory: two drivers must never serve one identity (DESIGN §9)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psutil

PID_FILES: Final = ("wake-daemon.pid", "bridge-daemon.pid")
SCRIPTS: Final = ("daemons/wake/daemon.mjs", "daemons/bridge/daemon.mjs", "scripts/bridge-daemon.mjs")


def find_other_driver(directory: Path) -> str:
    """Name the live upstream daemon whose pid file lies in `directory`; empty if there is none."""
    for name in PID_FILES:
        process = _process_of(directory / name)
        if process is None:
            continue
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if any(script in command for script in SCRIPTS):
            return f"pid {process.pid} ({name})"
    return ""


def _process_of(pid_file: Path) -> psutil.Process | None:
    try:
        pid = int(pid_file.read_text().strip())
        return psutil.Process(pid)
    except (OSError, ValueError, psutil.Error):
        return None
