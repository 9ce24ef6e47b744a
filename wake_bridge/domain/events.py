"""Facts read from the change log, and the wake events made of them."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from wake_bridge.domain.names import (
    EPOCH_START,
    Epoch,
    EventKind,
    Identity,
    Instant,
    LogId,
    Priority,
    Trigger,
    WakePolicy,
)
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """The `task` part of a message as it stands (only the last state is stored in the graph)."""

    state: str
    assignee: Identity | None = None
    expires_at: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A MESSAGE node, read once and checked.

    `wake_window` are the seconds it may wait, and `ack_within` those in which it has to be answered, where its sender said so.
    """

    id: str
    sender: str
    recipient: str
    subject: str = ""
    body: str = ""
    priority: Priority = Priority.NORMAL
    sent_at: Instant | None = None
    read_at: Instant | None = None
    last_modified_at: str | None = None
    in_reply_to: str | None = None
    thread: str | None = None
    tags: tuple[str, ...] = ()
    wake_suppressed: bool = False
    wake_policy: WakePolicy | None = None
    wake_window: int | None = None
    ack_within: int | None = None
    task: TaskSnapshot | None = None
    user_id: str | None = None
    visible_to_all: bool = True


@dataclass(frozen=True, slots=True)
class MessageDetail:
    """A message arrived. `answers_to` is the link of the host that keeps its deadline; empty where this one does, or there is none."""

    message_id: str
    subject: str
    sender: str
    thread: str
    from_human: bool = False
    broadcast: bool = False
    answers_to: str = ""


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task moved. `actor` is None where it cannot be told."""

    task_id: str
    previous_state: str
    new_state: str
    originator: str
    assignee: str | None
    last_modified_at: str | None
    thread: str = ""
    actor: str | None = None
    from_human: bool = False


@dataclass(frozen=True, slots=True)
class PermissionDetail:
    """`granted_by` gave a right. `granted_at_observed` says the graph kept no time and ours is when it was first seen."""

    edge_id: str
    scope: str
    granted_by: str
    granted_at: Instant
    granted_at_observed: bool


@dataclass(frozen=True, slots=True)
class PulseDetail:
    """A heartbeat pulse: a log row without a node behind it. `answers_to` as of a message: another host's item comes as a pulse."""

    pulse_id: str
    source: str = ""
    reason: str = ""
    next_action: str = ""
    answers_to: str = ""


REMINDER = "reminder"
"""What the pulse of a reminder names as its source; its reason is the text, which stands nowhere else."""


@dataclass(frozen=True, slots=True)
class PresenceDetail:
    """An agent stands at something: `of` whom, at which kind of attention, in which episode.

    Of the woken agent itself it says that its usage limit has reset.
    """

    of: Identity
    stands_at: str
    episode_id: str


class ItemMode(StrEnum):
    """Whom an item is for: its agent at the next turn, the person, or its agent at once."""

    PASSIVE = "passive"
    PROMPT = "prompt"
    ACTIVE = "active"


class ItemTier(StrEnum):
    """When an item is worth being read; `later` is shown only where it is asked for."""

    NOW = "now"
    NEXT = "next"
    LATER = "later"


class ItemPriority(StrEnum):
    """How an item is ordered and labelled; from its source's threshold on an active one wakes."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for low, 3 for critical."""
        return ("low", "normal", "high", "critical").index(self.value)

    @property
    def of_wake(self) -> Priority:
        """As wakes have it, which know no higher one than high."""
        return Priority.HIGH if self is ItemPriority.CRITICAL else Priority(self.value)


class ItemState(StrEnum):
    """What an item with a key says of a lasting matter: that it began, or that it is over; `NONE` for all others."""

    NONE = ""
    OPEN = "open"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class ItemDetail:
    """Something came from outside: from a build, a timer, an alert.

    `about` is whom the sender named: another one than the event's where it is for the person. `by` is the agent that sent it,
    empty for all else. `metadata` is a JSON object. `directive` and `tone_hint` are data like the text: nobody follows them.
    """

    source: str
    text: str
    mode: ItemMode
    tier: ItemTier
    priority: ItemPriority
    key: str = ""
    state: ItemState = ItemState.NONE
    about: str = ""
    by: str = ""
    directive: str = ""
    tone_hint: str = ""
    session_id: str = ""
    channel_id: str = ""
    metadata: str = "{}"


