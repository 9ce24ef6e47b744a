"""Whether an upstream wake daemon drives the same directory: two drivers must never serve one identity (DESIGN §9)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import psutil

from wake_bridge.edges.own_files import read_own_file

PID_FILES: Final = ("wake-daemon.pid", "bridge-daemon.pid")
_LONGEST: Final = 32
SCRIPTS: Final = ("daemons/wake/daemon.mjs", "daemons/bridge/daemon.mjs", "scripts/bridge-daemon.mjs")


def find_other_driver(directory: Path) -> str:
    """Name the live upstream daemon whose pid file lies in `directory`; empty if there is none."""
    for name in PID_FILES:
        process = _process_of(directory / name)
        if process is None:
            continue
        if _is_upstream(process):
            return f"pid {process.pid} ({name})"
    return ""


def upstream_processes() -> list[str]:
    """Every upstream daemon of this user, whatever directory it drives: `pid 17`."""
    return [f"pid {process.pid}" for process in psutil.process_iter() if _is_upstream(process) and _is_own(process)]


def _is_upstream(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return any(script in command for script in SCRIPTS)


def _is_own(process: psutil.Process) -> bool:
    try:
        return process.uids().real == os.getuid()
    except psutil.Error:
        return False


def _process_of(pid_file: Path) -> psutil.Process | None:
    try:
        pid = int(read_own_file(pid_file, _LONGEST))
        return psutil.Process(pid)
    except (OSError, ValueError, OverflowError, psutil.Error):
        return None
