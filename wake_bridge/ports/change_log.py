"""The source graph as the daemon sees it: a log to tail, and a few questions about what it points at (DESIGN §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wake_bridge.domain.names import Identity, Instant, LogId

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge as stored; `properties` is the inner object of its JSON."""

    id: str
    source: str
    target: str
    type: str
    properties: Json


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One relevant row of the log with what it points at now.

    `entity_type` is `nodes`, `edges`, `heartbeat_pulse` or `task_state_changed`. `label` and `node` (its properties) are
    set for a node that still exists, `edge` for an edge that does; `message` is the MESSAGE node an edge starts from.
    """

    log_id: LogId
    entity_type: str
    entity_id: str
    label: str = ""
    node: Json | None = None
    edge: EdgeRow | None = None
    message: Json | None = None
    event_id: str | None = None
    payload: Json | None = None


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row whose JSON (or that of what it points at) cannot be read."""

    log_id: LogId
    entity_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of the log: `entries` are the relevant ones of all rows up to and including `upto`.

    `fingerprint` is `entity_type:entity_id` of the row at `upto`; `examined` how many rows were looked at (0: at the
    tip).
    """

    entries: tuple[LogEntry, ...]
    broken: tuple[BrokenRow, ...]
    upto: LogId
    fingerprint: str
    examined: int


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Lowest and highest `log_id` present, and the highest ever given; all 0 in an empty log."""

    lowest: LogId
    highest: LogId


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """What the graph knows of one AgentIdentity."""

    id: Identity
    account_type: str = "agent"
    participation: str = "active"
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class MailState:
    """How one message stands for one identity now.

    `exists`: the MESSAGE node is there. `addressed`: it is (still) in the audience. `is_read`: by edge first, else node.
    """

    exists: bool
    addressed: bool
    is_read: bool


class ChangeLog(Protocol):
    """The source's delta, in commit order, and what it points at.

    Contract: read-only; may repeat an entry after a restart, never skips one inside an epoch; every call blocks at most
    the busy time-out; raises `SourceUnavailable` (look again later), `SourceMissing` or `SourceNotAGraph` and nothing
    else; the caller alone moves the cursor. Use from one thread at a time.
    """

    def read_after(self, cursor: LogId, limit: int) -> Page:
        """The next at most `limit` rows of the log."""

    def bounds(self) -> LogBounds:
        """Where the log begins and ends."""

    def fingerprint_at(self, log_id: LogId) -> str | None:
        """`entity_type:entity_id` of that row; None if it is gone."""

    def version(self) -> tuple[int, int, int]:
        """(device, inode, data_version): equal to the last one means nothing was committed since."""

    def reopen(self) -> bool:
        """Open the file anew; True if the old connection had gone deaf (it saw less than the new one)."""

    def subscriptions(self) -> list[tuple[str, Json]]:
        """Id and properties of every WAKE_SUBSCRIPTION node that can be read."""

    def subscription(self, subscription_id: str) -> Json | None:
        """Properties of one; None if it is gone."""

    def identities(self) -> Mapping[Identity, IdentityRow]:
        """Every AgentIdentity."""

    def tasks(self) -> list[tuple[str, Json]]:
        """Id and properties of every MESSAGE that is a task."""

    def node(self, node_id: str) -> Json | None:
        """Properties of one node; None if it is gone."""

    def has_audience(self, message_id: str) -> bool:
        """Whether a broadcast has any DELIVERED_TO edge yet."""

    def mail_states(self, pairs: Sequence[tuple[str, Identity]]) -> Mapping[tuple[str, Identity], MailState]:
        """How those (message id, identity) stand now."""

    def edges_present(self, edge_ids: Sequence[str]) -> set[str]:
        """Which of the edges still exist."""

    def unread_mail(self, identity: Identity, since: Instant | None) -> list[tuple[str, Json, EdgeRow]]:
        """Unread messages for an identity, oldest first: id, properties, and the edge that addressed it."""

    def recent_mail_edges(self, since: Instant) -> list[LogEntry]:
        """Entries as the log would show them for mail sent since then, for the look-back of a lost cursor."""

    def close(self) -> None:
        """Give up the connection."""


class ChangeSignal(Protocol):
    """A hint that the source may have changed.

    Contract: only a hint. May miss changes and may fire for nothing; nothing may be gated by it.
    """

    async def wait(self, timeout: float) -> bool:
        """Return True when a hint came, False after `timeout` seconds."""

    async def close(self) -> None:
        """Stop watching."""