Detail = MessageDetail | TaskDetail | PermissionDetail | PulseDetail | PresenceDetail | ItemDetail


def answers_to(detail: Detail) -> str:
    """The link of the host that wants the answer; empty where this one does, or nobody."""
    return detail.answers_to if isinstance(detail, MessageDetail | PulseDetail) else ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened, and whom it concerns, before anyone is chosen to hear of it.

    `recipients` is None for a broadcast whose audience is not recorded: every identity but the sender.
    `message` is what filters look at; pulses and permissions have none.
    """

    log_id: LogId
    kind: EventKind
    trigger: Trigger
    recipients: tuple[Identity, ...] | None
    subject_key: str
    detail: Detail
    occurred_at: Instant | None
    actor: str | None = None
    message: Message | None = None
    already_read: bool = False
    audience_open: bool = False
    old_at_new_position: bool = False


class EventStatus(StrEnum):
    """Where a wake event stands.

    `open` waits for a delivery (or for the next turn); `announced` was put in front of the identity; `read` and
    `superseded` need no wake any more; `refused` matched a subscription but a guard said no (kept for `why`).
    """

    OPEN = "open"
    ANNOUNCED = "announced"
    READ = "read"
    SUPERSEDED = "superseded"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class WakeEvent:
    """One matched fact for one identity; durable.

    `window` is in seconds, `not_before` the instant before which it is not due (a broadcast's audience may still be
    written), `refused_by` the guard's word and the subscription it spoke for. `by_heartbeat`: it would be immediate, had
    its identity another driver than the heartbeat. `again_of`: the delivery of unknown outcome after which it is announced
    once more; empty where there is none. `passed_by`: the subscription whose receiver has left it to the next route, and is
    not sent it again; empty where none has. `failed_turns`: how often it was announced in a turn that failed at once, the
    last time in the delivery `failed_in`. `ack_within`: the milliseconds in which it has to be answered, 0 where it need not be;
    it is told in a wake of its own. `delivered_at`: when an item first reached its reader: in a wake, in the inbox, or by a
    channel; None where it has not, or nobody knows.
    """

    id: str
    epoch: Epoch
    log_id: LogId
    identity: Identity
    kind: EventKind
    subject_key: str
    detail: Detail
    subscription_id: str
    matched_at: Instant
    occurred_at: Instant | None = None
    other_subscriptions: tuple[str, ...] = ()
    policy: WakePolicy = WakePolicy.IMMEDIATE
    priority: Priority = Priority.NORMAL
    window: int = 30
    not_before: Instant = EPOCH_START
    status: EventStatus = EventStatus.OPEN
    refused_by: str = ""
    refusals: tuple[tuple[str, str], ...] = field(default=())
    by_heartbeat: bool = False
    again_of: str = ""
    passed_by: str = ""
    failed_turns: int = 0
    failed_in: str = ""
    ack_within: int = 0
    delivered_at: Instant | None = None

    @property
    def due_at(self) -> Instant:
        """When its window closes."""
        return Instant(max(self.matched_at + self.window * 1000, self.not_before))

    @property
    def thread(self) -> str:
        """The conversation it belongs to, for the loop brake; empty where there is none.

        Two agents that watch each other are one.
        """
        if isinstance(self.detail, PresenceDetail):
            return f"presence:{'+'.join(sorted({self.identity, self.detail.of}))}"
        if isinstance(self.detail, ItemDetail):
            return f"items:{'+'.join(sorted({self.identity, self.detail.by}))}" if self.detail.by else ""
        return self.detail.thread if isinstance(self.detail, MessageDetail | TaskDetail) else ""

    @property
    def rank(self) -> int:
        """Orders by priority; 3 for an item that is critical."""
        return self.detail.priority.rank if isinstance(self.detail, ItemDetail) else self.priority.rank

    @property
    def is_urgent(self) -> bool:
        """Whether it need not wait until its agent has rested after another wake."""
        is_critical = not isinstance(self.detail, ItemDetail) or self.detail.priority is ItemPriority.CRITICAL
        return self.window == 0 and is_critical

    @property
    def is_reminder(self) -> bool:
        """Whether a reminder is due: what it says is told in full."""
        return isinstance(self.detail, PulseDetail) and self.detail.source == REMINDER

    @property
    def from_human(self) -> bool:
        """Whether a person, not an agent, caused it."""
        return isinstance(self.detail, MessageDetail | TaskDetail) and self.detail.from_human
