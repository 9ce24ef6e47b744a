"""What a question to a graph may cost: values up to a size, and the processor time that a file of its size can need.

A value of 100 MB costs 200 MB to load, and so do `length()`, `substr()` and `json_extract()` of it; a view that never ends
costs a processor. SQLite's own limit makes the one an error before anything is loaded, a progress handler the other.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LARGEST_VALUE: Final = 1024 * 1024
"""Bytes that a value, or a row as SQLite packs it, may have to be loaded."""

LARGEST_WRITTEN: Final = 1_000_000
"""Bytes of JSON that we write: the row around it, and marks set in it later, have to fit as well."""

BEGINNING: Final = 64 * 1024
"""Bytes that are read of a value that is too large."""

SECONDS_AT_LEAST: Final = 3.0
SECONDS_A_GIGABYTE: Final = 20.0
"""Processor time of one statement; a walk through a whole graph takes 2 s a gigabyte on a small machine of today."""

_STEPS_BETWEEN_LOOKS: Final = 20_000
_MEMBER: Final = re.compile(r'\s*[{,]\s*("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)
_NO_MEMBERS: Final = re.compile(r"\{\s*\}")
_END_OF_OBJECT: Final = re.compile(r"\s*\}")
_DECODER: Final = json.JSONDecoder()
_TABLES: Final = ("Nodes", "Edges", "GraphLog")
_NAMES: Final = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"


@dataclass(frozen=True, slots=True)
class Large:
    """A value that was not loaded: how many bytes it has, and the first of them."""

    size: int
    beginning: bytes

    def __str__(self) -> str:
        """For people: `104.9 MB`."""
        return f"{self.size / 1e6:.1f} MB"

    def members(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the beginning of a node's JSON says before it breaks off: of the node itself, and of its properties."""
        of_node: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        text, at, into = self.beginning.decode(errors="replace"), 0, of_node
        try:
            while found := _MEMBER.match(text, at):
                name, at = json.loads(found[1]), found.end()
                if into is of_node and name == "properties" and text.startswith("{", at):
                    into, end = properties, _NO_MEMBERS.match(text, at)
                else:
                    into[name], at = _DECODER.raw_decode(text, at)
                    end = _END_OF_OBJECT.match(text, at)
                if into is properties and end:
                    into, at = of_node, end.end()
        except (ValueError, RecursionError):
            # here it broke off
            pass
        return of_node, properties


class Budget:
    """Ends a statement of a connection that takes more processor time than it can need.

    Waiting, for a lock or a slow disk, costs none. Call `begin` before each statement, on the thread that runs it.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        try:
            size = os.stat(path).st_size  # noqa: PTH116 - safe where opening the file is not
        except OSError:
            size = 0
        self.seconds = SECONDS_AT_LEAST + SECONDS_A_GIGABYTE * size / 1e9
        self._began = time.thread_time()
        connection.set_progress_handler(self._is_spent, _STEPS_BETWEEN_LOOKS)

    def begin(self) -> None:
        """A statement starts."""
        self._began = time.thread_time()

    def _is_spent(self) -> bool:
        return time.thread_time() - self._began > self.seconds


def limit(connection: sqlite3.Connection) -> None:
    """Have SQLite refuse to load what is too large; texts come as bytes, for one that is not UTF-8 fails a whole fetch."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    connection.text_factory = bytes


def large_value(connection: sqlite3.Connection, table: str, column: str, rowid: int) -> Large:
    """The size and the beginning of a value that is too large to load; raises `sqlite3.Error` where there is none."""
    with connection.blobopen(table, column, rowid, readonly=True) as blob:
        return Large(len(blob), blob.read(BEGINNING))


def why_no_graph(connection: sqlite3.Connection) -> str:
    """What a database lacks to be a graph, in a clause; empty for a graph. Raises `sqlite3.Error`."""
    kinds = {bytes(name).decode(errors="replace"): kind for name, kind in connection.execute(_NAMES)}
    views = [table for table in _TABLES if kinds.get(table) == b"view"]
    missing = [table for table in _TABLES if table not in kinds]
    if missing:
        return f"it has no {', '.join(missing)}"
    # a view computes for as long as it likes, and has no rows to come back to
    return f"its {', '.join(views)} is a view, no table" if views else ""


def is_too_large(error: BaseException | None) -> bool:
    """Whether SQLite refused to load a value for its size."""
    return _code(error) == sqlite3.SQLITE_TOOBIG


def is_interrupted(error: BaseException | None) -> bool:
    """Whether a statement was ended by its budget."""
    return _code(error) == sqlite3.SQLITE_INTERRUPT


def _code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def stall_told(seconds: float) -> tuple[str, str]:
    """What is told of a statement that was ended, and what to do."""
    what = f"a question to the graph was not answered in {seconds:.0f} s of processor time"
    return what, "see whether a table, trigger or view of it never ends: `sqlite3 FILE .schema`; it is asked again"
