"""When a person last looked: the time of a file in the state directory, moved by an interactive `status`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from wake_bridge.domain.names import Instant
from wake_bridge.edges.configuration.paths import PRIVATE_FILE

LAST_LOOK_FILE: Final = "last-look"


def last_look(state_dir: Path) -> Instant | None:
    """When somebody last looked; None if nobody has, or it cannot be told."""
    try:
        return Instant((state_dir / LAST_LOOK_FILE).stat().st_mtime_ns // 1_000_000)
    except OSError:
        return None


def note_look(state_dir: Path, now: Instant) -> None:
    """Remember that somebody looks now. A directory that is not there, or refuses, is no reason not to show anything."""
    with contextlib.suppress(OSError):
        descriptor = os.open(state_dir / LAST_LOOK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            os.utime(descriptor, ns=(now * 1_000_000, now * 1_000_000))
        finally:
            os.close(descriptor)
