"""Reads rows of a graph in pieces, so that many rows or one large row cost no more memory or time at once.

A value that is too large fails its whole statement (`sqlite_bounds`): what failed is asked again row by row, and the row
that fails alone is described instead of read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

from wake_bridge.domain.errors import SourceUnavailable
from wake_bridge.domain.messages import MESSAGE_LABEL, text_of
from wake_bridge.ports.change_log import Json
from wake_bridge.storage.graph.rows import Large, Stored, Unreadable, is_too_large, stored, stored_or_none, text

Row = tuple[Any, ...]
Answer = TypeVar("Answer")

NODES: Final = "SELECT id, data FROM Nodes WHERE rowid IN (SELECT value FROM json_each(?1))"
"""For `rows_of`: id and JSON of nodes."""

EDGE_COLUMNS: Final = ("id", "source", "target", "type", "data")

# the keys lead, in their order: a sorter would pack message and edge into one row, and refuse two that fit
LETTERS: Final = """
    SELECT n.id, n.data, e.id, e.source, e.target, e.type, e.data
    FROM json_each(?1) wanted CROSS JOIN Edges e ON e.rowid = wanted.value CROSS JOIN Nodes n ON n.id = e.source
"""
"""For `rows_of`, by the rowids of edges: id and JSON of the message, then `EDGE_COLUMNS`."""

UNMARKED: Final = "IN ('', 0, '[]', '{}')"
"""What SQL finds, with '' for NULL, where a mark such as `readAt` is none."""

_ROWS_AT_ONCE: Final = 20
"""Each may have a megabyte."""

_WALKED_AT_ONCE: Final = 1000
_FIRST_ROW: Final = -(2**63)

_NEXT_ROWS: Final = "SELECT MAX(rowid) FROM (SELECT rowid FROM Nodes WHERE rowid > ? ORDER BY rowid LIMIT ?)"
_LINKS: Final = """
    SELECT rowid, type, target FROM Edges WHERE source = ?
    AND type IN ('SENT_BY', 'SENT_TO', 'TAGGED_CONCEPT', 'IN_REPLY_TO', 'PART_OF_THREAD') ORDER BY rowid
