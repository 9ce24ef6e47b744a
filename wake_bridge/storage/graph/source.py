"""Holds the graph file open for reading, and notices when another file takes its place.

Inside the daemon nothing may open the database, its `-wal` or its `-shm` by path but SQLite itself: POSIX would drop all
locks of the process. The last writer to leave then deletes the log under our feet, and the reader goes deaf for ever,
without an error. `os.stat` is safe.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from wake_bridge.domain.errors import SourceError, SourceMissing, SourceNotAGraph, SourceUnavailable
from wake_bridge.storage.graph.pieces import Row
from wake_bridge.storage.graph.rows import (
    Budget,
    Large,
    is_interrupted,
    is_too_large,
    large_value,
    limit,
    stall_told,
    why_no_graph,
)
from wake_bridge.storage.graph.schema import APPLICATION_ID, sqlite_address

_MAPPINGS: Final = Path("/proc/self/maps")


class Member(Protocol):
    """Something that holds a connection."""

    def close(self) -> None:
        """Give it up; the next use opens it again."""


class ConnectionFamily:
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


_families: Final[dict[str, ConnectionFamily]] = {}
_making: Final = threading.Lock()


def family_of(path: Path) -> ConnectionFamily:
    """The family of the file that `path` leads to, through whatever links."""
    file = os.path.realpath(path)
    with _making:
        return _families.setdefault(file, ConnectionFamily(file))


BUSY_TIMEOUT: Final = 1.0
"""Seconds one call may wait for a lock; a stop must not wait longer for the tail's thread."""

REOPEN_AFTER: Final = 60.0
"""Seconds after which a connection is no longer trusted to hear everything."""

REOPEN_AGAIN_AFTER: Final = 0.8
"""Seconds that a connection is kept though the file was written: a writer's checkpoint does that as well."""

Rows = list[Row]
Answer = TypeVar("Answer")

_NOT_OURS: Final = "set graph.path to the graph, or to a new place and run `wake-bridge init`"
_READ_ONLY_DIRECTORY: Final = (
    "a graph in WAL mode needs its -shm file, or a directory where this user may make one: "
    "let this user write the directory, or keep the program that writes the graph running"
)
_HINTS: Final = {
    sqlite3.SQLITE_BUSY: "another program holds it locked; wake-bridge tries again",
    sqlite3.SQLITE_LOCKED: "another program holds it locked; wake-bridge tries again",
    sqlite3.SQLITE_READONLY: _READ_ONLY_DIRECTORY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY_DIRECTORY,
    sqlite3.SQLITE_PERM: "let this user read the file and its directory",
    sqlite3.SQLITE_CORRUPT: "the file is damaged, or is being replaced right now; wake-bridge tries again",
}


