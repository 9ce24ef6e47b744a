"""Writing a graph in the real services' shapes: node and edge JSON, links that reinforce, small transactions.

Only the graph commands write; the daemon never does.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from wake_bridge.domain.errors import RefusedForSafety, UsageMistake
from wake_bridge.storage.graph.bounds import LARGEST_WRITTEN
from wake_bridge.storage.graph.file import GraphFile, Parameters

_HEAVIEST: Final = 5.0
_REINFORCEMENT: Final = 0.1
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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
        data = _storable({"id": node_id, "label": label, "properties": dict(properties)})
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
                weight = min(_number(present[0].properties.get("weight")) + _REINFORCEMENT, _HEAVIEST)
                merged = {**present[0].properties, **properties, "weight": weight}
            else:
                edge_id = str(uuid.uuid4())
                merged = {"weight": 1, **properties}
            edge = {"id": edge_id, "source": source, "target": target, "type": kind}
            row = {**edge, "user_id": merged.get("userId"), "data": _storable({**edge, "properties": merged})}
            self._upsert("Edges", row)
        return edge_id

    def set_property(self, table: Literal["Nodes", "Edges"], row_id: str, name: str, value: str) -> None:
        """Set one property of a node or an edge (`Nodes`, `Edges`) and leave all others as they are stored."""
        self.run(_SET_PROPERTY[table], (f"$.properties.{name}", value, row_id))

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


def as_stored(value: Mapping[str, Any]) -> str:
    """JSON as the real services write it: compact, Unicode as it is, lone surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def _storable(value: Mapping[str, Any]) -> str:
    """The same, of a size that can be read again."""
    data = as_stored(value)
    size = len(data.encode())
    if size > LARGEST_WRITTEN:
        raise UsageMistake(
            f"this is too large: it takes {size:,} bytes with all that is stored beside its text, and {LARGEST_WRITTEN:,} is the most",
            hint="put the text into a file, and send the path of that file",
        )
    return data


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 1.0
