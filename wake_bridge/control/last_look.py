"""When a person last ran `status` at a terminal: the time of a file in the state directory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from wake_bridge.domain.names import Instant
from wake_bridge.system.files import touch_own_file

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
        touch_own_file(state_dir / LAST_LOOK_FILE, now * 1_000_000)
