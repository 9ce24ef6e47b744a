"""A graph file that a command opens, to read it or to write it in the real services' format, in small transactions.

Only the graph commands write; the daemon never does.

For the graph commands, each a short-lived process of its own; the daemon's tail reads through `sqlite_graph`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from wake_bridge.domain.errors import (
    OperationFailed,
    RefusedForSafety,
    SourceMissing,
    SourceNotAGraph,
    SourceUnavailable,
)
from wake_bridge.ports.change_log import IDENTITY_LABELS, EdgeRow
from wake_bridge.storage.graph.access import (
    HEAVIEST,
    REINFORCEMENT,
    REPAIR,
    Node,
    StoredLetter,
    as_stored,
    storable,
    weight_of,
)
from wake_bridge.storage.graph.pieces import (
    LETTERS,
    UNMARKED,
    Row,
    edge_columns,
    keys_of,
    letter,
    message_in,
    node_at,
    rows_of,
    walk,
)
from wake_bridge.storage.graph.rows import (
    LARGEST_VALUE,
    Budget,
    Large,
    Stored,
    Unreadable,
    edge_row,
    is_interrupted,
    is_too_large,
    large_value,
    limit,
    stall_told,
    stored,
    stored_or_none,
    text,
    why_no_graph,
)
from wake_bridge.storage.graph.schema import APPLICATION_ID, sqlite_address

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another writer, as the real services do."""

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

# by columns of the edge alone: nothing of what it holds is loaded for it; + keeps SQLite from walking through all mail
# of the recipient for each message, which takes the square of their number
_ADDRESSED: Final = """
    SELECT e.rowid FROM Edges e
    WHERE ((e.type = 'DELIVERED_TO' AND e.target = ?1)
        OR (e.type = 'SENT_TO' AND e.target = ?1 AND NOT EXISTS (
            SELECT 1 FROM Edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO' AND +d.target = ?1))
        OR (e.type = 'SENT_TO' AND e.target = 'AGENT:*' AND NOT EXISTS (
            SELECT 1 FROM Edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO')))
"""
_ALL: Final = f"{_ADDRESSED} ORDER BY e.rowid"
_ONE: Final = f"{_ADDRESSED} AND e.source = ?2 ORDER BY e.rowid"
_UNREAD: Final = f"""{LETTERS}
    WHERE CASE WHEN json_valid(n.data) AND json_valid(e.data) THEN
        COALESCE(json_extract(CASE e.type WHEN 'DELIVERED_TO' THEN e.data ELSE n.data END, '$.properties.readAt'), '')
            {UNMARKED}
        AND COALESCE(
            json_extract(CASE e.type WHEN 'DELIVERED_TO' THEN e.data ELSE n.data END, '$.properties.archivedAt'), '')
            {UNMARKED}
    ELSE 1 END
"""


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
        self.place = path
        try:
            mode = path.stat().st_mode
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
        if stat.S_ISDIR(mode):
            raise SourceNotAGraph("this is a directory, not a graph", str(path), hint="set graph.path to a file in it")
        if stat.S_ISFIFO(mode):
            # SQLite would wait at it for ever, through every signal
            raise SourceNotAGraph("this is a pipe, not a graph", str(path), hint="set graph.path to the graph")
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
                str(self.place),
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

        # '@' to just before 'A': a range of the primary key instead of a walk through all nodes
        where = "id >= '@' AND id < 'A' AND data GLOB ?" if label in IDENTITY_LABELS else "data GLOB ?"
        return sorted(walk(self, where, labelled, f"*{label}*"), key=lambda node: node.id)

    def edges(self, kind: str, *, source: str | None = None, target: str | None = None) -> list[EdgeRow]:
        """All edges of a type, of a source or a target if given; oldest first. Properties that cannot be read are none."""
        given = [end for end in (source, target) if end is not None]
        keys = keys_of(self, _BY_ENDS[source is not None, target is not None], kind, *given)
        return [_edge(row) for row in rows_of(self, keys, _EDGES_OF, lambda key: edge_columns(self, key))]

    def letters(self, identity: str, message_id: str | None = None) -> Iterator[StoredLetter]:
        """See `Graph.letters`. Rows are loaded a few at a time."""
        if message_id is None:
            keys, statement = keys_of(self, _ALL, identity), _UNREAD
        else:
            keys, statement = keys_of(self, _ONE, identity, message_id), LETTERS
        for found_id, message, edge_id, _, _, kind, edge in rows_of(
            self, keys, statement, lambda key: letter(self, key)
        ):
            yield StoredLetter(
                text(found_id), _message(self, text(found_id), message), text(edge_id), text(kind), _whole(edge)
            )

    def tip(self) -> int:
        """See `Graph.tip`."""
        return int(self.query("SELECT COALESCE(MAX(log_id), 0) FROM GraphLog")[0][0])

    def journal_mode(self) -> str:
        """See `Graph.journal_mode`."""
        return str(self.query("PRAGMA journal_mode")[0][0])

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
                raise SourceUnavailable(what, str(self.place), hint=hint) from busy
            raise SourceUnavailable(
                f"the graph cannot be used now ({busy})",
                str(self.place),
                hint="another program may hold it, or the file or its directory may be read-only; try again",
            ) from busy
        except sqlite3.IntegrityError as refusal:
            raise OperationFailed(f"the graph refuses the change ({refusal})", str(self.place)) from refusal
        except sqlite3.DatabaseError as broken:
            if is_too_large(broken):
                raise SourceUnavailable(
                    f"a row is larger than {LARGEST_VALUE:,} bytes",
                    str(self.place),
                    hint="make it smaller in the graph",
                ) from broken
            raise SourceNotAGraph(
                f"this file is not a graph ({broken})",
                str(self.place),
                hint="set graph.path to the graph, or to a new place and run `wake-bridge init`",
            ) from broken


