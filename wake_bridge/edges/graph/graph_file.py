"""A graph file opened by a command to look at it (DESIGN §2).

For the graph commands, each a short-lived process of its own; the daemon's tail reads through `sqlite_graph`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from wake_bridge.domain.errors import OperationFailed, SourceMissing, SourceNotAGraph, SourceUnavailable
from wake_bridge.edges.graph.graph_schema import APPLICATION_ID, sqlite_address
from wake_bridge.ports.change_log import EdgeRow

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another writer, as the real services do."""

Properties = dict[str, Any]
Parameters = Sequence[object] | Mapping[str, object]

_EDGES: Final = "SELECT id, source, target, type, data FROM Edges WHERE type = ?"
_BY_ENDS: Final = {
    (True, True): f"{_EDGES} AND source = ? AND target = ? ORDER BY rowid",
    (True, False): f"{_EDGES} AND source = ? ORDER BY rowid",
    (False, True): f"{_EDGES} AND target = ? ORDER BY rowid",
    (False, False): f"{_EDGES} ORDER BY rowid",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A node as stored; `properties` is the inner object of its JSON."""

    id: str
    label: str
    properties: Properties


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
                f"the graph cannot be reached ({refusal.strerror})", str(path), hint="let this user read it"
            ) from refusal
        if is_pipe:
            # SQLite would wait at it for ever, through every signal
            raise SourceNotAGraph("this is a pipe, no graph", str(path), hint="set graph.path to the graph")
        with self._translating():
            self._connection = sqlite3.connect(
                sqlite_address(path, self._mode), uri=True, isolation_level=None, timeout=BUSY_TIMEOUT
            )
        try:
            self._probe()
        except BaseException:
            self._connection.close()
            raise

    def _probe(self) -> None:
        columns = {
            table: {str(row[1]) for row in self.query(f"PRAGMA table_info({table})")}
            for table in ("Nodes", "Edges", "GraphLog")
        }
        if not all(columns.values()):
            missing = ", ".join(table for table, names in columns.items() if not names)
            raise SourceNotAGraph(
                f"this database is not a graph: it has no {missing}",
                str(self.path),
                hint="set graph.path to the graph, or to a new place and run `wake-bridge init`",
            )
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
        rows = self.query("SELECT id, data FROM Nodes WHERE id = ?", (node_id,))
        if not rows:
            return None
        node = _node(*rows[0])
        if node is None:
            raise OperationFailed("the node's JSON cannot be read", node_id, hint="repair it in the graph")
        return node

    def nodes(self, label: str) -> list[Node]:
        """All nodes with a label, by id; those whose JSON cannot be read are left out."""
        rows = self.query(
            # in the order of the file, and by GLOB first: a walk along the index of ids takes ten times as long
            "SELECT id, data FROM Nodes WHERE CASE WHEN data GLOB ?2 AND json_valid(data)"
            " THEN json_extract(data, '$.label') END = ?1 ORDER BY +id",
            (label, f"*{label}*"),
        )
        return [node for node in (_node(*row) for row in rows) if node is not None]

    def edges(self, kind: str, *, source: str | None = None, target: str | None = None) -> list[EdgeRow]:
        """All edges of a type, of a source or a target if given; oldest first."""
        given = [end for end in (source, target) if end is not None]
        rows = self.query(_BY_ENDS[source is not None, target is not None], (kind, *given))
        return [EdgeRow(row[0], row[1], row[2], row[3], _properties(row[4])) for row in rows]

    def query(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """All rows of one question."""
        with self._translating():
            return self._connection.execute(statement, parameters).fetchall()

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        """SQLite's complaints as errors a person can act on."""
        try:
            yield
        except sqlite3.OperationalError as busy:
            raise SourceUnavailable(
                f"the graph cannot be used now ({busy})",
                str(self.path),
                hint="another program may hold it, or the file or its directory may be read-only; try again",
            ) from busy
        except sqlite3.IntegrityError as refusal:
            raise OperationFailed(f"the graph refuses the change ({refusal})", str(self.path)) from refusal
        except sqlite3.DatabaseError as broken:
            raise SourceNotAGraph(
                f"this file is not a graph ({broken})",
                str(self.path),
                hint="set graph.path to the graph, or to a new place and run `wake-bridge init`",
            ) from broken


def _node(node_id: str, data: str) -> Node | None:
    try:
        stored = json.loads(data)
    except ValueError:
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("properties"), dict):
        return None
    return Node(node_id, str(stored.get("label", "")), stored["properties"])


def _properties(data: str) -> Properties:
    try:
        stored = json.loads(data)
    except ValueError:
        return {}
    inner = stored.get("properties") if isinstance(stored, dict) else None
    return inner if isinstance(inner, dict) else {}
