"""All connections of this process to one graph: SQLite gives them one view of its WAL, so they heal together or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

_MAPPINGS: Final = Path("/proc/self/maps")


class Member(Protocol):
    """Something that holds a connection."""

    def close(self) -> None:
        """Give it up; the next use opens it again."""


class Family:
    """The connections to one file. `turn` is held by whoever uses one of them, `index` is the file's `-shm`."""

    def __init__(self, file: str) -> None:
        self.turn = threading.RLock()
        self.index = f"{file}-shm"
        self._members: WeakSet[Member] = WeakSet()

    def add(self, member: Member) -> None:
        """Another one."""
        self._members.add(member)

    def members(self) -> Iterable[Member]:
        """All that still exist."""
        return tuple(self._members)

    def maps_deleted_index(self) -> bool:
        """Whether this process still has an index in use that was deleted; only Linux can tell."""
        try:
            mappings = _MAPPINGS.read_text(errors="replace")
        except OSError:
            return False
        return f"{self.index} (deleted)" in mappings


_families: Final[dict[str, Family]] = {}
_making: Final = threading.Lock()


def family_of(path: Path) -> Family:
    """The family of the file that `path` leads to, through whatever links."""
    file = os.path.realpath(path)
    with _making:
        return _families.setdefault(file, Family(file))
