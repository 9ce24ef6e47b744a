"""How a ledger of an earlier version becomes one of ours: forward only, after a backup copy (DESIGN §3)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import LedgerTooNew
from wake_bridge.edges.configuration.paths import PRIVATE_FILE

Migration = Callable[[sqlite3.Connection], None]
"""Brings the schema from one version to the next, statement by statement, inside a transaction it does not end."""


def create_first_schema(connection: sqlite3.Connection) -> None:
    """Version 0, an empty file, to version 1."""
    _run_script(connection, "v1.sql")


def add_heartbeat_and_notices(connection: sqlite3.Connection) -> None:
    """To version 2."""
    _run_script(connection, "v2.sql")


def add_sessions(connection: sqlite3.Connection) -> None:
    """To version 3."""
    _run_script(connection, "v3.sql")


def bring_to_version_4(connection: sqlite3.Connection) -> None:
    """To version 4: remembered panes, and news that is told once more."""
    _run_script(connection, "v4.sql")


MIGRATIONS: Final[tuple[Migration, ...]] = (
    create_first_schema,
    add_heartbeat_and_notices,
    add_sessions,
    bring_to_version_4,
)
"""In order; the version of a file is how many of them it has seen. Append, never change."""


def _run_script(connection: sqlite3.Connection, name: str) -> None:
    script = files("wake_bridge.edges.ledger_store").joinpath(name).read_text(encoding="utf-8")
    for statement in statements_of(script):
        connection.execute(statement)


def statements_of(script: str) -> Iterator[str]:
    """The statements of an SQL script; `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the file has seen."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path, newest: int) -> None:
    """Raise `LedgerTooNew` when a later version of wake-bridge wrote the file."""
    version = version_of(connection)
    if version > newest:
        raise LedgerTooNew(
            f"the ledger has version {version}, this wake-bridge knows up to {newest}",
            str(path),
            hint="install the wake-bridge that wrote it, or set `daemon.state_dir` to another directory",
        )


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Bring the file at `path` to the newest version; all the steps happen or none.

    A file that holds something already is first copied to `<name>.before-v<newest>`. Other processes wait meanwhile.
    Raises `LedgerTooNew`; and what SQLite raises, with the file as it was.
    """
    refuse_newer(connection, path, len(migrations))
    if version_of(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another process may have been quicker
        version = version_of(connection)
        if 0 < version < len(migrations):
            _keep_copy(path, path.with_name(f"{path.name}.before-v{len(migrations)}"))
        _step_through(connection, migrations[version:])
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate_in_memory(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """The same for a ledger that is only a copy in memory."""
    connection.execute("BEGIN")
    _step_through(connection, migrations[version_of(connection) :])
    connection.execute("COMMIT")


def _step_through(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    for migration in migrations:
        migration(connection)


def _keep_copy(path: Path, copy: Path) -> None:
    """Copy through a connection of its own: the one that holds the write lock may not be the source."""
    unfinished = copy.with_name(f"{copy.name}.part")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    source = sqlite3.connect(path, isolation_level=None)
    target = sqlite3.connect(unfinished, isolation_level=None)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()
    unfinished.replace(copy)
