"""Rows of the graph as values. Nothing in them is trusted: an unreadable row is a value too.

A value of 100 MB costs 200 MB to load, and so do `length()`, `substr()` and `json_extract()` of it; a view that never ends
costs a processor. SQLite's own limit makes the one an error before anything is loaded, a progress handler the other.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.facts import MAIL_EDGES
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import LogId
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.change_log import IDENTITY_LABELS, BrokenRow, EdgeRow, Json, LogEntry, Traces

LARGEST_VALUE: Final = 1024 * 1024
"""Bytes that a value, or a row as SQLite packs it, may have to be loaded."""

LARGEST_WRITTEN: Final = 1_000_000
"""Bytes of JSON that we write: the row around it, and marks set in it later, have to fit as well."""

BEGINNING: Final = 64 * 1024
"""Bytes that are read of a value that is too large."""

SECONDS_AT_LEAST: Final = 3.0
SECONDS_A_GIGABYTE: Final = 20.0
"""Processor time of one statement; a walk through a whole graph takes 2 s a gigabyte on a small machine of today."""

_STEPS_BETWEEN_LOOKS: Final = 20_000
_MEMBER: Final = re.compile(r'\s*[{,]\s*("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)
_NO_MEMBERS: Final = re.compile(r"\{\s*\}")
_END_OF_OBJECT: Final = re.compile(r"\s*\}")
_SIZED: Final = json.JSONDecoder()
_TABLES: Final = ("Nodes", "Edges", "GraphLog")
_NAMES: Final = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"


@dataclass(frozen=True, slots=True)
class Large:
    """A value that was not loaded: how many bytes it has, and the first of them."""

    size: int
    beginning: bytes

    def __str__(self) -> str:
        """For people: `104.9 MB`."""
        return f"{self.size / 1e6:.1f} MB"

    def members(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the beginning of a node's JSON says before it breaks off: of the node itself, and of its properties."""
        of_node: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        text, at, into = self.beginning.decode(errors="replace"), 0, of_node
        try:
            while found := _MEMBER.match(text, at):
                name, at = json.loads(found[1]), found.end()
                if into is of_node and name == "properties" and text.startswith("{", at):
                    into, end = properties, _NO_MEMBERS.match(text, at)
                else:
                    into[name], at = _SIZED.raw_decode(text, at)
                    end = _END_OF_OBJECT.match(text, at)
                if into is properties and end:
                    into, at = of_node, end.end()
        except (ValueError, RecursionError):
            # here it broke off
            pass
        return of_node, properties


class Budget:
    """Ends a statement of a connection that takes more processor time than it can need.

    Waiting, for a lock or a slow disk, costs none. Call `begin` before each statement, on the thread that runs it.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        try:
            size = os.stat(path).st_size  # noqa: PTH116 - safe where opening the file is not
        except OSError:
            size = 0
        self.seconds = SECONDS_AT_LEAST + SECONDS_A_GIGABYTE * size / 1e9
        self._began = time.thread_time()
        connection.set_progress_handler(self._is_spent, _STEPS_BETWEEN_LOOKS)

    def begin(self) -> None:
        """A statement starts."""
        self._began = time.thread_time()

    def _is_spent(self) -> bool:
        return time.thread_time() - self._began > self.seconds


def limit(connection: sqlite3.Connection) -> None:
    """Have SQLite refuse to load what is too large; texts come as bytes, for one that is not UTF-8 fails a whole fetch."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    connection.text_factory = bytes


def large_value(connection: sqlite3.Connection, table: str, column: str, rowid: int) -> Large:
    """The size and the beginning of a value that is too large to load; raises `sqlite3.Error` where there is none."""
    with connection.blobopen(table, column, rowid, readonly=True) as blob:
        return Large(len(blob), blob.read(BEGINNING))


def why_no_graph(connection: sqlite3.Connection) -> str:
    """What a database lacks to be a graph, in a clause; empty for a graph. Raises `sqlite3.Error`."""
    kinds = {bytes(name).decode(errors="replace"): kind for name, kind in connection.execute(_NAMES)}
    views = [table for table in _TABLES if kinds.get(table) == b"view"]
    missing = [table for table in _TABLES if table not in kinds]
    if missing:
        return f"it has no {', '.join(missing)}"
    # a view computes for as long as it likes, and has no rows to come back to
    return f"its {', '.join(views)} is a view, no table" if views else ""


def is_too_large(error: BaseException | None) -> bool:
    """Whether SQLite refused to load a value for its size."""
    return _code(error) == sqlite3.SQLITE_TOOBIG


def is_interrupted(error: BaseException | None) -> bool:
    """Whether a statement was ended by its budget."""
    return _code(error) == sqlite3.SQLITE_INTERRUPT


def _code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def stall_told(seconds: float) -> tuple[str, str]:
    """What is told of a statement that was ended, and what to do."""
    what = f"a question to the graph was not answered in {seconds:.0f} s of processor time"
    return what, "see whether a table, trigger or view of it never ends: `sqlite3 FILE .schema`; wake-bridge asks again"


NOTHING: Final[Json] = {}


@dataclass(frozen=True, slots=True)
class Stored:
    """The JSON of a node or an edge: its label (empty for an edge) and its properties, or only the first of them."""

    label: str
    properties: Json
    is_whole: bool = True


class Unreadable(ValueError):
    """A stored JSON that is none, or not of the right shape; says why."""