def _edge(row: Row) -> EdgeRow:
    edge_id, source, target, kind, data = row
    kept = stored_or_none(data)
    return edge_row(edge_id, source, target, kind, kept.properties if kept else {})


def _message(graph: GraphFile, message_id: str, data: object) -> Stored | Unreadable:
    try:
        return message_in(graph, message_id, data)
    except Unreadable as why:
        return why


def _whole(data: object) -> Stored | Unreadable:
    """The JSON of an edge, if all of it can be read."""
    try:
        edge = stored(data)
    except Unreadable as why:
        return why
    return edge if edge.is_whole else Unreadable(f"it is too large to read ({data})")


_STATE: Final = "json_extract(data, '$.properties.task.state')"
_TYPED_ROW: Final = "INSERT INTO GraphLog(entity_id, entity_type, event_id, event_payload) VALUES (?, ?, ?, ?)"
_SET_PROPERTY: Final = {
    "Nodes": "UPDATE Nodes SET data = json_set(data, ?, ?) WHERE id = ?",
    "Edges": "UPDATE Edges SET data = json_set(data, ?, ?) WHERE id = ?",
}


class GraphWriter(GraphFile):
    """A graph opened for writing: each change is a transaction of its own, as the real services commit.

    Args:
        path: the graph.
        allow_foreign: whether a graph that wake-bridge did not make may be written.
    """

    _mode = "rw"

    def __init__(self, path: Path, *, allow_foreign: bool = False) -> None:
        """Open the graph; see `GraphFile`.

        Raises:
            RefusedForSafety: it is foreign, and that was not allowed.
        """
        super().__init__(path)
        if self.is_embedded or allow_foreign:
            with self._translating():
                self._connection.execute("PRAGMA foreign_keys = ON")
            return
        self.close()
        raise RefusedForSafety(
            "this graph belongs to another program", str(path), hint="add --foreign if you mean to write to it"
        )

    def put_node(self, node_id: str, label: str, properties: Mapping[str, Any]) -> None:
        """Insert a node, or replace what it holds.

        Raises:
            UsageMistake: it is larger than anybody here could read.
        """
        data = storable({"id": node_id, "label": label, "properties": dict(properties)})
        row = {"id": node_id, "user_id": properties.get("userId"), "data": data}
        self._upsert("Nodes", row)

    def link(self, source: str, target: str, kind: str, properties: Mapping[str, Any]) -> str:
        """Link two nodes; linking the same pair again updates the weight of the edge that is there.

        Returns:
            The edge's id.
        """
        with self.transaction():
            present = self.edges(kind, source=source, target=target)
            if present:
                edge_id = present[0].id
                weight = min(weight_of(present[0].properties.get("weight")) + REINFORCEMENT, HEAVIEST)
                merged = {**present[0].properties, **properties, "weight": weight}
            else:
                edge_id = str(uuid.uuid4())
                merged = {"weight": 1, **properties}
            edge = {"id": edge_id, "source": source, "target": target, "type": kind}
            row = {**edge, "user_id": merged.get("userId"), "data": storable({**edge, "properties": merged})}
            self._upsert("Edges", row)
        return edge_id

    def set_property(self, table: Literal["Nodes", "Edges"], row_id: str, name: str, value: str) -> bool:
        """See `WritableGraph.set_property`."""
        try:
            self.run(_SET_PROPERTY[table], (f"$.properties.{name}", value, row_id))
        except SourceUnavailable as error:
            if not is_too_large(error.__cause__):
                raise
            return False
        return True

    def move_task(self, task_id: str, previous: str, changed: Mapping[str, str | None]) -> bool:
        """See `WritableGraph.move_task`."""
        pairs = ", ".join("?, ?" for _ in changed)
        values = [part for path, value in changed.items() for part in (f"$.properties.{path}", value)]
        statement = f"UPDATE Nodes SET data = json_set(data, {pairs}) WHERE id = ? AND {_STATE} = ?"  # noqa: S608 - ours
        return bool(self.run(statement, [*values, task_id, previous]))

    def append_event(self, entity_id: str, kind: str, event_id: str, payload: Mapping[str, Any]) -> None:
        """See `WritableGraph.append_event`."""
        self.run(_TYPED_ROW, (entity_id, kind, event_id, as_stored(payload)))

    def rewrite(self, node_id: str) -> None:
        """See `WritableGraph.rewrite`."""
        self.run("UPDATE Nodes SET data = data WHERE id = ?", (node_id,))

    def delete_node(self, node_id: str) -> None:
        """Delete a node with its edges; the edges go first, one by one, so that each leaves its row in the log."""
        rows = self.query("SELECT id FROM Edges WHERE source = ? OR target = ?", (node_id, node_id))
        for (edge_id,) in rows:
            self.run("DELETE FROM Edges WHERE id = ?", (edge_id,))
        self.run("DELETE FROM Nodes WHERE id = ?", (node_id,))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Several changes that belong together; undone as a whole when one fails."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # a statement that was ended has rolled back by itself
            if self._connection.in_transaction:
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def _upsert(self, table: str, row: Mapping[str, object]) -> None:
        names = [name for name in row if name != "user_id" or self._has_owner]
        columns, places = ", ".join(names), ", ".join("?" for _ in names)
        changes = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
        statement = f"INSERT INTO {table}({columns}) VALUES ({places}) ON CONFLICT(id) DO UPDATE SET {changes}"  # noqa: S608 - names of columns, all written here
        self.run(statement, [row[name] for name in names])

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        """One statement; answers how many rows it changed."""
        with self._translating():
            self._budget.begin()
            return self._connection.execute(statement, parameters).rowcount