class SqliteSource:
    """One read-only connection, and the truth about the file at its path.

    Opened on first use. Every method raises `SourceMissing`, `SourceNotAGraph` or `SourceUnavailable` and nothing else.
    Several sources of one process on one file take turns, for they can only be healed together.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._family: ConnectionFamily = family_of(path)
        self._family.add(self)
        self._connection: sqlite3.Connection | None = None
        self._budget: Budget | None = None
        self._opened_file = (0, 0)
        self._opened_at = 0.0
        self._opened_as = (0, 0)
        self._openings = 0
        self._index_file: tuple[int, int] | None = None
        self._has_events = False

    def query(self, statement: str, *values: object) -> Rows:
        """All rows of a query: fetched at once, so that no read transaction stays open. Texts come as bytes."""
        with self._family.turn:
            try:
                return self._run(self._open_connection(), statement, values)
            except SourceError as error:
                self._close_after(error.__cause__)
                raise

    def each(self, read: Callable[[Row], Answer], statement: str, *values: object) -> list[Answer]:
        """What `read` makes of each row of a query, one at a time: what it keeps of them is all that is held."""
        with self._family.turn:
            connection = self._open_connection()
            try:
                with closing(self._started(connection, statement, values)) as cursor:
                    return [read(row) for row in cursor]
            except sqlite3.Error as error:
                self._close_after(error)
                raise self._explained(error) from error

    def large(self, table: str, column: str, rowid: int) -> Large:
        """A value that is too large to load: its size, and how it begins."""
        with self._family.turn:
            try:
                return large_value(self._open_connection(), table, column, rowid)
            except sqlite3.Error as error:
                self._close_after(error)
                raise self._explained(error) from error

    def query_within(self, most_bytes: int, statement: str, *values: object) -> tuple[Rows, bool]:
        """The first rows of a query, as many as fit into `most_bytes` and one at least; whether these are all."""
        with self._family.turn:
            connection = self._open_connection()
            rows: Rows = []
            size = 0
            try:
                with closing(self._started(connection, statement, values)) as cursor:
                    for row in cursor:
                        rows.append(row)
                        size += sum(len(value) for value in row if isinstance(value, bytes))
                        if size > most_bytes:
                            return rows, False
            except sqlite3.Error as error:
                self._close_after(error)
                raise self._explained(error) from error
            return rows, True

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several queries that see one state of the file. Keep it short: a long one would hold up checkpoints."""
        with self._family.turn:
            connection = self._open_connection()
            self._run(connection, "BEGIN", ())
            try:
                yield
            finally:
                # an error has closed it, and with it the transaction
                if connection is self._connection and connection.in_transaction:
                    self._run(connection, "ROLLBACK", ())

    def has_events(self) -> bool:
        """Whether the log has the columns of typed rows. Asked anew until it has: an ALTER may come while we read."""
        if not self._has_events:
            columns = {row[1] for row in self.query("PRAGMA table_info(GraphLog)")}
            self._has_events = {b"event_id", b"event_payload"} <= columns
        return self._has_events

    def is_embedded(self) -> bool:
        """Whether wake-bridge made the file."""
        return bool(self.query("PRAGMA application_id")[0][0] == APPLICATION_ID)

    def commits_seen(self) -> int:
        """Changes whenever another connection committed, and with every opening.

        `PRAGMA data_version` alone starts anew on each connection: two of them may agree by chance. Nor does it say that a
        backup was copied over the file: whenever the file itself was written, it is opened anew, at most once a second.
        """
        with self._family.turn:
            if self._connection is not None and self._may_be_written_over():
                self.reopen()
            seen = int(self.query("PRAGMA data_version")[0][0])
        return self._openings << 32 | seen

    def file_at_path(self) -> tuple[int, int]:
        """(device, inode) of what lies at the path now."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - the one safe look at the file
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise SourceMissing(
                "there is no graph",
                str(self.path),
                hint="`wake-bridge setup` or `init` makes one; or set graph.path to yours",
            ) from missing
        except OSError as refusal:
            raise SourceUnavailable(
                f"the graph cannot be reached ({refusal.strerror})",
                str(self.path),
                hint="give this user read access to it",
            ) from refusal
        if not stat.S_ISREG(found.st_mode):
            what = "this is a directory, not a graph" if stat.S_ISDIR(found.st_mode) else "this is not a file"
            raise SourceNotAGraph(what, str(self.path), hint=_NOT_OURS)
        return found.st_dev, found.st_ino

    def refresh(self) -> None:
        """Make sure that the next answer comes from the file at the path, on a connection that hears."""
        with self._family.turn:
            is_old = time.monotonic() - self._opened_at > REOPEN_AFTER
            if self._connection is not None and (is_old or self.file_at_path() != self._opened_file):
                self.reopen()
            self.heal()

    def heal(self) -> bool:
        """Open the file anew if the connection has gone deaf; answers whether it had.

        While our locks hold, nobody can delete the WAL index we have mapped: if another one, or none, lies in its
        place, the locks are lost and so is all that is committed from now on.
        """
        with self._family.turn:
            if self._connection is None or self._index_file is None or self._index_at_path() == self._index_file:
                return False
            if self.file_at_path() != self._opened_file:
                # another file, with an index of its own
                return False
            self.reopen()
            return True

    def reopen(self) -> None:
        """Open the file anew, after every connection of this process to it was closed.

        A connection that stays open keeps the old WAL index, and SQLite would hand it to the new one.
        """
        with self._family.turn:
            for member in self._family.members():
                member.close()
            self._open_connection()

    def close(self) -> None:
        """Give up the connection; the next use opens it again."""
        with self._family.turn:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is not None:
            if self._index_file is None:
                self._index_file = self._index_at_path()
            return self._connection
        file_before, shape_before = self.file_at_path(), self._shape_at_path()
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
            limit(connection)
            self._budget = Budget(connection, self.path)
            self._run(connection, "PRAGMA query_only = 1", ())
            self._check(connection)
            self._require_still_there(file_before)
        except BaseException:
            connection.close()
            raise
        self._connection, self._opened_file, self._opened_at = connection, file_before, time.monotonic()
        self._opened_as = shape_before
        # still deaf if something outside this family kept the old index open: then the next look heals
        self._index_file = (0, 0) if self._family.maps_deleted_index() else self._index_at_path()
        self._has_events = False
        self._openings += 1
        return connection

    def _may_be_written_over(self) -> bool:
        """Whether something wrote the file itself; commits go into the WAL."""
        return time.monotonic() - self._opened_at > REOPEN_AGAIN_AFTER and self._shape_at_path() != self._opened_as

    def _shape_at_path(self) -> tuple[int, int]:
        """(nanosecond of the last write, bytes) of the file at the path; zeros where there is none."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - safe, as above
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size

    def _index_at_path(self) -> tuple[int, int] | None:
        """(device, inode) of the WAL index, `-shm`; None where there is none, as in a file without a WAL."""
        try:
            found = os.stat(self._family.index)  # noqa: PTH116 - safe, as above
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_still_there(self, file_before: tuple[int, int]) -> None:
        if self.file_at_path() != file_before:
            raise SourceUnavailable("the graph is being replaced", str(self.path), hint="wake-bridge looks at it again")

    def _check(self, connection: sqlite3.Connection) -> None:
        try:
            why_not = why_no_graph(connection)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        if why_not:
            raise SourceNotAGraph(f"this database is not a graph: {why_not}", str(self.path), hint=_NOT_OURS)

    def _run(self, connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> Rows:
        try:
            return self._started(connection, statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _started(self, connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        if self._budget is not None:
            self._budget.begin()
        return connection.execute(statement, tuple(values))

    def _close_after(self, error: BaseException | None) -> None:
        """Open anew after an error; a busy file and a large row are no fault of the connection."""
        if not is_busy(error) and not is_too_large(error):
            self.close()

    def _explained(self, error: sqlite3.Error) -> SourceError:
        """SQLite's error as one a person can act on."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return SourceNotAGraph("this file is not a database", str(self.path), hint=_NOT_OURS)
        if is_interrupted(error) and self._budget is not None:
            what, hint = stall_told(self._budget.seconds)
            return SourceUnavailable(what, str(self.path), hint=hint)
        hint = _HINTS.get(code, "wake-bridge looks at it again")
        return SourceUnavailable(f"the graph cannot be read now ({error})", str(self.path), hint=hint)


def is_busy(error: BaseException | None) -> bool:
    """Whether SQLite says that somebody else holds the file for the moment."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
