"""A graph file opened by a command to look at it.

For the graph commands, each a short-lived process of its own; the daemon's tail reads through `sqlite_graph`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from wake_bridge.domain.errors import OperationFailed, SourceMissing, SourceNotAGraph, SourceUnavailable
from wake_bridge.ports.change_log import EdgeRow
from wake_bridge.storage.graph.bounds import (
    LARGEST_VALUE,
    Budget,
    Large,
    is_interrupted,
    is_too_large,
    large_value,
    limit,
    stall_told,
    why_no_graph,
)
from wake_bridge.storage.graph.pieces import Row, edge_columns, keys_of, message_in, node_at, rows_of, walk
from wake_bridge.storage.graph.rows import Unreadable, edge_row, stored_or_none, text
from wake_bridge.storage.graph.schema import APPLICATION_ID, sqlite_address

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another writer, as the real services do."""

REPAIR: Final = "repair or delete that row in the graph"
"""What to do about a row that cannot be read."""

Properties = dict[str, Any]
Parameters = Sequence[object] | Mapping[str, object]
Answer = TypeVar("Answer")

_EDGES: Final = "SELECT rowid FROM Edges WHERE type = ?"
_BY_ENDS: Final = {
    (True, True): f"{_EDGES} AND source = ? AND target = ? ORDER BY rowid",
    (True, False): f"{_EDGES} AND source = ? ORDER BY rowid",
    (False, True): f"{_EDGES} AND target = ? ORDER BY rowid",
    (False, False): f"{_EDGES} ORDER BY rowid",
}
# the keys lead, in their order
_EDGES_OF: Final = """
    SELECT e.id, e.source, e.target, e.type, e.data
    FROM json_each(?1) wanted CROSS JOIN Edges e ON e.rowid = wanted.value
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as stored; `properties` is the inner object of its JSON, or what is known of one that is too large to load."""

    id: str
    label: str
    properties: Properties
    is_whole: bool = True


def owner_of(identity: str) -> str:
    """The `userId` of what an identity writes: its login without the `@`."""
    return identity.removeprefix("@")


class GraphFile:
    """A graph opened for reading.

    Use as a context manager. Every method raises `SourceUnavailable` when the file is locked or unreadable for now.
    """

    _mode = "ro"

    def __init__(self, path: Path) -> None:
        """Open the graph.

        Raises:
            SourceMissing: no file there.
            SourceNotAGraph: a file, but without `Nodes`, `Edges` and `GraphLog`.
            SourceUnavailable: locked or unreadable for now.
        """
        self.path = path
        try:
            is_pipe = stat.S_ISFIFO(path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise SourceMissing(
                "there is no graph",
                str(path),
                hint="`wake-bridge setup` or `init` makes one; or set graph.path to yours",
            ) from missing
        except OSError as refusal:
            raise SourceUnavailable(
                f"the graph cannot be reached ({refusal.strerror})", str(path), hint="give this user read access to it"
            ) from refusal
        if is_pipe:
            # SQLite would wait at it for ever, through every signal
            raise SourceNotAGraph("this is a pipe, no graph", str(path), hint="set graph.path to the graph")
        with self._translating():
            self._connection = sqlite3.connect(
                sqlite_address(path, self._mode), uri=True, isolation_level=None, timeout=BUSY_TIMEOUT
            )
            limit(self._connection)
            self._budget = Budget(self._connection, path)
        try:
            self._probe()
        except BaseException:
            self._connection.close()
            raise

    def _probe(self) -> None:
        with self._translating():
            why_not = why_no_graph(self._connection)
        if why_not:
            raise SourceNotAGraph(
                f"this database is not a graph: {why_not}",
                str(self.path),
                hint="set graph.path to the graph, or to a new place and run `wake-bridge init`",
            )
        columns = {
            table: {str(row[1]) for row in self.query(f"PRAGMA table_info({table})")}
            for table in ("Nodes", "Edges", "GraphLog")
        }
        self.is_embedded = self.query("PRAGMA application_id")[0][0] == APPLICATION_ID
        self._has_owner = "user_id" in columns["Nodes"] and "user_id" in columns["Edges"]
        self.has_events = {"event_id", "event_payload"} <= columns["GraphLog"]

    def close(self) -> None:
        """Give up the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def node(self, node_id: str) -> Node | None:
        """One node; None if it is not there.

        Raises:
            OperationFailed: its JSON cannot be read.
        """
        found = node_at(self, node_id)
        if found is None:
            return None
        try:
            node = message_in(self, node_id, found[1])
        except Unreadable as why:
            raise OperationFailed(f"the node cannot be read: {why}", node_id, hint=REPAIR) from why
        return Node(node_id, node.label, dict(node.properties), is_whole=node.is_whole)

    def nodes(self, label: str) -> list[Node]:
        """All nodes with a label, by id; those whose JSON cannot be read are left out."""

        def labelled(node_id: object, data: object) -> Node | None:
            node = stored_or_none(data)
            return Node(text(node_id), label, dict(node.properties)) if node and node.label == label else None

        return sorted(walk(self, "data GLOB ?", labelled, f"*{label}*"), key=lambda node: node.id)

    def edges(self, kind: str, *, source: str | None = None, target: str | None = None) -> list[EdgeRow]:
        """All edges of a type, of a source or a target if given; oldest first. Properties that cannot be read are none."""
        given = [end for end in (source, target) if end is not None]
        keys = keys_of(self, _BY_ENDS[source is not None, target is not None], kind, *given)
        return [_edge(row) for row in rows_of(self, keys, _EDGES_OF, lambda key: edge_columns(self, key))]

    def query(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of one question, texts as texts."""
        with self._translating():
            self._budget.begin()
            rows = self._connection.execute(statement, parameters).fetchall()
        return [tuple(text(value) if isinstance(value, bytes) else value for value in row) for row in rows]

    def each(self, read: Callable[[Row], Answer], statement: str, *values: object) -> list[Answer]:
        """See `sqlite_pieces.GraphReader`."""
        with self._translating():
            self._budget.begin()
            with contextlib.closing(self._connection.execute(statement, values)) as cursor:
                return [read(row) for row in cursor]

    def large(self, table: str, column: str, rowid: int) -> Large:
        """See `sqlite_pieces.GraphReader`."""
        with self._translating():
            return large_value(self._connection, table, column, rowid)

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        """SQLite's complaints as errors a person can act on."""
        try:
            yield
        except sqlite3.OperationalError as busy:
            if is_interrupted(busy):
                what, hint = stall_told(self._budget.seconds)
                raise SourceUnavailable(what, str(self.path), hint=hint) from busy
            raise SourceUnavailable(
                f"the graph cannot be used now ({busy})",
                str(self.path),
                hint="another program may hold it, or the file or its directory may be read-only; try again",
            ) from busy
        except sqlite3.IntegrityError as refusal:
            raise OperationFailed(f"the graph refuses the change ({refusal})", str(self.path)) from refusal
        except sqlite3.DatabaseError as broken:
            if is_too_large(broken):
                raise SourceUnavailable(
                    f"a row is larger than {LARGEST_VALUE:,} bytes", str(self.path), hint="make it smaller in the graph"
                ) from broken
            raise SourceNotAGraph(
                f"this file is not a graph ({broken})",
                str(self.path),
                hint="set graph.path to the graph, or to a new place and run `wake-bridge init`",
            ) from broken


def _edge(row: Row) -> EdgeRow:
    edge_id, source, target, kind, data = row
    kept = stored_or_none(data)
    return edge_row(edge_id, source, target, kind, kept.properties if kept else {})
