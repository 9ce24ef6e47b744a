"""A graph in PostgreSQL that a command opens, to read it or to write it. See `storage.graph.access` for the methods."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, Self

from wake_bridge.domain.errors import OperationFailed, SourceMissing
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.ports.change_log import EdgeRow
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
from wake_bridge.storage.graph.postgres.connection import CHANNEL, PostgresConnection, Rows
from wake_bridge.storage.graph.rows import Stored, Unreadable, edge_row, stored
from wake_bridge.storage.graph.schema import broadcast_sentinel

LETTERS_AT_ONCE: Final = 50
"""Each may have 2 MiB."""

HINTED_EVERY: Final = 0.1
"""Seconds between two hints of one process; what is not hinted at, the others' next look finds."""

ADDRESSED: Final = """
    ((e.type = 'DELIVERED_TO' AND e.target = %(who)s)
        OR (e.type = 'SENT_TO' AND e.target = %(who)s AND NOT EXISTS (
            SELECT FROM wake_bridge.edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO' AND d.target = %(who)s))
        OR (e.type = 'SENT_TO' AND e.target = 'AGENT:*' AND NOT EXISTS (
            SELECT FROM wake_bridge.edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO')))
"""
"""Edges that address mail to somebody."""

UNMARKED: Final = "IN ('', '0', '0.0', 'false', '[]', '{}')"
"""What `#>>` finds, with '' for NULL, where a mark such as `readAt` is none."""

_MAYBE_UNREAD: Final = f"""
    SELECT e.id FROM wake_bridge.edges e JOIN wake_bridge.nodes n ON n.id = e.source
    CROSS JOIN LATERAL (SELECT CASE e.type WHEN 'DELIVERED_TO' THEN e.data ELSE n.data END AS data) carrier
    WHERE {ADDRESSED} AND n.label = 'MESSAGE'
    AND coalesce(carrier.data #>> '{{properties,readAt}}', '') {UNMARKED}
    AND coalesce(carrier.data #>> '{{properties,archivedAt}}', '') {UNMARKED}
    ORDER BY e.seq
"""
_ONE: Final = f"SELECT e.id FROM wake_bridge.edges e WHERE {ADDRESSED} AND e.source = %(message)s ORDER BY e.seq"
_LETTERS: Final = """
    SELECT n.id, n.data::text, e.id, e.type, e.data::text
    FROM wake_bridge.edges e JOIN wake_bridge.nodes n ON n.id = e.source WHERE e.id = ANY(%s) ORDER BY e.seq
"""
_EDGES: Final = "SELECT id, source, target, type, data::text FROM wake_bridge.edges WHERE type = %s"
_PUT_NODE: Final = """
    INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (%s, %s, %s::jsonb)
    ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, data = excluded.data
"""
_PUT_EDGE: Final = """
    INSERT INTO wake_bridge.edges (id, source, target, type, user_id, data) VALUES (%s, %s, %s, %s, %s, %s::jsonb)
    ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, data = excluded.data
"""
_ONE_LINK_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_MAKING: Final = "SELECT pg_advisory_xact_lock(hashtextextended('wake_bridge schema', 0))"
_APPEND: Final = """
    INSERT INTO wake_bridge.graphlog (entity_id, entity_type, event_id, event_payload, user_id)
    SELECT %s, %s, %s, %s::jsonb, (SELECT user_id FROM wake_bridge.nodes WHERE id = %s)
"""


