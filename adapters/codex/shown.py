"""Which thread a terminal shows: a recorded one may have been left, and nobody would see a turn there (docs/native.md).

The server keeps a thread loaded while a terminal has it open, and for a minute longer. A terminal has touched
`tui-thread-reference-capabilities/THREAD` when it opened a thread: what it shows was touched after it began.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from adapters.codex.clients import Terminal
from adapters.codex.threads import Thread

_OPENED: Final = "tui-thread-reference-capabilities"
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TELLS_ITS_TIME: Final = "7"
"""The version of a UUID that begins with the millisecond of its making."""

STARTS_APART: Final = 2.0
"""Seconds by which the start of a process, counted from that of the system, and the time of a file may differ."""

OPENED_WITHIN: Final = 10.0
"""Seconds within which a terminal has opened the thread that it begins; measured: 0.3 s."""


def opened_at(home: Path, thread_id: str) -> float | None:
    """When a terminal last opened a thread, in seconds since 1970; None where none ever has."""
    if not _ID.fullmatch(thread_id):
        return None
    try:
        return (home / _OPENED / thread_id).stat().st_mtime
    except OSError:
        return None


def begun_at(thread_id: str) -> float | None:
    """When a thread was begun, in seconds since 1970, as its id tells; None where it does not."""
    found = _ID.fullmatch(thread_id)
    if found is None or found[1] != _TELLS_ITS_TIME:
        return None
    return int(thread_id.replace("-", "")[:12], 16) / 1000


def may_be_shown(
    terminal: Terminal, others: Sequence[Terminal], loaded: Sequence[Thread], home: Path, now: float
) -> list[Thread]:
    """The threads that a terminal may show; what it shows is among them.

    Args:
        terminal: the program.
        others: all other terminals.
        loaded: all threads that the server has loaded.
        home: the directory of Codex.
        now: the wall clock, in seconds since 1970.
    """
    opened = {one.id: opened_at(home, one.id) for one in loaded}
    rooms = Counter(os.path.realpath(one.directory) for one in others)
    tenants = Counter(os.path.realpath(one.directory) for one in loaded if one.is_a_persons and opened[one.id])

    def may_have_opened(thread: Thread) -> bool:
        at, begun = opened[thread.id], begun_at(thread.id)
        if at is None:
            # a new one is there before its terminal says that it has opened it
            return thread.is_a_persons and (begun is None or now - begun < OPENED_WITHIN)
        if at < terminal.began - STARTS_APART:
            return False
        # opened by nobody but who began it, where another terminal works and this one does not
        room = os.path.realpath(thread.directory)
        was_never_left = begun is not None and at - begun < OPENED_WITHIN
        is_elsewhere = room != terminal.directory and tenants[room] <= rooms[room]
        return not (was_never_left and is_elsewhere)

    return [one for one in loaded if may_have_opened(one)]
