"""The envelope of a delivery to a program: the typed event, or a digest of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from wake_bridge.domain.digest import said_of_presence
from wake_bridge.domain.events import (
    ItemDetail,
    Message,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.messages import message_from
from wake_bridge.domain.names import SECOND, EventKind, Identity, Instant
from wake_bridge.domain.text import harmless
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.schemas.envelope import (
    MOST_EVENTS,
    Digest,
    DigestEnvelope,
    Envelope,
    HeartbeatPulse,
    HeartbeatPulseEnvelope,
    PermissionGranted,
    PermissionGrantedEnvelope,
    SentToMe,
    SentToMeEnvelope,
    TaskStateChanged,
    TaskStateChangedEnvelope,
    TypedEvent,
    Window,
)

Payload = SentToMe | TaskStateChanged | PermissionGranted | HeartbeatPulse


async def envelope_of(
    queries: GraphQueries,
    events: Sequence[WakeEvent],
    *,
    identity: Identity,
    event_id: str,
    subscription_id: str,
    text: str,
    now: Instant,
    bodies: Mapping[str, str],
    to_host: bool = False,
) -> Envelope:
    """The envelope of one emission; of several events a digest with the newest of them. Raises `SourceError`.

    Args:
        queries: where the tags of messages, and what they answer, are asked for.
        events: what is told; at least one.
        identity: who is woken.
        event_id: the emission's.
        subscription_id: whose receiver it goes to.
        text: the digest as an agent would be shown it.
        now: the moment of writing.
        bodies: the message bodies that may leave, by message id.
        to_host: it goes to a linked host, which is told in which time a message or an item has to be answered.
    """
    shown = sorted(events, key=lambda one: (one.epoch, one.log_id))[-MOST_EVENTS:]
    payloads = [await _payload(queries, one, bodies, to_host=to_host) for one in shown]
    says = {
        "event_id": event_id,
        "log_id": max(one.log_id for one in events),
        "agent_identity": identity,
        "subscription_id": subscription_id,
        "emitted_at": written_instant(now),
    }
    if len(events) == 1:
        match payloads[0]:
            case SentToMe():
                return SentToMeEnvelope(**says, payload=payloads[0])
            case TaskStateChanged():
                return TaskStateChangedEnvelope(**says, payload=payloads[0])
            case PermissionGranted():
                return PermissionGrantedEnvelope(**says, payload=payloads[0])
            case HeartbeatPulse():
                return HeartbeatPulseEnvelope(**says, payload=payloads[0])
    typed = tuple(
        TypedEvent(
            event_type=_TYPES[type(payload)], log_id=one.log_id, subscription_id=one.subscription_id, payload=payload
        )
        for one, payload in zip(shown, payloads, strict=True)
    )
    digest = Digest(
        text=text,
        counts=dict(Counter(_COUNTED_AS.get(one.kind, one.kind).value for one in events)),
        window=Window(
            since=written_instant(Instant(min(one.matched_at for one in events))), until=written_instant(now)
        ),
        events=typed,
        total=len(events),
        shown=len(typed),
    )
    return DigestEnvelope(**says, payload=digest)


_COUNTED_AS: Mapping[EventKind, EventKind] = {
    EventKind.PRESENCE: EventKind.PULSE,
    EventKind.ITEM: EventKind.PULSE,
}
"""The envelope knows no presence and no items: receivers get them as pulses that say so."""

_TYPES: Mapping[type[Payload], str] = {
    SentToMe: "wake/sent_to_me",
    TaskStateChanged: "wake/task_state_changed",
    PermissionGranted: "wake/permission_granted",
    HeartbeatPulse: "wake/heartbeat_pulse",
}


async def _payload(queries: GraphQueries, event: WakeEvent, bodies: Mapping[str, str], *, to_host: bool) -> Payload:
    ack_within = -(-event.ack_within // SECOND) or None if to_host else None
    match event.detail:
        case MessageDetail() as mail:
            read = message_from(mail.message_id, await queries.node(mail.message_id) or {})
            message = read if isinstance(read, Message) else None
            return SentToMe(
                message_id=mail.message_id,
                sender=mail.sender,
                subject=harmless(mail.subject),
                priority=event.priority.value,
                tagged_concepts=message.tags if message else (),
                is_reply_to=message.in_reply_to if message else None,
                is_broadcast=mail.broadcast,
                body_text=bodies.get(mail.message_id),
                ack_within=ack_within,
            )
        case TaskDetail() as task:
            return TaskStateChanged(
                task_id=task.task_id,
                previous_state=task.previous_state,
                new_state=task.new_state,
                originator=task.originator,
                assignee=task.assignee,
                last_modified_at=task.last_modified_at,
            )
        case PermissionDetail() as right:
            return PermissionGranted(
                scope=right.scope, granted_by=right.granted_by, granted_at=written_instant(right.granted_at)
            )
        case PresenceDetail() as seen:
            said = said_of_presence(event.identity, seen, seen.of)
            return HeartbeatPulse(pulse_id=seen.episode_id, source="presence", reason=said, next_action="")
        case ItemDetail() as item:
            said = harmless(item.text)
            return HeartbeatPulse(
                pulse_id=event.id,
                source=f"inbox:{item.source}",
                reason=said,
                next_action="",
                ack_within=ack_within,
            )
        case PulseDetail() as pulse:
            return HeartbeatPulse(
                pulse_id=pulse.pulse_id, source=pulse.source, reason=pulse.reason, next_action=pulse.next_action
            )


def written_instant(instant: Instant) -> str:
    """As JavaScript's `toISOString` writes it."""
    moment = datetime.fromtimestamp(instant / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{instant % 1000:03}Z"