class PostgresReader:
    """See `access.Graph`."""

    is_embedded = True
    has_events = True

    def __init__(self, place: GraphUrl) -> None:
        """Open the graph.

        Raises:
            SourceMissing: the database has none.
            SourceNotAGraph: one of a later version.
            SourceUnavailable: the server cannot be asked now.
        """
        self._place = place
        self._base = PostgresConnection(place)
        # what is wrong with it is said now, and not when it is used
        self._base.rows("SELECT")

    @property
    def place(self) -> GraphUrl:
        """See `Graph.place`."""
        return self._place

    def close(self) -> None:
        """See `Graph.close`."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def node(self, node_id: str) -> Node | None:
        """See `Graph.node`."""
        rows = self._base.rows("SELECT data::text FROM wake_bridge.nodes WHERE id = %s", (clean(node_id),))
        if not rows:
            return None
        node = readable(rows[0][0])
        if isinstance(node, Unreadable):
            raise OperationFailed(f"the node cannot be read: {node}", node_id, hint=REPAIR)
        return Node(node_id, node.label, dict(node.properties))

    def nodes(self, label: str) -> list[Node]:
        """See `Graph.nodes`."""
        statement = "SELECT id, data::text FROM wake_bridge.nodes WHERE label = %s ORDER BY id"
        found = ((row[0], readable(row[1])) for row in self._base.rows(statement, (label,)))
        return [Node(one, label, dict(node.properties)) for one, node in found if isinstance(node, Stored)]

    def edges(self, kind: str, *, source: str | None = None, target: str | None = None) -> list[EdgeRow]:
        """See `Graph.edges`."""
        ends = {"source": source, "target": target}
        given = {name: clean(end) for name, end in ends.items() if end is not None}
        where = "".join(f" AND {name} = %s" for name in given)
        return edges_of(self._base.rows(f"{_EDGES}{where} ORDER BY seq", (kind, *given.values())))

    def letters(self, identity: str, message_id: str | None = None) -> Iterator[StoredLetter]:
        """See `Graph.letters`."""
        statement, message = (_MAYBE_UNREAD, "") if message_id is None else (_ONE, clean(message_id))
        keys = [row[0] for row in self._base.rows(statement, {"who": clean(identity), "message": message})]
        for first in range(0, len(keys), LETTERS_AT_ONCE):
            for found_id, node, edge_id, kind, edge in self._base.rows(
                _LETTERS, (keys[first : first + LETTERS_AT_ONCE],)
            ):
                yield StoredLetter(found_id, readable(node), edge_id, kind, readable(edge))

    def tip(self) -> int:
        """See `Graph.tip`."""
        return int(self._base.rows("SELECT coalesce(max(log_id), 0) FROM wake_bridge.graphlog")[0][0])

    def journal_mode(self) -> str:
        """See `Graph.journal_mode`."""
        return ""


class PostgresWriter(PostgresReader):
    """See `access.WritableGraph`. What was written is hinted at once, when it is closed."""

    def __init__(self, place: GraphUrl) -> None:
        super().__init__(place)
        self._has_written = False

    def close(self) -> None:
        """See `Graph.close`."""
        if self._has_written:
            hint(self._base)
        super().close()

    def put_node(self, node_id: str, label: str, properties: Mapping[str, Any]) -> None:
        """See `WritableGraph.put_node`."""
        data = storable(clean({"id": node_id, "label": label, "properties": dict(properties)}))
        self._change(_PUT_NODE, (clean(node_id), _owner(properties), data))

    def link(self, source: str, target: str, kind: str, properties: Mapping[str, Any]) -> str:
        """See `WritableGraph.link`."""
        with self.transaction():
            self._base.rows(_ONE_LINK_AT_A_TIME, ("\n".join((kind, clean(source), clean(target))),))
            present = self.edges(kind, source=source, target=target)
            if present:
                edge_id = present[0].id
                weight = min(weight_of(present[0].properties.get("weight")) + REINFORCEMENT, HEAVIEST)
                merged = {**present[0].properties, **properties, "weight": weight}
            else:
                edge_id = str(uuid.uuid4())
                merged = {"weight": 1, **properties}
            edge = {"id": edge_id, "source": source, "target": target, "type": kind}
            data = storable(clean({**edge, "properties": merged}))
            self._change(_PUT_EDGE, (edge_id, clean(source), clean(target), kind, _owner(merged), data))
        return edge_id

    def set_property(self, table: Literal["Nodes", "Edges"], row_id: str, name: str, value: str) -> bool:
        """See `WritableGraph.set_property`; there is always room."""
        statement = f"UPDATE wake_bridge.{table.lower()} SET data = {_set('data')} WHERE id = %s"
        self._change(statement, (["properties", name], clean(value), clean(row_id)))
        return True

    def delete_node(self, node_id: str) -> None:
        """See `WritableGraph.delete_node`."""
        ends = (clean(node_id), clean(node_id))
        for (edge_id,) in self._base.rows(
            "SELECT id FROM wake_bridge.edges WHERE source = %s OR target = %s ORDER BY seq", ends
        ):
            self._change("DELETE FROM wake_bridge.edges WHERE id = %s", (edge_id,))
        self._change("DELETE FROM wake_bridge.nodes WHERE id = %s", (clean(node_id),))

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """See `WritableGraph.transaction`."""
        return self._base.transaction()

    def move_task(self, task_id: str, previous: str, changed: Mapping[str, str | None]) -> bool:
        """See `WritableGraph.move_task`."""
        data, values = "data", list[object]()
        for path, value in changed.items():
            data = _set(data)
            values += [["properties", *path.split(".")], clean(value)]
        where = "WHERE id = %s AND data #>> '{properties,task,state}' = %s"
        moved = self._change(f"UPDATE wake_bridge.nodes SET data = {data} {where}", (*values, task_id, previous))
        return bool(moved)

    def append_event(self, entity_id: str, kind: str, event_id: str, payload: Mapping[str, Any]) -> None:
        """See `WritableGraph.append_event`."""
        self._change(_APPEND, (entity_id, kind, event_id, as_stored(clean(dict(payload))), entity_id))

    def rewrite(self, node_id: str) -> None:
        """See `WritableGraph.rewrite`."""
        self._change("UPDATE wake_bridge.nodes SET data = data WHERE id = %s", (node_id,))

    def _change(self, statement: str, values: Sequence[object]) -> int:
        self._has_written = True
        return self._base.run(statement, values)


def create_postgres_graph(place: GraphUrl, now: str) -> bool:
    """See `opened.create_graph`."""
    base = PostgresConnection(place, is_checked=False)
    try:
        with contextlib.suppress(SourceMissing):
            PostgresReader(place).close()
            if base.rows("SELECT to_regclass('wake_bridge.leases')")[0][0] is None:
                # made before several hosts could share it
                base.execute_script(leases_schema())
            return False
        with base.transaction():
            base.rows(_MAKING)
            if base.rows("SELECT to_regclass('wake_bridge.graph')")[0][0] is not None:
                return False
            base.execute_script(schema())
            base.execute_script(leases_schema())
            sentinel = broadcast_sentinel(now)
            base.run(_PUT_NODE, (sentinel["id"], None, as_stored(sentinel)))
        return True
    finally:
        base.close()


@cache
def schema() -> str:
    """The statements that make the graph."""
    return files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")


@cache
def leases_schema() -> str:
    """The statements that make what several hosts share."""
    return files(__package__).joinpath("leases.sql").read_text(encoding="utf-8")


_hinted_at: dict[str, float] = {}


def hint(base: PostgresConnection) -> None:
    """Tell the daemons of all hosts that something was committed, at most every `HINTED_EVERY`; never fails."""
    now, key = time.monotonic(), base.place.key
    if now - _hinted_at.get(key, -HINTED_EVERY) < HINTED_EVERY:
        return
    _hinted_at[key] = now
    # what was written is written: their next look finds it without a hint
    with contextlib.suppress(Exception):
        base.run(f"NOTIFY {CHANNEL}")


def clean(value: Any) -> Any:
    """A value as jsonb can hold it: U+FFFD for NUL and for halves of characters, which are no text in PostgreSQL."""
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {clean(name): clean(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [clean(one) for one in value]
    return value


def edges_of(rows: Rows) -> list[EdgeRow]:
    """Edges from their columns, the last of them JSON as text; without properties if they cannot be read."""
    read = ((row, readable(row[4])) for row in rows)
    return [
        edge_row(row[0], row[1], row[2], row[3], kept.properties if isinstance(kept, Stored) else {})
        for row, kept in read
    ]


def readable(data: str) -> Stored | Unreadable:
    """JSON as stored; what is nested too deeply for Python is unreadable."""
    try:
        return stored(data.encode())
    except Unreadable as why:
        return why


def _owner(properties: Mapping[str, Any]) -> str | None:
    owner = properties.get("userId")
    return clean(owner) if isinstance(owner, str) else None


def _set(data: str) -> str:
    """Sets one value, at a path, in JSON."""
    return f"jsonb_set({data}, %s, coalesce(to_jsonb(%s::text), 'null'))"
