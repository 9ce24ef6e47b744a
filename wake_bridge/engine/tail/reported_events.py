"""The events that a signed wake reports, as values. It needs the models of signed wakes, so the first wake imports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from wake_bridge.domain.events import (
    Detail,
    MessageDetail,
    PermissionDetail,
    PulseDetail,
    TaskDetail,
)
from wake_bridge.domain.facts import SUBJECT_KEPT, pulse_from
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import (
    EventKind,
    Identity,
    Instant,
    Priority,
    parse_instant,
)
from wake_bridge.domain.values import dataclass
from wake_bridge.schemas.incoming import (
    GatheredDigest,
    Incoming,
    IncomingDigestWake,
    IncomingMessage,
    IncomingPayload,
    IncomingPermission,
    IncomingPulse,
    IncomingTask,
    UpstreamDigest,
)

UNNAMED_AT_MOST: Final = 500
"""Events of one digest that are only counted: what is written down must not depend on a number in a body."""


@dataclass(frozen=True, slots=True)
class ReportedEvent:
    """One event that a signed wake reports: its subject, its details, when it happened, how urgent it is.

    `ack_within` are the seconds in which it has to be answered, None where nobody asks for that.
    """

    kind: EventKind
    subject: str
    detail: Detail
    at: Instant | None
    priority: Priority = Priority.NORMAL
    ack_within: int | None = None


def reported_events(wake: Incoming, identity: Identity, emitted_at: Instant) -> Sequence[ReportedEvent]:
    """The events that a wake reports, oldest first.

    Args:
        wake: as it was read.
        identity: whom it is for.
        emitted_at: when it was sent; an event that tells no time happened then.
    """
    if not isinstance(wake, IncomingDigestWake):
        return [_reported(wake.payload, identity, emitted_at)]
    if isinstance(wake.payload, UpstreamDigest):
        return [*_in_upstream_digest(wake.event_id, wake.payload, identity, emitted_at)]
    return [*_in_our_digest(wake.event_id, wake.payload, identity, emitted_at)]


def _in_our_digest(
    event_id: str, digest: GatheredDigest, identity: Identity, emitted_at: Instant
) -> Iterator[ReportedEvent]:
    """The named events, and those that the counts tell of besides."""
    count = len(digest.events)
    # of what came in one wake the last is the latest
    named = [
        _reported(one.payload, identity, Instant(emitted_at - (count - 1 - place)))
        for place, one in enumerate(digest.events)
    ]
    by_kind = Counter(one.kind for one in named)
    missing = {EventKind(kind): total - by_kind[EventKind(kind)] for kind, total in digest.counts.items()}
    yield from _unnamed(event_id, missing)
    yield from named


def _in_upstream_digest(
    event_id: str, digest: UpstreamDigest, identity: Identity, emitted_at: Instant
) -> Iterator[ReportedEvent]:
    """Of each kind the latest, and as many as were counted besides; by their own ids where these are told."""
    parts = digest.breakdown
    buckets: dict[EventKind, tuple[int, IncomingPayload | None]] = {
        EventKind.MESSAGE: (parts.sent_to_me.count, parts.sent_to_me.latest),
        EventKind.TASK: (parts.task_state_changed.count, parts.task_state_changed.latest),
        EventKind.PERMISSION: (parts.permission_granted.count, parts.permission_granted.latest),
        EventKind.PULSE: (parts.heartbeat_pulse.count, parts.heartbeat_pulse.latest),
    }
    named = [_reported(latest, identity, emitted_at) for count, latest in buckets.values() if latest and count]
    missing = {kind: count - (1 if latest else 0) for kind, (count, latest) in buckets.items()}
    several = [kind for kind, number in missing.items() if number > 0]
    named_ids = {_id_of(one) for one in named}
    others = [one for one in digest.source_event_ids if one not in named_ids]
    ids = others if several == [EventKind.MESSAGE] and len(others) == missing[EventKind.MESSAGE] else []
    highest = Priority(parts.sent_to_me.highest_priority)
    yield from _unnamed(event_id, missing, ids, highest)
    yield from named


def _unnamed(
    event_id: str, missing: dict[EventKind, int], ids: Sequence[str] = (), priority: Priority = Priority.NORMAL
) -> Iterator[ReportedEvent]:
    """Events that a digest only counts: `UNNAMED_AT_MOST` of them, without details; `ids` are those of the messages."""
    room = UNNAMED_AT_MOST
    for kind, number in missing.items():
        for place in range(max(0, min(number, room))):
            subject = ids[place] if place < len(ids) else f"{event_id}#{kind}{place + 1}"
            one = priority if kind is EventKind.MESSAGE and place == 0 else Priority.NORMAL
            yield ReportedEvent(kind, subject, _without_details(kind, subject), None, one)
        room -= max(0, min(number, room))


def _without_details(kind: EventKind, subject: str) -> Detail:
    match kind:
        case EventKind.MESSAGE:
            return MessageDetail(subject, "", "", subject)
        case EventKind.TASK:
            return TaskDetail(subject, "", "", "", None, None, thread=subject)
        case EventKind.PERMISSION:
            return PermissionDetail(subject, "", "", Instant(0), granted_at_observed=True)
        case EventKind.PULSE | EventKind.PRESENCE | EventKind.ITEM:
            # no envelope tells of the others otherwise
            return PulseDetail(subject)


def _id_of(one: ReportedEvent) -> str:
    return one.detail.task_id if isinstance(one.detail, TaskDetail) else one.subject


def _reported(payload: IncomingPayload, identity: Identity, at: Instant) -> ReportedEvent:
    match payload:
        case IncomingMessage():
            return ReportedEvent(
                EventKind.MESSAGE,
                payload.message_id,
                MessageDetail(
                    message_id=payload.message_id,
                    subject=payload.subject[:SUBJECT_KEPT],
                    sender=payload.sender,
                    thread=payload.is_reply_to or payload.message_id,
                    broadcast=payload.is_broadcast,
                ),
                parse_instant(payload.sent_at) or at,
                Priority(payload.priority),
                payload.ack_within,
            )
        case IncomingTask():
            return ReportedEvent(
                EventKind.TASK,
                f"{payload.task_id}:{payload.new_state}:{payload.last_modified_at or at}",
                TaskDetail(
                    task_id=payload.task_id,
                    previous_state=payload.previous_state,
                    new_state=payload.new_state,
                    originator=payload.originator,
                    assignee=payload.assignee,
                    last_modified_at=payload.last_modified_at,
                    thread=payload.task_id,
                ),
                parse_instant(payload.last_modified_at) or at,
            )
        case IncomingPermission():
            return _reported_permission(payload, at)
        case IncomingPulse():
            return _reported_pulse(payload, identity, at)


def _reported_permission(payload: IncomingPermission, at: Instant) -> ReportedEvent:
    granted_at = parse_instant(payload.granted_at)
    # no id is told: a right given by the same hand at the same moment is the same
    edge = f"{payload.scope}:{payload.granted_by}:{granted_at or at}"
    detail = PermissionDetail(
        edge, payload.scope, payload.granted_by, granted_at or at, granted_at_observed=granted_at is None
    )
    return ReportedEvent(EventKind.PERMISSION, edge, detail, granted_at or at)


def _reported_pulse(payload: IncomingPulse, identity: Identity, at: Instant) -> ReportedEvent:
    detail = PulseDetail(payload.pulse_id, payload.source, payload.reason, payload.next_action)
    if not (payload.source or payload.reason):
        # upstream writes what a pulse says into its id
        read = pulse_from(f"HEARTBEAT_PULSE:{identity}:{payload.pulse_id}")
        detail = detail if isinstance(read, Unusable) else read[1]
    return ReportedEvent(EventKind.PULSE, payload.pulse_id, detail, at, ack_within=payload.ack_within)
