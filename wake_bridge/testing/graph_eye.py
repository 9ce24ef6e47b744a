"""Looks at a graph file from outside, as another program would: for tests of what was written."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]


class GraphEye:
    """One graph file; each look is a connection of its own.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self, statement: str, *values: object) -> list[Row]:
        """All rows of one statement."""
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement, values).fetchall()

    def properties(self, node_id: str) -> dict[str, Any]:
        """A node's inner object, in the order it was stored."""
        ((data,),) = self.all("SELECT data FROM Nodes WHERE id = ?", node_id)
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties

    def edge(self, kind: str, source: str) -> dict[str, Any]:
        """The first edge of a type from a source, as stored."""
        data = self.all("SELECT data FROM Edges WHERE type = ? AND source = ? ORDER BY rowid", kind, source)[0][0]
        edge: dict[str, Any] = json.loads(data)
        return edge

    def log(self, after: int = 0) -> list[str]:
        """What the log's rows after an id point at: the edge's type or the node's label."""
        rows = self.all(
            "SELECT l.entity_type, e.type, json_extract(n.data, '$.label') FROM GraphLog l"
            " LEFT JOIN Edges e ON e.id = l.entity_id LEFT JOIN Nodes n ON n.id = l.entity_id"
            " WHERE l.log_id > ? ORDER BY l.log_id",
            after,
        )
        return [kind or label or f"{table}:gone" for table, kind, label in rows]

    def tip(self) -> int:
        """The highest id the log ever gave."""
        rows = self.all("SELECT seq FROM sqlite_sequence WHERE name = 'GraphLog'")
        return int(rows[0][0]) if rows else 0
