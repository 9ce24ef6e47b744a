"""Moves a graph of ours from one engine to another: all or nothing, and compared row by row before it counts."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.domain.names import BROADCAST
from wake_bridge.storage.graph.access import COLUMNS, REPAIR, as_stored
from wake_bridge.storage.graph.opened import create_graph, open_graph
from wake_bridge.storage.graph.rows import Unreadable, stored
from wake_bridge.storage.graph.schema import sqlite_address

TABLES: Final = ("nodes", "edges", "graphlog")
LARGEST: Final = 2 * 1024 * 1024
"""Bytes of JSON that a row may have in PostgreSQL."""

_NAMED: Final = 5
"""Rows at fault that are named; the others are counted."""

Row = tuple[Any, ...]


class Copied(NamedTuple):
    """How many rows were copied and compared."""

    nodes: int
    edges: int
    log: int


class Side(Protocol):
    """One end of a copy; entered, it is one transaction."""

    def rows(self, table: str) -> Iterator[Row]:
        """All rows of a table in the order in which they were made, JSON as text."""

    def highest(self) -> int:
        """The highest log id that was ever given."""

    def ready(self) -> None:
        """Take away what an empty graph holds, and let nothing be logged until the end."""

    def fill(self, table: str, rows: Iterable[Row]) -> None:
        """Put rows into a table."""

    def done(self, highest: int) -> None:
        """Log again, from the id after the highest on."""


def copy_graph(source: GraphPlace, target: GraphPlace, now: str) -> Copied:
    """Copy a graph of ours into an empty or a new one. The source is only read, and stays.

    Log ids stay what they are, so that a daemon goes on from where its ledger stands.

    Args:
        source: where it lies.
        target: where it shall lie.
        now: the present time as text.

    Raises:
        RefusedForSafety: the target holds something, or one of them is another program's.
        OperationFailed: a row cannot be moved, or is not there as it was; then nothing was changed.
        SourceError: one of them cannot be used.
    """
    for place in (source, target):
        _require_ours(place, target=place is target, now=now)
    with ExitStack() as held:
        theirs = held.enter_context(_side(source, is_read=True))
        _require_movable(theirs)
        ours = held.enter_context(_side(target, is_read=False))
        _require_empty(ours, target)
        ours.ready()
        counts = []
        for table in TABLES:
            ours.fill(table, theirs.rows(table))
            counts.append(_compared(theirs.rows(table), ours.rows(table), table))
        ours.done(theirs.highest())
    return Copied(*counts)


def _require_ours(place: GraphPlace, *, target: bool, now: str) -> None:
    if target:
        create_graph(place, now)
    with open_graph(place) as graph:
        if not graph.is_embedded:
            raise RefusedForSafety(
                "this graph belongs to another program", str(place), hint="only a graph that wake-bridge made is moved"
            )


def _require_empty(side: Side, place: GraphPlace) -> None:
    present = [*islice((row for table in ("nodes", "edges") for row in side.rows(table) if row[0] != BROADCAST), 1)]
    if present:
        raise RefusedForSafety(
            f"there is something in the target already, {present[0][0]} for one",
            str(place),
            hint="name a new file, or an empty database: nothing was changed",
        )


def _require_movable(side: Side) -> None:
    """Raise `OperationFailed` for rows that the other engine could not hold as they are."""
    faults = [
        f"{row[0] if table != 'graphlog' else f'log {row[0]}'} ({why})"
        for table in TABLES
        for row in side.rows(table)
        if not (table == "graphlog" and row[-1] is None) and (why := _why_not(row[-1]))
    ]
    if faults:
        more = f" and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise OperationFailed(
            f"{len(faults)} rows cannot be moved as they are", ", ".join(faults[:_NAMED]) + more, hint=REPAIR
        )


def _why_not(data: object) -> str:
    if not isinstance(data, str):
        return "its JSON is not text"
    try:
        stored(data.encode())
    except Unreadable as why:
        return str(why)
    except UnicodeEncodeError:
        return "it is not UTF-8"
    said = as_stored(json.loads(data))
    if "\\u0000" in said.replace("\\\\", "") or "\\ud" in said.replace("\\\\", ""):
        return "NUL or half a character, which PostgreSQL cannot hold"
    return "it takes more than 2 MiB" if len(data.encode()) > LARGEST else ""


def _compared(before: Iterator[Row], after: Iterator[Row], table: str) -> int:
    count = 0
    for one, other in zip_longest(before, after):
        if one is None or other is None or _meant(one) != _meant(other):
            raise OperationFailed(
                f"a row of {table} is not there as it was",
                str((one or other)[0]),
                hint="nothing was changed; try again",
            )
        count += 1
    return count


def _meant(row: Row) -> Row:
    """A row without the spelling of its JSON."""
    data = row[-1]
    return (*row[:-1], None if data is None else json.loads(data))


def _side(place: GraphPlace, *, is_read: bool) -> AbstractContextManager[Side]:
    if isinstance(place, GraphUrl):
        from wake_bridge.storage.graph.postgres.copying import PostgresSide  # noqa: PLC0415 - an extra

        return PostgresSide.opened(place, is_read=is_read)
    return SqliteSide.opened(place, is_read=is_read)


class SqliteSide:
    """See `Side`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._triggers: list[str] = []

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path, *, is_read: bool) -> Iterator[SqliteSide]:
        """One transaction on a file."""
        address = sqlite_address(path.absolute(), "ro" if is_read else "rw")
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
                # what is no UTF-8 is found by that, and named
                connection.text_factory = lambda said: said.decode("utf-8", "surrogateescape")
                connection.execute("BEGIN" if is_read else "BEGIN IMMEDIATE")
                yield cls(connection)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise OperationFailed(
                f"the graph cannot be copied ({error})", str(path), hint="nothing was changed"
            ) from error

    def rows(self, table: str) -> Iterator[Row]:
        """See `Side.rows`."""
        order = "log_id" if table == "graphlog" else "rowid"
        return self._connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table} ORDER BY {order}")  # noqa: S608 - ours

    def highest(self) -> int:
        """See `Side.highest`."""
        rows = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'GraphLog'").fetchall()
        return int(rows[0][0]) if rows else 0

    def ready(self) -> None:
        """See `Side.ready`."""
        found = self._connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        self._triggers = [statement for _, statement in found]
        for name, _ in found:
            self._connection.execute(f"DROP TRIGGER {name}")
        for table in reversed(TABLES):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - ours

    def fill(self, table: str, rows: Iterable[Row]) -> None:
        """See `Side.fill`."""
        columns = COLUMNS[table]
        places = ", ".join("?" for _ in columns)
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)  # noqa: S608 - ours

    def done(self, highest: int) -> None:
        """See `Side.done`."""
        for statement in self._triggers:
            self._connection.execute(statement)
        self._connection.execute("DELETE FROM sqlite_sequence WHERE name = 'GraphLog'")
        self._connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('GraphLog', ?)", (highest,))