def text(value: object) -> str:
    """A column as text, whatever was stored in it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def stored(data: object) -> Stored:
    """Read the JSON of a node or an edge: the one decoder of everything that is stored. Raises `Unreadable`.

    Of a value that is too large it gives what the beginning tells.
    """
    if isinstance(data, Stored):
        return data
    if isinstance(data, Large):
        return _beginning(data)
    whole = _object(data)
    properties = whole.get("properties", NOTHING)
    if not isinstance(properties, dict):
        raise Unreadable("its properties are not an object")
    label = whole.get("label")
    return Stored(label if isinstance(label, str) else "", properties)


def stored_or_none(data: object) -> Stored | None:
    """The same, with None for what cannot be read."""
    try:
        return stored(data)
    except Unreadable:
        return None


def without_body(node: Stored) -> Stored:
    """A node without the text of a message: a page of them may hold a thousand."""
    return replace(node, properties={name: value for name, value in node.properties.items() if name != "bodyText"})


def edge_row(edge_id: object, source: object, target: object, kind: object, properties: Json) -> EdgeRow:
    """An edge from its columns."""
    return EdgeRow(text(edge_id), text(source), text(target), text(kind), properties)


class RowReader:
    """Turns the rows of one page into entries; a message that many edges start from is read once, without its body."""

    def __init__(self) -> None:
        self._messages: dict[bytes, Stored] = {}

    def entry(self, row: tuple[Any, ...]) -> LogEntry | BrokenRow:
        """Read one row of `sqlite_graph`'s page query. Never raises."""
        log_id, entity_type, entity_id, event_id, payload, *pointed_at = row
        where = LogId(log_id), text(entity_type), text(entity_id)
        try:
            match where[1]:
                case "nodes":
                    return self._node_entry(where, pointed_at)
                case "edges":
                    return self._edge_entry(where, pointed_at)
                case "task_state_changed":
                    return self._typed_entry(where, event_id, payload, pointed_at)
                case _:
                    return LogEntry(*where)
        except Unreadable as reason:
            return BrokenRow(where[0], where[2], str(reason))

    def _node_entry(self, where: tuple[LogId, str, str], pointed_at: list[Any]) -> LogEntry:
        node_id, data = pointed_at[0], pointed_at[1]
        if node_id is None:
            return LogEntry(*where)
        node = stored(data)
        if not node.is_whole and node.label not in IDENTITY_LABELS:
            raise Unreadable(f"it is too large to read ({data})")
        return LogEntry(*where, label=node.label, node=node.properties)

    def _edge_entry(self, where: tuple[LogId, str, str], pointed_at: list[Any]) -> LogEntry:
        edge_id, source, target, kind, data, message_id, message = pointed_at[2:]
        link = stored(data)
        if not link.is_whole:
            raise Unreadable(f"it is too large to read ({data})")
        edge = edge_row(edge_id, source, target, kind, link.properties)
        if edge.type not in MAIL_EDGES:
            return LogEntry(*where, edge=edge)
        return LogEntry(*where, edge=edge, message=self._message(message_id, message))

    def _typed_entry(
        self, where: tuple[LogId, str, str], event_id: object, payload: object, pointed_at: list[Any]
    ) -> LogEntry:
        message = stored_or_none(pointed_at[8]) if pointed_at[7] is not None else None
        return LogEntry(
            *where,
            message=message.properties if message and message.label == MESSAGE_LABEL else None,
            event_id=text(event_id) or None,
            payload=_object(payload),
        )

    def _message(self, message_id: bytes | None, data: bytes) -> Json | None:
        """Properties of the MESSAGE an edge starts from; None if it starts from something else, or from nothing."""
        if message_id is None:
            return None
        if message_id not in self._messages:
            self._messages[message_id] = without_body(stored(data))
        message = self._messages[message_id]
        return message.properties if message.label == MESSAGE_LABEL else None


def traces_among(node: Stored | None, rows: Iterable[tuple[Any, ...]], edges: Iterable[EdgeRow]) -> Traces:
    """What is known of an entity, by its node, the log's rows about it, and the edges from it; see `ChangeLog.traces_of`."""
    reader = RowReader()
    read = [reader.entry(row) for row in rows]
    mentioned = {entry.entity_id for entry in read}
    message = node.properties if node and node.label == MESSAGE_LABEL else None
    unlogged = (
        LogEntry(LogId(0), "edges", edge.id, edge=edge, message=message) for edge in edges if edge.id not in mentioned
    )
    return Traces(
        entries=(*(one for one in read if isinstance(one, LogEntry)), *unlogged),
        broken=tuple(one for one in read if isinstance(one, BrokenRow)),
        label=node.label if node else "",
        properties=node.properties if node else None,
    )


def _object(data: object) -> Mapping[str, Any]:
    if data is None:
        raise Unreadable("its JSON is missing")
    if isinstance(data, Large):
        raise Unreadable(f"it is too large to read ({data})")
    if not isinstance(data, bytes):
        raise Unreadable("its JSON is not text")
    try:
        whole = _DECODER.decode(data.decode())
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable("its JSON is broken") from error
    if not isinstance(whole, dict):
        raise Unreadable("its JSON is not an object")
    return whole


def _beginning(data: Large) -> Stored:
    if not data.beginning.lstrip().startswith(b"{"):
        raise Unreadable(f"its JSON is not an object, of {data}")
    of_node, properties = data.members()
    label = of_node.get("label")
    return Stored(label if isinstance(label, str) else "", properties, is_whole=False)


def _finite(digits: str) -> float:
    """`1e999` is JSON, and would be infinity, which is none."""
    return max(-sys.float_info.max, min(float(digits), sys.float_info.max))


def _refuse(word: str) -> None:
    """`NaN` and `Infinity` are no JSON: what SQLite could not change afterwards is not read."""
    raise ValueError(word)


# made once: `json.loads` would make one for each row
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
