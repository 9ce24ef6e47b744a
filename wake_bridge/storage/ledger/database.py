"""What all parts of the ledger stand on: the database, and writing a line of the journal."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.delivery import Delivery, Step
from wake_bridge.domain.errors import (
    DiskFull,
    IllegalTransition,
    LedgerDisplaced,
    LedgerError,
    LedgerUnwritable,
    NotFound,
)
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Instant
from wake_bridge.storage.ledger.columns import delivery_of, event_of, to_json

BUSY_PATIENCE: Final = 5.0
"""Seconds to wait while another process writes."""

NO_ROOM: Final = 64 * 1024
"""Bytes: with less SQLite cannot even open the ledger, and says something else of it."""

_NORMAL: Final = 1
"""`PRAGMA synchronous`: the log is written in order, and synced with the next transaction that waits for it."""

Parameters = Sequence[Any] | Mapping[str, Any]

_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SAID_OF_A_FULL_DISK: Final = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
_UNWRITABLE: Final = {
    sqlite3.SQLITE_BUSY: ("the ledger is busy", "another process keeps it locked: try again in a moment"),
    sqlite3.SQLITE_LOCKED: ("the ledger is busy", "another process keeps it locked: try again in a moment"),
    sqlite3.SQLITE_IOERR: ("the ledger cannot be written", "look at the disk: nothing that was recorded is lost"),
    sqlite3.SQLITE_READONLY: (
        "the ledger cannot be written",
        "give this user write access there, or set `daemon.state_dir`",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the ledger cannot be opened",
        "give this user write access there, or set `daemon.state_dir`",
    ),
    sqlite3.SQLITE_PERM: (
        "the ledger cannot be opened",
        "give this user write access there, or set `daemon.state_dir`",
    ),
}


DISPLACED: Final = (
    "the daemon puts it back by itself, unless another one lies there: then stop it, and choose one of the two"
)


def identity_of(path: str) -> str:
    """Device and inode of what lies at a path; empty where nothing does."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked before every write
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is broken."""
    return _primary_code(error) in _DAMAGED


def explained(error: sqlite3.Error, path: str) -> LedgerError:
    """SQLite's error as one that a person can act on."""
    code = _primary_code(error)
    if code in _DAMAGED:
        return LedgerError("the ledger is damaged", path, hint="restart the daemon: it sets the file aside and goes on")
    if code == sqlite3.SQLITE_FULL or (code in _SAID_OF_A_FULL_DISK and is_full(Path(path).parent)):
        return disk_full(Path(path).parent)
    if code in _UNWRITABLE:
        what, hint = _UNWRITABLE[code]
        return LedgerUnwritable(f"{what} ({error})", path, hint=hint)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CONSTRAINT_TRIGGER:
        return IllegalTransition(f"the ledger refuses: {error}", path, hint="nothing was changed")
    return LedgerError(
        f"the ledger failed: {error}", path, hint="nothing was changed; `wake-bridge doctor` looks further"
    )


def is_full(directory: Path) -> bool:
    """Whether the disk of a directory has no room for anything; False where that cannot be told."""
    try:
        return shutil.disk_usage(directory).free < NO_ROOM
    except OSError:
        return False


def disk_full(directory: Path) -> DiskFull:
    """The error that names the directory and how much is free there."""
    try:
        free = f"{shutil.disk_usage(directory).free // 1024} KiB free"
    except OSError:
        free = "free space unknown"
    return DiskFull(
        f"the disk is full ({free})", str(directory), hint="free some space: nothing that was recorded is lost"
    )


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


