"""The graph file, held open for reading for as long as it is the same file (DESIGN §2 "Reading it").

Inside the daemon nothing may open the database, its `-wal` or its `-shm` by path but SQLite itself: POSIX would drop all
locks of the process, and the reader would go deaf without a sign. `os.stat` is safe.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import SourceError, SourceMissing, SourceNotAGraph, SourceUnavailable
from wake_bridge.edges.graph_schema import APPLICATION_ID, sqlite_address

BUSY_TIMEOUT: Final = 1.0
"""Seconds one call may wait for a lock; a stop must not wait longer for the tail's thread."""

REOPEN_AFTER: Final = 60.0
"""Seconds after which a connection is no longer trusted to hear everything."""

TABLES: Final = ("Nodes", "Edges", "GraphLog")

Rows = list[tuple[Any, ...]]

_NOT_OURS: Final = "set graph.path to the graph, or to a new place and run `wake-bridge init`"
_READ_ONLY_DIRECTORY: Final = (
    "a graph in WAL mode needs its -shm file, or a directory where this user may make one: "
    "let this user write the directory, or keep the program that writes the graph running"
)
_HINTS: Final = {
    sqlite3.SQLITE_BUSY: "another program holds it locked; it is looked at again",
    sqlite3.SQLITE_LOCKED: "another program holds it locked; it is looked at again",
    sqlite3.SQLITE_READONLY: _READ_ONLY_DIRECTORY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY_DIRECTORY,
    sqlite3.SQLITE_PERM: "let this user read the file and its directory",
    sqlite3.SQLITE_CORRUPT: "the file is damaged, or is being replaced right now; it is looked at again",
}


class SqliteSource:
    """One read-only connection, and the truth about the file at its path.

    Opened on first use. Every method raises `SourceMissing`, `SourceNotAGraph` or `SourceUnavailable` and nothing else.
    Use from one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._opened_file = (0, 0)
        self._opened_at = 0.0
        self._openings = 0
        self._has_events = False

    def query(self, statement: str, *values: object) -> Rows:
        """All rows of a query: fetched at once, so that no read transaction stays open. Texts come as bytes."""
        try:
            return self._run(self._open_connection(), statement, values)
        except SourceError as error:
            if not is_busy(error.__cause__):
                self.close()
            raise

    def refresh(self) -> None:
        """Make sure that the next answer comes from the file at the path, on a connection that cannot be deaf for long."""
        is_old = time.monotonic() - self._opened_at > REOPEN_AFTER
        if self._connection is not None and (is_old or self.file_at_path() != self._opened_file):
            self.reopen()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several queries that see one state of the file. Keep it short: a long one would hold up checkpoints."""
        connection = self._open_connection()
        self._run(connection, "BEGIN", ())
        try:
            yield
        finally:
            # an error has closed it, and with it the transaction
            if connection is self._connection and connection.in_transaction:
                self._run(connection, "ROLLBACK", ())

    def has_events(self) -> bool:
        """Whether the log has the columns of typed rows. Asked anew each time: an ALTER may come while we read."""
        if not self._has_events:
            self._has_events = {b"event_id", b"event_payload"} <= self._columns("GraphLog")
        return self._has_events

    def is_embedded(self) -> bool:
        """Whether wake-bridge made the file."""
        return bool(self.query("PRAGMA application_id")[0][0] == APPLICATION_ID)

    def file_at_path(self) -> tuple[int, int]:
        """(device, inode) of what lies at the path now."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - the one safe look at the file
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise SourceMissing(
                "there is no graph", str(self.path), hint="make one with `wake-bridge init`, or set graph.path to yours"
            ) from missing
        except OSError as refusal:
            raise SourceUnavailable(
                f"the graph cannot be reached ({refusal.strerror})", str(self.path), hint="let this user read it"
            ) from refusal
        if not stat.S_ISREG(found.st_mode):
            raise SourceNotAGraph("this is not a file", str(self.path), hint=_NOT_OURS)
        return found.st_dev, found.st_ino

    def commits_seen(self) -> int:
        """Changes whenever another connection committed, and with every opening.

        `PRAGMA data_version` alone starts anew on each connection: two of them may agree by chance.
        """
        seen = int(self.query("PRAGMA data_version")[0][0])
        return self._openings << 32 | seen

    def reopen(self) -> bool:
        """Open the file anew; True if the old connection had gone deaf: the same file, and it saw less."""
        old, old_file = self._connection, self._opened_file
        self._connection = None
        try:
            new = self._open_connection()
            return old is not None and old_file == self._opened_file and self._sees_less(old, new)
        finally:
            if old is not None:
                old.close()

    def close(self) -> None:
        """Give up the connection; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _sees_less(self, old: sqlite3.Connection, new: sqlite3.Connection) -> bool:
        tip = "SELECT COALESCE(MAX(log_id), 0) FROM GraphLog"
        # the new one first: a commit between the two must not look like deafness
        fresh = self._run(new, tip, ())[0][0]
        try:
            return bool(self._run(old, tip, ())[0][0] < fresh)
        except SourceError:
            return True

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        file_before = self.file_at_path()
        try:
            connection = sqlite3.connect(
                sqlite_address(self.path.absolute(), "ro"),
                uri=True,
                isolation_level=None,
                timeout=BUSY_TIMEOUT,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise self._explained(error) from error
        try:
            connection.text_factory = bytes
            self._run(connection, "PRAGMA query_only = 1", ())
            self._check(connection)
            self._require_still_there(file_before)
        except BaseException:
            connection.close()
            raise
        self._connection, self._opened_file, self._opened_at = connection, file_before, time.monotonic()
        self._has_events = False
        self._openings += 1
        return connection

    def _require_still_there(self, file_before: tuple[int, int]) -> None:
        if self.file_at_path() != file_before:
            raise SourceUnavailable("the graph is being replaced", str(self.path), hint="it is looked at again")

    def _check(self, connection: sqlite3.Connection) -> None:
        found = self._run(connection, "SELECT name FROM sqlite_master WHERE type = 'table'", ())
        names = {row[0].decode() for row in found}
        missing = [table for table in TABLES if table not in names]
        if missing:
            raise SourceNotAGraph(
                f"this database is not a graph: it has no {', '.join(missing)}", str(self.path), hint=_NOT_OURS
            )

    def _columns(self, table: str) -> set[bytes]:
        return {row[1] for row in self.query(f"PRAGMA table_info({table})")}

    def _run(self, connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> Rows:
        try:
            return connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> SourceError:
        """SQLite's error as one a person can act on."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return SourceNotAGraph("this file is not a database", str(self.path), hint=_NOT_OURS)
        hint = _HINTS.get(code, "it is looked at again")
        return SourceUnavailable(f"the graph cannot be read now ({error})", str(self.path), hint=hint)


def is_busy(error: BaseException | None) -> bool:
    """Whether SQLite says that somebody else holds the file for the moment."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
