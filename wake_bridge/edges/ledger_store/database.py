"""One connection to the ledger: short transactions, and SQLite's errors told as ours (DESIGN §3)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from wake_bridge.domain.errors import IllegalTransition, LedgerError, LedgerUnwritable

BUSY_PATIENCE: Final = 5.0
"""Seconds to wait while another process writes."""

Parameters = Sequence[Any] | Mapping[str, Any]

_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_UNWRITABLE: Final = {
    sqlite3.SQLITE_BUSY: ("the ledger is busy", "another process keeps it locked: try again in a moment"),
    sqlite3.SQLITE_LOCKED: ("the ledger is busy", "another process keeps it locked: try again in a moment"),
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space: nothing that was recorded is lost"),
    sqlite3.SQLITE_IOERR: ("the ledger cannot be written", "look at the disk: nothing that was recorded is lost"),
    sqlite3.SQLITE_READONLY: ("the ledger cannot be written", "let this user write there, or set `daemon.state_dir`"),
    sqlite3.SQLITE_CANTOPEN: ("the ledger cannot be opened", "let this user write there, or set `daemon.state_dir`"),
    sqlite3.SQLITE_PERM: ("the ledger cannot be opened", "let this user write there, or set `daemon.state_dir`"),
}


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is broken."""
    return _primary_code(error) in _DAMAGED


def explained(error: sqlite3.Error, path: str) -> LedgerError:
    """SQLite's error as one that a person can act on."""
    code = _primary_code(error)
    if code in _DAMAGED:
        return LedgerError("the ledger is damaged", path, hint="restart the daemon: it sets the file aside and goes on")
    if code in _UNWRITABLE:
        what, hint = _UNWRITABLE[code]
        return LedgerUnwritable(f"{what} ({error})", path, hint=hint)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CONSTRAINT_TRIGGER:
        return IllegalTransition(f"the ledger refuses: {error}", path, hint="nothing was changed")
    return LedgerError(
        f"the ledger failed: {error}", path, hint="nothing was changed; `wake-bridge doctor` looks further"
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
        self._is_inside = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, on disk at the end; waits up to `BUSY_PATIENCE` seconds for other writers."""
        self._run("BEGIN IMMEDIATE")
        self._is_inside = True
        try:
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