class Database:
    """A connection in autocommit mode, used by one thread.

    Every statement outside `transaction` stands alone; inside, all of them happen or none. Raises `LedgerError` and
    its children, and nothing of `sqlite3`.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        connection.row_factory = sqlite3.Row
        self.connection = connection
        self.path = path
        self.trouble = ""
        """Why nothing can be written now, one clause; empty once something was."""
        self._is_inside = False
        self._place: dict[str, str] = {}

    def stay_at(self, *files: str) -> None:
        """From now on nothing is written unless each of these files is the very one that lies there now."""
        self._place = {one: identity_of(one) for one in files}

    def displaced(self) -> str:
        """What has become of the file, one clause; empty while it lies at its place. Costs a `stat` a file."""
        for path, before in self._place.items():
            if (now := identity_of(path)) != before:
                return f"{path} was {'replaced' if now else 'deleted'}"
        return ""

    @property
    def identities(self) -> frozenset[str]:
        """Device and inode of each of the files."""
        return frozenset(self._place.values())

    def reconnect(self, connection: sqlite3.Connection) -> None:
        """Go on with another connection to what is the same ledger."""
        connection.row_factory = sqlite3.Row
        self.connection = connection
        self.trouble = ""

    @contextmanager
    def derived(self) -> Iterator[None]:
        """A transaction that a power cut may take back, because what it writes follows from what is on disk: no sync is waited for.

        It outlives the end of the process, and is on disk before anything that is written after it by `transaction`.
        """
        synced = self.value("PRAGMA synchronous")
        self._run(f"PRAGMA synchronous = {min(synced, _NORMAL)}")
        try:
            with self.transaction():
                yield
        finally:
            self._run(f"PRAGMA synchronous = {synced}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, on disk at the end; waits up to `BUSY_PATIENCE` seconds for other writers."""
        with self._told():
            self._must_be_in_place()
            self._run("BEGIN IMMEDIATE")
        self._is_inside = True
        try:
            with self._told():
                yield
                self._run("COMMIT")
        except BaseException:
            # a failed commit has sometimes rolled back by itself
            if self.connection.in_transaction:
                self._run("ROLLBACK")
            raise
        finally:
            self._is_inside = False

    def change(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement that writes; answers how many rows it touched."""
        if self._is_inside:
            return self._run(statement, parameters).rowcount
        with self._told():
            self._must_be_in_place()
            return self._run(statement, parameters).rowcount

    def change_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement that writes once for each row of parameters."""
        for row in rows:
            self._run(statement, row)

    def rows(self, query: str, parameters: Parameters = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        try:
            return self._run(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def row(self, query: str, parameters: Parameters = ()) -> sqlite3.Row | None:
        """The first row of a query, None if there is none."""
        found = self.rows(query, parameters)
        return found[0] if found else None

    def value(self, query: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row, None if there is none."""
        found = self.row(query, parameters)
        return None if found is None else found[0]

    def give_back(self, pages: int) -> None:
        """Give at most so many unused pages of 4 KiB back to the disk."""
        try:
            # `execute` would stop after the first page
            self.connection.executescript(f"PRAGMA incremental_vacuum({pages})")
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def close(self) -> None:
        """Give up the file."""
        self.connection.close()

    def _must_be_in_place(self) -> None:
        if lost := self.displaced():
            raise LedgerDisplaced("the ledger is gone from its place", lost, hint=DISPLACED)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Remember why it cannot be written, and forget it once it could."""
        try:
            yield
        except LedgerUnwritable as away:
            # another process that writes is done in a moment
            if not (isinstance(away.__cause__, sqlite3.Error) and _primary_code(away.__cause__) in _BUSY):
                self.trouble = str(away)
            raise
        self.trouble = ""

    def _run(self, statement: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        try:
            if self.connection.in_transaction and not self._is_inside:
                # its rollback was refused as well: nobody may read on in what was never committed
                self.connection.execute("ROLLBACK")
            return self.connection.execute(statement, parameters)
        except UnicodeEncodeError:
            # JSON may carry lone surrogates, which no UTF-8 column can hold
            return self._run(statement, _without_surrogates(parameters))
        except sqlite3.Error as error:
            raise explained(error, self.path) from error


def _without_surrogates(parameters: Parameters) -> Parameters:
    if isinstance(parameters, Mapping):
        return {name: _storable(value) for name, value in parameters.items()}
    return [_storable(value) for value in parameters]


def _storable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


_WRITE_LINES: Final = """
    INSERT INTO journal (delivery_id, at, step, lease, detail)
    SELECT id, :now, json_extract(value, '$[1]'), owner_lease, json_extract(value, '$[2]')
    FROM (SELECT key, value FROM json_each(:lines)) CROSS JOIN delivery ON id = json_extract(value, '$[0]') ORDER BY key
"""


class LedgerPart:
    """One part of the ledger; all parts of a `LedgerStore` share one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def _write_line(self, delivery_id: str, step: Step, detail: Mapping[str, str], now: Instant) -> None:
        """Append to the journal with the delivery's lease as it is now."""
        self._write_lines([(delivery_id, step, detail)], now)

    def _write_lines(self, lines: Sequence[tuple[str, Step, Mapping[str, str]]], now: Instant) -> None:
        """Append a line for each: delivery, step and detail; one statement, however many they are."""
        told = [(delivery_id, step, to_json(dict(detail))) for delivery_id, step, detail in lines]
        self._db.change(_WRITE_LINES, {"lines": to_json(told), "now": now})

    def _note(self, facts: Mapping[str, int | str]) -> None:
        """Set single facts about the ledger as a whole."""
        self._db.change_each(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            facts.items(),
        )

    def _read(self, delivery_id: str) -> Delivery:
        """One delivery; raises `NotFound`."""
        row = self._db.row("SELECT * FROM delivery WHERE id = ?", (delivery_id,))
        if row is None:
            raise NotFound("no such delivery", delivery_id, hint="`wake-bridge deliveries` lists them")
        return delivery_of(row)

    def _deliveries(self, query: str, parameters: Parameters = ()) -> list[Delivery]:
        """The deliveries that a query over `delivery.*` finds."""
        return [delivery_of(row) for row in self._db.rows(query, parameters)]

    def _events(self, query: str, parameters: Parameters = ()) -> list[WakeEvent]:
        """The events that a query over `wake_event.*` finds."""
        return [event_of(row) for row in self._db.rows(query, parameters)]