"""


class GraphReader(Protocol):
    """A connection to a graph: `sqlite_source` in the daemon, `graph_file` in commands."""

    def each(self, read: Callable[[Row], Answer], statement: str, *values: object) -> list[Answer]:
        """What `read` makes of every row of a question, one row at a time; texts come as bytes. Raises `SourceError`."""

    def large(self, table: str, column: str, rowid: int) -> Large:
        """A value that is too large to load. Raises `SourceError`."""


def as_it_is(row: Row) -> Row:
    """The row itself."""
    return row


def keys_of(graph: GraphReader, statement: str, *values: object) -> list[int]:
    """The rowids that a statement asks for. Raises `SourceError`."""
    return graph.each(lambda row: int(row[0]), statement, *values)


def rows_of(
    graph: GraphReader, keys: Sequence[int], statement: str, one: Callable[[int], Row], *values: object
) -> Iterator[Row]:
    """The rows that belong to some keys, a few at a time.

    Args:
        graph: where to ask.
        keys: rowids, in the order wanted.
        statement: asks for the rows of the keys in `json_each(?1)`; `values` are `?2` and so on.
        one: makes the row of a key whose row is too large.
        values: for the statement.

    Raises:
        SourceError: the graph cannot be read.
    """
    for first in range(0, len(keys), _ROWS_AT_ONCE):
        some = keys[first : first + _ROWS_AT_ONCE]
        rows = unless_too_large(lambda: graph.each(as_it_is, statement, json.dumps(some), *values))  # noqa: B023 - called at once
        if rows is not None:
            yield from rows
            continue
        for key in some:
            alone = unless_too_large(lambda: graph.each(as_it_is, statement, f"[{key}]", *values))  # noqa: B023 - as above
            yield from [one(key)] if alone is None else alone


def walk(
    graph: GraphReader,
    condition: str,
    read: Callable[[object, object], Answer | None],
    *values: object,
    large: Callable[[int], Answer | None] = lambda _: None,
) -> list[Answer]:
    """What `read` makes of id and JSON of each node that meets a condition, in the order of the file.

    Args:
        graph: where to ask.
        condition: on `id` and `data`.
        read: None leaves the node out.
        values: for the condition.
        large: what becomes of a node that is too large for the condition, by its rowid; None leaves it out.

    Raises:
        SourceError: the graph cannot be read.
    """

    def asked(where: str, *bounds: int) -> list[Answer | None] | None:
        # by the order of the file: a walk along the index of ids takes ten times as long
        statement = f"SELECT id, data FROM Nodes WHERE {where}{condition}"  # noqa: S608 - both written in this program
        return unless_too_large(lambda: graph.each(lambda row: read(*row), statement, *bounds, *values))

    found = asked("")
    if found is None:
        found, last = [], _FIRST_ROW
        while upto := graph.each(as_it_is, _NEXT_ROWS, last, _WALKED_AT_ONCE)[0][0]:
            some = asked("rowid > ? AND rowid <= ? AND ", last, upto)
            if some is None:
                for key in keys_of(graph, "SELECT rowid FROM Nodes WHERE rowid > ? AND rowid <= ?", last, upto):
                    alone = asked("rowid = ? AND ", key)
                    found += [large(key)] if alone is None else alone
            else:
                found += some
            last = upto
    return [one for one in found if one is not None]


def value_at(graph: GraphReader, table: str, rowid: int, column: str = "data") -> object:
    """A value of a row; `Large` if it is too large. Raises `SourceError`."""
    statement = f"SELECT {column} FROM {table} WHERE rowid = ?"  # noqa: S608 - names of columns and tables, all ours
    rows = unless_too_large(lambda: graph.each(as_it_is, statement, rowid))
    if rows is None:
        return graph.large(table, column, rowid)
    return rows[0][0] if rows else None


def node_at(graph: GraphReader, node_id: object) -> tuple[int, object] | None:
    """Rowid and JSON (or `Large`) of a node, by its id as text or bytes; None if it is not there. Raises `SourceError`."""
    # an id that comes from a row comes as bytes
    keys = keys_of(graph, "SELECT rowid FROM Nodes WHERE id = CAST(? AS TEXT)", node_id)
    return (keys[0], value_at(graph, "Nodes", keys[0])) if keys else None


def node_row(graph: GraphReader, rowid: int) -> Row:
    """Id and JSON (or `Large`) of a node that is too large. Raises `SourceError`."""
    return value_at(graph, "Nodes", rowid, "id"), value_at(graph, "Nodes", rowid)


def edge_columns(graph: GraphReader, rowid: int) -> Row:
    """`EDGE_COLUMNS` of an edge, each by itself: `Large` where it is too large. Raises `SourceError`."""
    return tuple(value_at(graph, "Edges", rowid, name) for name in EDGE_COLUMNS)


def letter(graph: GraphReader, edge: int) -> Row:
    """A row of `LETTERS` that is too large, by the rowid of its edge. Raises `SourceError`."""
    columns = edge_columns(graph, edge)
    found = node_at(graph, columns[1])
    return (columns[1], found[1] if found else None, *columns)


def message_or_none(graph: GraphReader, message_id: str, data: object) -> Stored | None:
    """The same as `message_in`, with None for what cannot be read."""
    try:
        return message_in(graph, message_id, data)
    except Unreadable:
        return None


def message_in(graph: GraphReader, message_id: str, data: object) -> Stored:
    """A node that mail edges start from: as stored, or put together where it is too large to load.

    Its links say who sent it to whom and when, its beginning what it is about. Whether it was read stands behind the
    body, and is not known: then it counts as unread.

    Raises:
        Unreadable: it is no JSON.
        SourceError: the graph cannot be read.
    """
    if not isinstance(data, Large):
        return stored(data)
    head = stored(data)
    if head.label not in {"", MESSAGE_LABEL}:
        return head
    links = graph.each(as_it_is, _LINKS, message_id.encode(errors="replace").decode())
    ends: dict[str, list[str]] = {}
    for _, kind, target in links:
        ends.setdefault(text(kind), []).append(text(target))
    sent = next((rowid for rowid, kind, _ in links if kind == b"SENT_TO"), None)
    link = stored_or_none(value_at(graph, "Edges", sent)) if sent is not None else None
    about: Json = link.properties if link is not None else {}
    owner = text_of(about.get("userId"))
    # behind the body, where the beginning does not reach, links and their properties say as much
    to, reply, thread = (next(iter(ends.get(kind, ())), None) for kind in ("SENT_TO", "IN_REPLY_TO", "PART_OF_THREAD"))
    return Stored(
        MESSAGE_LABEL,
        {
            "from": next(iter(ends.get("SENT_BY", ())), f"@{owner}" if owner else "unknown"),
            "to": to,
            "subject": f"({data}: too large to show)",
            "sentAt": about.get("timestamp"),
            "taggedConcepts": ends.get("TAGGED_CONCEPT", []),
            "inReplyTo": reply,
            "partOfThread": thread,
            "userId": about.get("userId"),
            "sharedEntity": about.get("sharedEntity"),
            **head.properties,
            "bodyText": f"({data}: too large to show; id {message_id})",
        },
        is_whole=False,
    )


def unless_too_large(question: Callable[[], Answer]) -> Answer | None:
    """What a question answers; None where a value is too large for it. Raises what else the question raises."""
    try:
        return question()
    except SourceUnavailable as error:
        if not is_too_large(error.__cause__):
            raise
        return None
