"""Turns one row of the change log into the facts in it. Pure: the caller supplies the past."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from wake_bridge.domain.events import Fact, Message, MessageDetail, PermissionDetail, PulseDetail, TaskDetail
from wake_bridge.domain.messages import Unusable, message_from, read_mark, text_of
from wake_bridge.domain.names import (
    BROADCAST,
    EPOCH_START,
    EventKind,
    Identity,
    Instant,
    LogId,
    Trigger,
    is_identity,
    parse_instant,
)
from wake_bridge.domain.tasks import Transition, derived_transition, typed_transition
from wake_bridge.domain.values import dataclass

PULSE_PREFIX: Final = "HEARTBEAT_PULSE:"

_LONGEST_REASON: Final = 16_384

PERMISSIONS: Final = frozenset({"CAN_REPLY_TO", "CAN_READ_INBOX_OF", "CAN_READ_MEMORIES_OF", "CAN_READ_SESSIONS_OF"})
MAIL_EDGES: Final = frozenset({"SENT_TO", "DELIVERED_TO"})
EDGE_TYPES: Final = MAIL_EDGES | PERMISSIONS

CLOCK_SLACK: Final = 60_000
"""Milliseconds by which the clocks of writers may differ before something counts as older than its row."""

SUBJECT_KEPT: Final = 1_000
"""Characters of a subject that an event keeps."""


class EdgeLike(Protocol):
    """An edge as stored."""

    @property
    def id(self) -> str:
        """The edge's own id."""

    @property
    def source(self) -> str:
        """The node it starts from."""

    @property
    def target(self) -> str:
        """The node it points at."""

    @property
    def type(self) -> str:
        """What it says."""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The inner object of its JSON."""


class EntryLike(Protocol):
    """A row of the log with what it points at now (`ports.change_log.LogEntry`)."""

    @property
    def log_id(self) -> LogId:
        """Its place in the log."""

    @property
    def entity_type(self) -> str:
        """`nodes`, `edges`, `heartbeat_pulse` or `task_state_changed`."""

    @property
    def entity_id(self) -> str:
        """What changed."""

    @property
    def node(self) -> Mapping[str, Any] | None:
        """Properties of the node that changed, if it still exists."""

    @property
    def edge(self) -> EdgeLike | None:
        """The edge that changed, if it still exists."""

    @property
    def message(self) -> Mapping[str, Any] | None:
        """The MESSAGE the row is about."""

    @property
    def event_id(self) -> str | None:
        """The id of a typed row."""

    @property
    def payload(self) -> Mapping[str, Any] | None:
        """What a typed row says."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is known besides the row.

    `seen_at` is now. `rows_after` is the wall time after which the row must have been committed (0: not known).
    `previous_state` is the task's last known state, None at first sight. `has_audience` says that a broadcast's
    recipients are recorded, `is_typed` that the log has a typed row for this task's move. `is_rewrite` says that the log
    had the same edge before, or that its earlier rows are gone and nobody can tell.
    """

    seen_at: Instant
    rows_after: Instant = EPOCH_START
    previous_state: str | None = None
    has_audience: bool = False
    is_typed: bool = False
    is_rewrite: bool = True


def facts_of(entry: EntryLike, past: Past) -> tuple[Fact, ...] | Unusable:
    """The facts a row tells, often none. Never raises."""
    match entry.entity_type:
        case "edges" if entry.edge is not None and entry.edge.type in MAIL_EDGES:
            return _mail_facts(entry, entry.edge, past)
        case "edges" if entry.edge is not None and entry.edge.type in PERMISSIONS:
            return _permission_facts(entry, entry.edge, past)
        case "heartbeat_pulse":
            return _pulse_facts(entry)
        case "task_state_changed":
            return _typed_task_facts(entry)
        case "nodes" if entry.node is not None:
            return _derived_task_facts(entry, entry.node, past)
        case _:
            return ()


def _mail_facts(entry: EntryLike, edge: EdgeLike, past: Past) -> tuple[Fact, ...] | Unusable:
    if entry.message is None:
        return ()
    message = message_from(edge.source, entry.message)
    if isinstance(message, Unusable):
        return message
    is_open = edge.target == BROADCAST and edge.type == "SENT_TO"
    if (is_open and past.has_audience) or not (is_open or is_identity(edge.target)):
        return ()
    is_delivered = edge.type == "DELIVERED_TO"
    # a broadcast is read per recipient: its edge knows, the node does not
    read_at = read_mark(edge.properties) if is_delivered else message.read_at
    return (
        Fact(
            log_id=entry.log_id,
            kind=EventKind.MESSAGE,
            trigger=Trigger.SENT_TO_ME,
            recipients=None if is_open else (Identity(edge.target),),
            subject_key=message.id,
            detail=MessageDetail(
                message_id=message.id,
                subject=message.subject[:SUBJECT_KEPT],
                sender=message.sender,
                thread=_thread_of(message),
                broadcast=is_open or is_delivered or message.recipient == BROADCAST,
            ),
            occurred_at=message.sent_at,
            actor=message.sender,
            message=message,
            already_read=read_at is not None,
            audience_open=is_open,
            old_at_new_position=past.is_rewrite and _is_older_than_its_row(message.sent_at, past.rows_after),
        ),
    )


def _permission_facts(entry: EntryLike, edge: EdgeLike, past: Past) -> tuple[Fact, ...] | Unusable:
    """Edges run grantee → granter: the grantee is told."""
    if not is_identity(edge.source):
        return Unusable("the permission's grantee is not an identity")
    granted_at = _granted_at(edge)
    return (
        Fact(
            log_id=entry.log_id,
            kind=EventKind.PERMISSION,
            trigger=Trigger.PERMISSION_GRANTED,
            recipients=(Identity(edge.source),),
            subject_key=edge.id,
            detail=PermissionDetail(
                edge_id=edge.id,
                scope=edge.type,
                granted_by=edge.target,
                granted_at=granted_at or past.seen_at,
                granted_at_observed=granted_at is None,
            ),
            occurred_at=granted_at,
            actor=edge.target,
            old_at_new_position=past.is_rewrite and _is_older_than_its_row(granted_at, past.rows_after),
        ),
    )


def _pulse_facts(entry: EntryLike) -> tuple[Fact, ...] | Unusable:
    pulse = pulse_from(entry.entity_id)
    if isinstance(pulse, Unusable):
        return pulse
    identity, detail = pulse
    return (
        Fact(
            log_id=entry.log_id,
            kind=EventKind.PULSE,
            trigger=Trigger.HEARTBEAT_PULSE,
            recipients=(identity,),
            subject_key=detail.pulse_id,
            detail=detail,
            occurred_at=None,
        ),
    )


def pulse_from(entity_id: str) -> tuple[Identity, PulseDetail] | Unusable:
    """Whom a pulse is for, and what it says. The identity reaches up to the last colon. Never raises."""
    login, _, pulse_id = entity_id.removeprefix(PULSE_PREFIX).rpartition(":")
    if not entity_id.startswith(PULSE_PREFIX) or not is_identity(login) or not pulse_id:
        return Unusable("the pulse names no identity")
    source, reason, next_action = _reason_in(pulse_id)
    return Identity(login), PulseDetail(pulse_id, source=source, reason=reason, next_action=next_action)


def _reason_in(pulse_id: str) -> tuple[str, str, str]:
    """Source, reason and next action from `<source>.<base64url(JSON)>`; empty where the id is plain or untrue."""
    source, _, encoded = pulse_id.partition(".")
    if not encoded or len(encoded) > _LONGEST_REASON:
        return "", "", ""
    try:
        said = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        return "", "", ""
    if not isinstance(said, Mapping) or said.get("source") != source:
        return "", "", ""
    latest = said.get("latest")
    inner: Mapping[str, Any] = latest if isinstance(latest, Mapping) else {}
    reason = text_of(said.get("reason")) or text_of(inner.get("reason"))
    return text_of(source), reason, text_of(said.get("nextAction")) or text_of(inner.get("title"))


def _typed_task_facts(entry: EntryLike) -> tuple[Fact, ...] | Unusable:
    transition = typed_transition(entry.entity_id, entry.event_id, entry.payload)
    if isinstance(transition, Unusable):
        return transition
    message = message_from(entry.entity_id, entry.message) if entry.message is not None else None
    return (_task_fact(entry.log_id, transition, message if isinstance(message, Message) else None),)


def _derived_task_facts(entry: EntryLike, node: Mapping[str, Any], past: Past) -> tuple[Fact, ...] | Unusable:
    message = message_from(entry.entity_id, node)
    if isinstance(message, Unusable):
        return message
    if past.previous_state is None or past.is_typed:
        return ()
    transition = derived_transition(message, past.previous_state, entry.log_id)
    return () if transition is None else (_task_fact(entry.log_id, transition, message),)


def _task_fact(log_id: LogId, transition: Transition, message: Message | None) -> Fact:
    return Fact(
        log_id=log_id,
        kind=EventKind.TASK,
        trigger=Trigger.TASK_STATE_CHANGED,
        recipients=transition.audience,
        subject_key=transition.subject_key,
        detail=TaskDetail(
            task_id=transition.task_id,
            previous_state=transition.previous,
            new_state=transition.new,
            originator=transition.originator,
            assignee=transition.assignee,
            last_modified_at=transition.last_modified_at,
            thread=_thread_of(message) if message else transition.task_id,
            actor=transition.actor,
        ),
        occurred_at=parse_instant(transition.last_modified_at),
        actor=transition.actor,
        message=message,
    )


def derived_twin(detail: TaskDetail) -> str:
    """The subject key under which the move would have been derived, had its typed row come later."""
    return f"{detail.task_id}:{detail.new_state}:{detail.last_modified_at}"


def _thread_of(message: Message) -> str:
    return message.thread or message.in_reply_to or message.id


def _granted_at(edge: EdgeLike) -> Instant | None:
    known = (parse_instant(edge.properties.get(name)) for name in ("grantedAt", "timestamp", "createdAt"))
    return next((instant for instant in known if instant is not None), None)


def older_than_their_rows(entries: Iterable[EntryLike], rows_after: Instant) -> frozenset[str]:
    """Ids of the edges whose mail or permission is older than its row: rewritten since, or written with a slow clock.

    Args:
        entries: rows of the log.
        rows_after: the wall time after which all of them were committed, in ms; 0 if unknown.
    """
    return frozenset(
        entry.edge.id
        for entry in entries
        if entry.edge is not None and _is_older_than_its_row(_happened_at(entry, entry.edge), rows_after)
    )


def _happened_at(entry: EntryLike, edge: EdgeLike) -> Instant | None:
    if edge.type in PERMISSIONS:
        return _granted_at(edge)
    return parse_instant(entry.message.get("sentAt")) if entry.message is not None else None


def _is_older_than_its_row(occurred_at: Instant | None, rows_after: Instant) -> bool:
    return occurred_at is not None and occurred_at < rows_after - CLOCK_SLACK
