"""What wake-bridge shares with upstream's daemon: `lastSyncId`, the marks that it left, and whether one runs."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.errors import LedgerUnwritable
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.messages import texts_of
from wake_bridge.domain.names import Identity, Instant, LogId, is_identity
from wake_bridge.ports.change_log import Published
from wake_bridge.system.files import begin_draft, open_own_file, read_own_file

if TYPE_CHECKING:
    import psutil

    from wake_bridge.engine.tail.takeover import UpstreamState

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
                hint="give this user write access to the state directory",
            ) from refusal


WATERMARK_FILE: Final = "woken-watermark.json"

_MESSAGES: Final = "__messageIdsByIdentity"


def read_upstream_state(directory: Path) -> tuple[UpstreamState, tuple[str, ...]]:
    """Read an upstream daemon's directory; also answers, in a clause each, what could not be read. Never raises."""
    from wake_bridge.engine.tail.takeover import UpstreamState  # noqa: PLC0415 - `send`, called at every turn, loads no tail

    problems: list[str] = []
    published = LastSyncId(directory).read()
    if not isinstance(published, Published):
        problems.append(f"lastSyncId: {published or 'it is missing'}")
    watermarks = _watermarks(directory / WATERMARK_FILE, problems)
    told = watermarks.get(_MESSAGES)
    upstream_state = UpstreamState(
        cursor=published.cursor if isinstance(published, Published) else None,
        woken_upto={
            name: LogId(value) for name, value in watermarks.items() if type(value) is int and name != _MESSAGES
        },
        messages={
            Identity(name): texts_of(ids)
            for name, ids in (told.items() if isinstance(told, dict) else ())
            if is_identity(name)
        },
    )
    return upstream_state, tuple(problems)


def _watermarks(path: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as refusal:
        problems.append(f"{WATERMARK_FILE}: it cannot be read ({refusal.strerror})")
        return {}
    except (ValueError, RecursionError):
        problems.append(f"{WATERMARK_FILE}: it is not JSON")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{WATERMARK_FILE}: it is not an object")
        return {}
    return content


PID_FILES: Final = ("wake-daemon.pid", "bridge-daemon.pid")
SCRIPTS: Final = ("daemons/wake/daemon.mjs", "daemons/bridge/daemon.mjs", "scripts/bridge-daemon.mjs")


def find_other_driver(directory: Path) -> OtherDriver | None:
    """The live upstream daemon whose pid file lies in `directory`; None if there is none."""
    for name in PID_FILES:
        pid = _pid_in(directory / name)
        if pid is not None and _is_upstream(pid):
            return OtherDriver(f"pid {pid} ({name})")
    return None


def upstream_processes() -> list[str]:
    """Every upstream daemon of this user, whatever directory it drives: `pid 17`."""
    import psutil  # noqa: PLC0415 - only `doctor` looks through all processes

    found = []
    for process in psutil.process_iter():
        # one that has ended meanwhile, or may not be looked at, is none
        with suppress(psutil.Error):
            if _runs_upstream(process) and process.uids().real == os.getuid():
                found.append(f"pid {process.pid}")
    return found


def _pid_in(pid_file: Path) -> int | None:
    try:
        return int(read_own_file(pid_file, _LONGEST))
    except (OSError, ValueError):
        return None


def _is_upstream(pid: int) -> bool:
    import psutil  # noqa: PLC0415 - every command asks, and a pid file is seldom there

    try:
        return _runs_upstream(psutil.Process(pid))
    except (OSError, ValueError, OverflowError, psutil.Error):
        return False


def _runs_upstream(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return any(script in command for script in SCRIPTS)
