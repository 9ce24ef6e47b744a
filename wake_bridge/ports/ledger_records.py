"""Records of the ledger: what its methods take and return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final, Protocol

from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass

NOT_ADDRESSED: Final = "not in the broadcast's audience"
"""Why an event of a broadcast was closed whose audience did not (yet) include its identity; see `Ledger.advance`."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where the tail stands. `fingerprint` identifies the row at the cursor (`entity_type:entity_id`), empty if unknown.

    `snapshot` is how far a log has been read whose rows are not committed in the order of their ids (`Page.snapshot`).
    """

    epoch: Epoch
    cursor: LogId
    fingerprint: str = ""
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class EpochStart:
    """When the present life of the source began for us, and why it was begun."""

    at: Instant
    reason: str


@dataclass(frozen=True, slots=True)
class Lock:
    """What a delivery is frozen with: its digest, exactly these event ids, where it goes, and until when that is leased.

    `where` is the place as a person reads it, `pane_key` names it for locks and limits; `fence` must still hold later.
    `history` are the deliveries that a person was told of in the agent's place, and that the digest tells the agent of.
    """

    digest: str
    events: Sequence[str]
    adapter: str
    where: str
    pane_key: str
    until: Instant
    fence: Binding | None = None
    history: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TaskState:
    """The last state we know of a task; transitions are derived by comparing with it."""

    task_id: str
    state: str
    assignee: str | None = None
    last_modified_at: str | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A log row that could not be read."""

    log_id: LogId
    entity_id: str
    why: str


@dataclass(frozen=True, slots=True)
class PageRecord:
    """What one page of the log yields; it is written together with the cursor.

    `events` hold open and refused ones alike. `words` are those who have sent mail or brought a task to its end. `pulses_only` is no part of it: every event is judged before.
    """

    position: Position
    events: Sequence[WakeEvent] = ()
    tasks: Sequence[TaskState] = ()
    quarantined: Sequence[Quarantined] = ()
    words: Collection[Identity] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """An identity (or `*`) that is not to be woken; `until` None means until resumed."""

    identity: str
    until: Instant | None


@dataclass(frozen=True, slots=True)
class DegradedRoute:
    """A route that failed and has not answered since."""

    identity: Identity
    adapter: str
    why: str
    at: Instant


@dataclass(frozen=True, slots=True)
class GivenNotice:
    """What a person was told, and when."""

    subject: str
    at: Instant
    identity: str
    reason: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts for `status`."""

    open: int = 0
    held: int = 0
    unknown: int = 0
    failed: int = 0
    delivered: int = 0
    quarantined: int = 0
    holds: Mapping[str, int] = field(default_factory=dict)


class Taken(StrEnum):
    """What a signed wake was to the ledger: new, known already, or known with another body."""

    NEW = "new"
    KNOWN = "known"
    OTHER_BODY = "other body"


@dataclass(frozen=True, slots=True)
class Emission:
    """A signed wake as it was sent: by whom, its eventId, the SHA-256 of its body in hex, and when it says that it was."""

    sender: str
    event_id: str
    body: str
    emitted_at: Instant


class NewId(Protocol):
    """Makes ids that sort by time (ULIDs)."""

    def __call__(self) -> str:
        """A new id."""
