"""`lastSyncId`: the cursor as the source's own pruner reads it (DESIGN §2, CONTRACT "State directory")."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import LedgerUnwritable
from wake_bridge.domain.names import Instant, LogId
from wake_bridge.edges.own_files import begin_draft, open_own_file
from wake_bridge.ports.change_log import Published

CURSOR_FILE: Final = "lastSyncId"

_LONGEST: Final = 32
_LARGEST: Final = 2**63 - 1


class LastSyncId:
    """`ports.change_log.CursorFile` in a state directory.

    The content is the cursor and nothing else. The time of the file is `rows_after`, so that a restart can tell rows
    written while nobody looked from old ones rewritten: both cannot be told by the log, whose rows have no time.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / CURSOR_FILE

    def read(self) -> Published | str | None:
        """See `CursorFile.read`."""
        try:
            descriptor = open_own_file(self._path, os.O_RDONLY)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
                content = file.read(_LONGEST).decode("ascii", "replace").strip()
                written_at = os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError:
            return None
        except OSError as refusal:
            return f"it cannot be read ({refusal.strerror})"
        if not content:
            return "it is empty"
        if not content.isdecimal():
            return f"it holds no number that could be a cursor: {content!r}"
        cursor = int(content)
        if cursor > _LARGEST:
            return f"it holds a number beyond all cursors: {content}"
        return Published(LogId(cursor), Instant(max(0, written_at // 1_000_000)))

    def write(self, published: Published) -> None:
        """See `CursorFile.write`."""
        draft = self._path.with_name(f".{CURSOR_FILE}.new")
        written_at = published.rows_after * 1_000_000
        try:
            descriptor = begin_draft(draft)
            try:
                text = str(int(published.cursor)).encode()
                if os.write(descriptor, text) < len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.utime(descriptor, ns=(written_at, written_at))
            finally:
                os.close(descriptor)
            draft.replace(self._path)
        except OSError as refusal:
            raise LedgerUnwritable(
                f"the cursor cannot be published ({refusal.strerror})",
                str(self._path),
                hint="let this user write the state directory",
            ) from refusal
