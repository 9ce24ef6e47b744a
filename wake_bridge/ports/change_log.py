"""The source graph as the daemon sees it: a log to follow, and a few questions about its entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol, Self

from wake_bridge.domain.messages import text_of
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.domain.values import dataclass

Json = Mapping[str, Any]

IDENTITY_LABELS: Final = frozenset({"AgentIdentity", "AGENT"})
"""What an identity's node is labelled; the second is what old graphs still hold."""


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
    """One page of the log: `entries` are the relevant ones of all rows up to and including `upto`.

    `fingerprint` is `entity_type:entity_id` of the row at `upto`; `examined` how many rows were looked at (0: at the
    tip; as many as were asked for when a page was cut short, for there is more). `snapshot` is how far a log has been read
    whose rows are not committed in the order of their ids; empty where they are.
    """

    entries: tuple[LogEntry, ...]
    broken: tuple[BrokenRow, ...]
    upto: LogId
    fingerprint: str
    examined: int
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The lowest `log_id` present (0 in an empty log), and the highest ever given (0 if none was)."""

    lowest: LogId
    highest: LogId


@dataclass(frozen=True, slots=True)
class Census:
    """Where the log ends and how every task stands (message id, properties), all seen at one instant.

    `snapshot` as in `Page`.
    """

    tip: LogId
    fingerprint: str
    tasks: tuple[tuple[str, Json], ...]
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """What the graph knows of one AgentIdentity."""

    id: Identity
    account_type: str = "agent"
    participation: str = "active"
    display_name: str = ""

    @classmethod
    def from_node(cls, node_id: str, properties: Json) -> Self:
        """Read an AgentIdentity node's properties. Never raises."""
        return cls(
            id=Identity(node_id),
            account_type=text_of(properties.get("accountType")) or "agent",
            participation=text_of(properties.get("participationStatus")) or "active",
            display_name=text_of(properties.get("displayName")) or text_of(properties.get("name")),
        )


def participates(row: IdentityRow | None) -> bool:
    """Whether an identity takes part; one whose node is not known does."""
    return row is None or row.participation == "active"


@dataclass(frozen=True, slots=True)
class MailState:
    """How one message stands for one identity now.

    `exists`: the MESSAGE node is there. `addressed`: it is (still) in the audience. `is_read`: by edge first, else node.
    """

    exists: bool
    addressed: bool
    is_read: bool


@dataclass(frozen=True, slots=True)
class Traces:
    """All that log and graph hold about one thing: a node and the edges that start from it, or an edge.

    `entries` and `broken` are rows of the log, oldest first; an edge whose rows are gone comes with `log_id` 0.
    `label` and `properties` are the node's, as it stands now; None if there is none that can be read.
    """

    entries: tuple[LogEntry, ...] = ()
    broken: tuple[BrokenRow, ...] = ()
    label: str = ""
    properties: Json | None = None


class ChangeLog(Protocol):
    """The source's delta, in commit order, and what it points at.

    Contract: read-only but for `note_reader`; may repeat an entry after a restart, never skips one inside an epoch; every call blocks at most
    the busy time-out; raises `SourceUnavailable` (look again later), `SourceMissing` or `SourceNotAGraph` and nothing
    else; the caller alone moves the cursor. Use from one thread at a time.
    """

    def read_after(self, cursor: LogId, limit: int, snapshot: str = "") -> Page:
        """The next at most `limit` rows of the log.

        Args:
            cursor: the highest log id that was looked at.
            limit: the most rows to look at.
            snapshot: of the page before, or of the census; without it all rows above the cursor are new, and no others.
        """

    def bounds(self) -> LogBounds:
        """Where the log begins and ends."""

    def fingerprint_at(self, log_id: LogId) -> str | None:
        """`entity_type:entity_id` of that row; None if it is gone."""

    def is_embedded(self) -> bool:
        """Whether wake-bridge made the file."""

    def version(self) -> tuple[int, int, int]:
        """(device, inode, data_version): equal to the last one means nothing was committed since.

        Device and inode are those of the file at the path now; `reopen` is due when they changed.
        """

    def heal(self) -> bool:
        """Open the file anew if the connection has gone deaf; answers whether it had."""

    def reopen(self) -> None:
        """Open the file anew, in any case."""

    def subscriptions(self) -> list[tuple[str, Json]]:
        """Id and properties of every WAKE_SUBSCRIPTION node that can be read."""

    def subscription(self, subscription_id: str) -> Json | None:
        """Properties of one; None if it is gone."""

    def identities(self, only: Identity | None = None) -> Mapping[Identity, IdentityRow]:
        """Every AgentIdentity, or that one alone."""

    def census(self) -> Census:
        """Tip and tasks for the start of an epoch."""

    def logged_before(self, edge_ids: Collection[str], upto: LogId, snapshot: str = "") -> frozenset[str]:
        """Which of the edges have a row of the log at or below `upto`, or that was read when `snapshot` was taken."""

    def typed_tasks_after(self, log_id: LogId) -> frozenset[str]:
        """Tasks that have a typed row (`task_state_changed`) later in the log."""

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

    def presences(self, since: Instant) -> list[Json]:
        """Properties of the HARNESS_PRESENCE rows that were seen last since then."""

    def recent_mail(self, since: Instant) -> list[str]:
        """Ids of the messages sent since then, oldest first, for the look-back of a lost cursor."""

    def mail_edges(self, message_ids: Sequence[str]) -> list[LogEntry]:
        """Entries as the log would show them for those messages, in their order.

        Their `log_id` is 0: they stand for no row. Ask for a page at a time: each holds its whole message.
        """

    def traces_of(self, entity_id: str) -> Traces:
        """What is known of one node, or of one edge, and everything that the log still says of it; for `why`."""

    def touched(self, after: LogId, upto: LogId) -> set[str]:
        """Ids of the nodes and edges that those rows name, and of the messages whose mail edges they name."""

    def note_reader(self, reader: str, cursor: LogId, snapshot: str) -> None:
        """Say how far a reader has stored what it read, and forget old rows that all readers have.

        Does nothing where another program keeps the log.

        Args:
            reader: its name, the same after a restart.
            cursor: the highest log id it has stored.
            snapshot: as in `Page`.
        """

    def close(self) -> None:
        """Give up the connection."""


class ChangeSignal(Protocol):
    """A hint that the source may have changed.

    Contract: only a hint. May miss changes and may fire for nothing; nothing may be gated by it.
    """

    looks_again: Sequence[float]
    """Seconds to the next look after that of a hint, and from that on: a hint may come before what it is of can be seen."""

    later_by: float
    """Share of a pause without hints by which the look after it comes later at most, by chance: many hosts may ask one server."""

    async def wait(self, timeout: float) -> bool:
        """Return True when a hint came, False after `timeout` seconds."""

    async def close(self) -> None:
        """Stop watching."""


@dataclass(frozen=True, slots=True)
class Published:
    """What the published cursor says: after `rows_after` (wall time, 0 if unknown) every later row was committed."""

    cursor: LogId
    rows_after: Instant


class CursorFile(Protocol):
    """The cursor as the source's own pruner reads it: `lastSyncId`, a plain integer.

    Contract: a copy, written after the ledger's commit; the ledger's cursor is the truth.
    """

    def read(self) -> Published | str | None:
        """What stands there; None if there is no file, a clause that says what is wrong with it if it is no cursor."""

    def write(self, published: Published) -> None:
        """Replace it, whole or not at all; raises `LedgerUnwritable`."""
