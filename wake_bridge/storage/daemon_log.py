"""What the daemon logged, read back: from its file and the rotated ones, or from systemd's journal. Quick to import."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TextIO

from wake_bridge.domain.values import dataclass

LOG_FILE_NAME: Final = "wake-bridge.log"
FILE_SIZE: Final = 10 * 1024 * 1024
"""Bytes at which a file is rotated."""

FILES: Final = 5
"""How many there are at most, the one that is written among them."""

UNIT: Final = "wake-bridge.service"
UNIT_DIRECTORIES: Final = ("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")
IDLE: Final = 0.2
"""Seconds between two looks at a file that is followed."""

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """Which lines: those after an instant, in seconds since 1970, and of these the `last` so many; 0 is all.

    `follows` goes on as lines are written.
    """

    after: float = 0.0
    last: int = 0
    follows: bool = False


def parsed(line: str) -> Entry:
    """A line as an entry; one that is no JSON object is an event of its own."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {"event": line.strip()}
    return entry if isinstance(entry, dict) else {"event": line.strip()}


def time_of(entry: Entry) -> float | None:
    """When it was logged, in seconds since 1970; None if it does not say."""
    try:
        return datetime.fromisoformat(str(entry.get("timestamp", ""))).timestamp()
    except ValueError:
        return None


def files_of(path: Path) -> list[Path]:
    """The log's files that are there, oldest first: `path.4` … `path.1`, `path`."""
    numbered = [path.with_name(f"{path.name}.{number}") for number in range(FILES - 1, 0, -1)]
    return [one for one in (*numbered, path) if one.is_file()]


def read_files(path: Path, span: Span) -> Iterator[Entry | None]:
    """The entries of a log, oldest first, over all its files; when followed, None whenever nothing is new."""
    with ExitStack() as opened:
        newest, older = _open_all(path, opened)
        lines = (line for stream in (*older, newest) if stream is not None for line in stream)
        for line in deque(lines, span.last) if span.last else lines:
            yield parsed(line)
        if span.follows:
            yield from _following(path, newest)


def _open_all(path: Path, opened: ExitStack) -> tuple[TextIO | None, list[TextIO]]:
    """The newest file first, so that a rotation meanwhile loses nothing; a file that it shifted is taken once."""
    streams: dict[tuple[int, int], TextIO] = {}
    newest: TextIO | None = None
    for file in reversed(files_of(path)):
        stream = opened.enter_context(file.open(encoding="utf-8", errors="replace"))
        streams.setdefault(_identity_of(os.fstat(stream.fileno())), stream)
        newest = stream if file == path else newest
    return newest, [one for one in reversed(streams.values()) if one is not newest]


def _following(path: Path, stream: TextIO | None) -> Iterator[Entry | None]:
    """What is written from now on; goes on in the new file when the log is rotated."""
    unfinished = ""
    while True:
        line = stream.readline() if stream is not None else ""
        if line.endswith("\n"):
            yield parsed(unfinished + line)
            unfinished = ""
            continue
        unfinished += line
        if _is_another(path, stream):
            # what the old one still held has been read
            if stream is not None:
                stream.close()
            stream = path.open(encoding="utf-8", errors="replace")
            continue
        yield None
        time.sleep(IDLE)


def _is_another(path: Path, stream: TextIO | None) -> bool:
    """Whether another file lies at the path than the one that is read."""
    try:
        there = _identity_of(path.stat())
    except FileNotFoundError:
        return False
    return stream is None or there != _identity_of(os.fstat(stream.fileno()))


def _identity_of(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def has_journal(environment: Mapping[str, str]) -> bool:
    """Whether systemd runs the daemon as a user unit, and its journal can be asked."""
    config = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = [config / "systemd/user", Path.home() / ".local/share/systemd/user", *map(Path, UNIT_DIRECTORIES)]
    return shutil.which("journalctl") is not None and any((place / UNIT).exists() for place in places)


def read_journal(span: Span) -> Iterator[Entry | None]:
    """The entries that systemd kept of the unit, oldest first; ends when `journalctl` does."""
    command = [shutil.which("journalctl") or "journalctl", "--user", "-u", UNIT, "-o", "cat", "--no-pager", "-q"]
    command += ["--since", f"@{span.after:.3f}"] if span.after else []
    command += ["-n", str(span.last)] if span.last else []
    command += ["-f"] if span.follows else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as journal:  # noqa: S603 - an argv, no shell
        assert journal.stdout is not None  # noqa: S101 - it is piped
        try:
            yield from map(parsed, journal.stdout)
        finally:
            journal.terminate()
