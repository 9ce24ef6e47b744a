"""A graph that a command opens, to read it or to write it, whatever engine holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Protocol, Self, runtime_checkable

from wake_bridge.domain.errors import UsageMistake
from wake_bridge.domain.graph_places import GraphPlace
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.change_log import EdgeRow
from wake_bridge.storage.graph.rows import LARGEST_WRITTEN, Stored, Unreadable

Properties = dict[str, Any]

REPAIR: Final = "repair or delete that row in the graph"
"""What to do about a row that cannot be read."""

COLUMNS: Final = {
    "nodes": ("id", "user_id", "data"),
    "edges": ("id", "user_id", "source", "target", "type", "data"),
    "graphlog": ("log_id", "entity_id", "entity_type", "event_id", "event_payload"),
}
"""The tables of a graph, and of each what its rows hold."""

HEAVIEST: Final = 5.0
REINFORCEMENT: Final = 0.1
"""What an edge weighs more each time that its ends are linked again, and the most it weighs."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Node:
    """A node as stored; `properties` is the inner object of its JSON, or what is known of one that is too large to load."""

    id: str
    label: str
    properties: Properties
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A message with the edge that addresses it to somebody; instead of what cannot be read, why."""

    message_id: str
    message: Stored | Unreadable
    edge_id: str
    kind: str
    edge: Stored | Unreadable


class Graph(Protocol):
    """A graph opened for reading.

    Use as a context manager. Every method raises `SourceUnavailable` when the graph is locked, away or unreadable for now.
    """

    is_embedded: bool
    has_events: bool

    @property
    def place(self) -> GraphPlace:
        """Where it lies."""

    def close(self) -> None:
        """Give up the connection."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def node(self, node_id: str) -> Node | None:
        """One node; None if it is not there.

        Raises:
            OperationFailed: its JSON cannot be read.
        """

    def nodes(self, label: str) -> list[Node]:
        """All nodes with a label, by id; those whose JSON cannot be read are left out."""

    def edges(self, kind: str, *, source: str | None = None, target: str | None = None) -> list[EdgeRow]:
        """All edges of a type, of a source or a target if given; oldest first. Properties that cannot be read are none."""

    def letters(self, identity: str, message_id: str | None = None) -> Iterator[StoredLetter]:
        """What is addressed to an identity, in the order it was sent: all that may be unread, or the one message.

        An identity's own edge counts before the message's, and a broadcast without recorded recipients is everybody's.
        """

    def tip(self) -> int:
        """The highest log id that can be seen; 0 in an empty log."""

    def journal_mode(self) -> str:
        """How the file keeps its changes, by SQLite's name; empty where that is the server's business."""


@runtime_checkable
class WritableGraph(Graph, Protocol):
    """A graph opened for writing: each change is a transaction of its own, as the real services commit."""

    def put_node(self, node_id: str, label: str, properties: Mapping[str, Any]) -> None:
        """Insert a node, or replace what it holds.

        Raises:
            UsageMistake: it is larger than anybody here could read.
        """

    def link(self, source: str, target: str, kind: str, properties: Mapping[str, Any]) -> str:
        """Link two nodes; linking the same pair again updates the weight of the edge that is there.

        Returns:
            The edge's id.
        """

    def set_property(self, table: Literal["Nodes", "Edges"], row_id: str, name: str, value: str) -> bool:
        """Set one property of a node or an edge and leave all others as stored; answers whether there was room for it."""

    def delete_node(self, node_id: str) -> None:
        """Delete a node with its edges; the edges go first, one by one, so that each leaves its row in the log."""

    def transaction(self) -> AbstractContextManager[None]:
        """Several changes that belong together; undone as a whole when one fails."""

    def move_task(self, task_id: str, previous: str, changed: Mapping[str, str | None]) -> bool:
        """Set properties of a task (by their paths under `properties`) if its state is `previous`; answers whether it was."""

    def append_event(self, entity_id: str, kind: str, event_id: str, payload: Mapping[str, Any]) -> None:
        """Append a typed row to the log."""

    def rewrite(self, node_id: str) -> None:
        """Write a node as it is, for the row that this leaves in the log."""


def owner_of(identity: str) -> str:
    """The `userId` of what an identity writes: its login without the `@`."""
    return identity.removeprefix("@")


def as_stored(value: Mapping[str, Any]) -> str:
    """JSON as the real services write it: compact, Unicode as it is, lone surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def storable(value: Mapping[str, Any]) -> str:
    """The same, of a size that can be read again."""
    data = as_stored(value)
    size = len(data.encode())
    if size > LARGEST_WRITTEN:
        raise UsageMistake(
            f"this is too large: it takes {size:,} bytes with all that is stored beside its text, and {LARGEST_WRITTEN:,} is the most",
            hint="put the text into a file, and send the path of that file",
        )
    return data


def weight_of(value: object) -> float:
    """The weight that an edge says, 1 where it says none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 1.0
