"""Our own state directory: private, on a disk with room, with a ledger that can be read and logs that can be written."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

import psutil

from wake_bridge.doctor.file_systems import nearest_that_exists, network_file_system
from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.ledger_store import LedgerStore
from wake_bridge.edges.ledger_store.database import NO_ROOM
from wake_bridge.edges.logs import FILE_SIZE, FILES, LOG_FILE_NAME
from wake_bridge.edges.service.serving import serving

OF_OTHERS: Final = 0o077
"""Permission bits nobody but the owner may have."""

LEAST_FREE: Final = 200 * 1024 * 1024
"""Bytes: the logs at their longest, and room for a ledger to grow and be copied at an update."""

_MEGABYTE: Final = 1024 * 1024


def state_directory(settings: Settings) -> Finding:
    """Its owner's alone, with all that lies in it: what is announced to whom is nobody else's business."""
    directory = settings.state_dir
    if not directory.exists():
        return untold("state directory", f"{directory} does not exist yet", "the first `wake-bridge run` makes it")
    for path in (directory, *sorted(directory.iterdir())):
        mode = _mode(path)
        if mode & OF_OTHERS:
            hint = f"chmod {'700' if path.is_dir() else '600'} {path}"
            return ill("state directory", f"{path} has mode {mode:04o}, it is open to others", hint)
    if not os.access(directory, os.W_OK | os.X_OK):
        return ill("state directory", f"{directory} cannot be written", "let this user write there")
    return well("state directory", f"{directory}, for its owner alone")


def _mode(path: Path) -> int:
    """Its permission bits; none for a link, and for what a running daemon has removed meanwhile."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return 0
    return 0 if stat.S_ISLNK(found) else stat.S_IMODE(found)


def state_file_system(settings: Settings) -> Finding:
    """Locks and WAL of the ledger need a local disk."""
    network = network_file_system(settings.state_dir)
    if network:
        return ill(
            "state file system", f"{settings.state_dir} lies on {network}", "set daemon.state_dir to a local disk"
        )
    return well("state file system", "local")


def free_disk(settings: Settings) -> Finding:
    """Room for ledger and logs."""
    free = shutil.disk_usage(nearest_that_exists(settings.state_dir)).free
    detail = f"{free // _MEGABYTE} MB for {settings.state_dir}"
    if free < NO_ROOM:
        return ill(
            "free disk", f"the disk is full: {detail}", "free some space: wakes wait, and go on by themselves then"
        )
    if free < LEAST_FREE:
        return ill("free disk", detail, f"free some space: {LEAST_FREE // _MEGABYTE} MB are wanted")
    return well("free disk", detail)


def log_file(settings: Settings) -> Finding:
    """Whether the file that is logged to can be written; a daemon in a terminal has none unless the settings name one."""
    file = settings.log_file or settings.state_dir / LOG_FILE_NAME
    if file.is_dir():
        return ill("log file", f"{file} is a directory", "set daemon.log_file to a file")
    there = nearest_that_exists(file)
    if (there != file and not there.is_dir()) or not os.access(there, os.W_OK):
        return ill("log file", f"{file} cannot be written", "let this user write there, or set daemon.log_file")
    size = f"{file}, at most {FILES * FILE_SIZE // _MEGABYTE} MB"
    if settings.log_file is not None or _is_written(file, settings):
        return well("log file", size)
    return untold(
        "log file", f"only a service writes {size}; a daemon in a terminal logs there (or to `daemon.log_file`)"
    )


def _is_written(file: Path, settings: Settings) -> bool:
    """Whether the daemon that runs has it open."""
    running = serving(settings.state_dir, settings.graph_path).holder
    if running is None:
        return False
    try:
        return str(file.resolve()) in {one.path for one in psutil.Process(running.pid).open_files()}
    except psutil.Error:
        return False


def ledger(settings: Settings) -> Finding:
    """Whether it can be read, and what in it waits for a person."""
    try:
        store = LedgerStore.open(settings.state_dir, read_only=True)
        tally = store.tally()
        store.close()
    except WakeBridgeError as error:
        return ill("ledger", str(error), error.hint)
    detail = f"{tally.open} open, {tally.held} held, {tally.unknown} unknown, {tally.failed} failed"
    hint = "`wake-bridge deliveries --state FAILED`" if tally.unknown or tally.failed else ""
    return Finding("ledger", ok=True, detail=detail, hint=hint)
