"""Takes signed wakes in: what a sender reports becomes events in the ledger, like a row of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import structlog

from wake_bridge.domain.events import (
    Detail,
    Fact,
    Message,
    MessageDetail,
    PermissionDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.facts import SUBJECT_KEPT, pulse_from
from wake_bridge.domain.matching import MatchContext, MatchingRules, match
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import (
    SECOND,
    TRIGGER_OF,
    Epoch,
    EventKind,
    Identity,
    Instant,
    LogId,
    Priority,
    WakePolicy,
    parse_instant,
)
from wake_bridge.domain.signed_wakes import NotHere, subject_key_of
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.tail.tail import EventNotifier
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Emission, NewId, Taken
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

_NO_ROW: Final = LogId(0)


@dataclass(frozen=True, slots=True)
class _Told:
    """One thing that a wake tells: its subject, its details, when it happened, how urgent it is.

    `ack_within` are the seconds in which it has to be answered, None where nobody asks for that.
    """

    kind: EventKind
    subject: str
    detail: Detail
    at: Instant | None
    priority: Priority = Priority.NORMAL
    ack_within: int | None = None


class SignedWakes:
    """Takes verified wakes in.

    Contract: what `take` answers is on disk. The sender has matched; here the rules of this host have their say: policy,
    window, age. What is read is not known here.

    Args:
        rules: the matching rules in force.
        epoch: the present life of the source; 0 before anybody knows who lives here.
        lives_here: whether an identity can have a place on this host.
        notifier: told of the events that are new.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        new_id: NewId,
        *,
        rules: Callable[[], MatchingRules],
        epoch: Callable[[], Epoch],
        lives_here: Callable[[Identity], bool],
        notifier: EventNotifier,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._rules = rules
        self._epoch = epoch
        self._lives_here = lives_here
        self._notifier = notifier
        self._log = structlog.get_logger("tail")

    async def take(self, sender: str, wake: Incoming, body: str, *, is_followed: bool = False) -> Taken:
        """Take a wake in that its sender may send; answers what it was.

        Args:
            sender: whose signature it bears, by its name in the configuration.
            wake: what it says.
            body: the SHA-256 of its bytes, in hex.
            is_followed: the sender asks what became of it, and tells its own person: what it says of an answer holds here.

        Raises:
            NotHere: the identity does not live here.
            LedgerError: it could not be written down.
        """
        identity = Identity(wake.agent_identity)
        if not self._epoch():
            raise NotHere(is_starting=True)
        # of one that has moved away since, its sender must not hear that nothing came of what was taken in
        if not self._lives_here(identity) and not self._ledger.knows_emission(sender, wake.event_id):
            raise NotHere
        now = self._clock.now()
        emitted_at = parse_instant(wake.emitted_at) or now
        emission = Emission(sender, wake.event_id, body, emitted_at)
        taken, new = self._ledger.take_in(
            emission, self._events(sender, wake, identity, emitted_at, is_followed=is_followed), now
        )
        self._log.info("wake_taken_in", sender=sender, agent=identity, event_id=wake.event_id, was=taken.value)
        await self._notifier.notify(new)
        return taken

    def _events(
        self, sender: str, wake: Incoming, identity: Identity, emitted_at: Instant, *, is_followed: bool
    ) -> list[WakeEvent]:
        rules = self._rules()
        moment = MatchContext(self._epoch(), self._clock.now(), self._clock.wall(), self._new_id, rules)
        events: dict[str, WakeEvent] = {}
        for told in _told_by(wake, identity, emitted_at):
            book = SubscriptionBook(embedded=True)
            book.put(Subscription(wake.subscription_id, identity, TRIGGER_OF[told.kind]))
            asked = told if is_followed else replace(told, ack_within=None)
            for event in match(_fact(asked, sender, identity), book, moment):
                if told.kind is EventKind.PULSE and event.policy is WakePolicy.IMMEDIATE:
                    # only mail is matched with its time: an item brings its own
                    event = replace(event, ack_within=(asked.ack_within or 0) * SECOND)  # noqa: PLW2901
                events.setdefault(event.subject_key, event)
        return list(events.values())


def _fact(told: _Told, sender: str, identity: Identity) -> Fact:
    """A fact that the sender has matched: whose doing it was is judged there."""
    message, detail = None, told.detail
    if told.kind is EventKind.MESSAGE:
        message = Message(told.subject, "", identity, priority=told.priority, ack_within=told.ack_within)
    if told.ack_within is not None and isinstance(detail, MessageDetail | PulseDetail):
        detail = replace(detail, answers_to=sender)
    return Fact(
        log_id=_NO_ROW,
        kind=told.kind,
        trigger=TRIGGER_OF[told.kind],
        recipients=(identity,),
        subject_key=subject_key_of(sender, told.subject),
        detail=detail,
        occurred_at=told.at,
        message=message,
    )


def _told_by(wake: Incoming, identity: Identity, emitted_at: Instant) -> Sequence[_Told]:
    """What a wake tells, oldest first."""
    if not isinstance(wake, IncomingDigestWake):
        return [_told(wake.payload, identity, emitted_at)]
    if isinstance(wake.payload, UpstreamDigest):
        return [*_told_upstream(wake.event_id, wake.payload, identity, emitted_at)]
    return [*_told_gathered(wake.event_id, wake.payload, identity, emitted_at)]


def _told_gathered(event_id: str, digest: GatheredDigest, identity: Identity, emitted_at: Instant) -> Iterator[_Told]:
    """The named events, and those that the counts tell of besides."""
    count = len(digest.events)
    # of what came in one wake the last is the latest
    named = [
        _told(one.payload, identity, Instant(emitted_at - (count - 1 - place)))
        for place, one in enumerate(digest.events)
    ]
    by_kind = Counter(one.kind for one in named)
    missing = {EventKind(kind): total - by_kind[EventKind(kind)] for kind, total in digest.counts.items()}
    yield from _unnamed(event_id, missing)
    yield from named


def _told_upstream(event_id: str, digest: UpstreamDigest, identity: Identity, emitted_at: Instant) -> Iterator[_Told]:
    """Of each kind the latest, and as many as were counted besides; by their own ids where these are told."""
    parts = digest.breakdown
    buckets: dict[EventKind, tuple[int, IncomingPayload | None]] = {
        EventKind.MESSAGE: (parts.sent_to_me.count, parts.sent_to_me.latest),
        EventKind.TASK: (parts.task_state_changed.count, parts.task_state_changed.latest),
        EventKind.PERMISSION: (parts.permission_granted.count, parts.permission_granted.latest),
        EventKind.PULSE: (parts.heartbeat_pulse.count, parts.heartbeat_pulse.latest),
    }
    named = [_told(latest, identity, emitted_at) for count, latest in buckets.values() if latest and count]
    missing = {kind: count - (1 if latest else 0) for kind, (count, latest) in buckets.items()}
    several = [kind for kind, number in missing.items() if number > 0]
    others = [one for one in digest.source_event_ids if one not in {_id_of(told) for told in named}]
    ids = others if several == [EventKind.MESSAGE] and len(others) == missing[EventKind.MESSAGE] else []
    highest = Priority(parts.sent_to_me.highest_priority)
    yield from _unnamed(event_id, missing, ids, highest)
    yield from named


def _unnamed(
    event_id: str, missing: dict[EventKind, int], ids: Sequence[str] = (), priority: Priority = Priority.NORMAL
) -> Iterator[_Told]:
    """Events that a digest only counts: `UNNAMED_AT_MOST` of them, without details; `ids` are those of the messages."""
    room = UNNAMED_AT_MOST
    for kind, number in missing.items():
        for place in range(max(0, min(number, room))):
            subject = ids[place] if place < len(ids) else f"{event_id}#{kind}{place + 1}"
            one = priority if kind is EventKind.MESSAGE and place == 0 else Priority.NORMAL
            yield _Told(kind, subject, _without_details(kind, subject), None, one)
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


def _id_of(told: _Told) -> str:
    return told.detail.task_id if isinstance(told.detail, TaskDetail) else told.subject


def _told(payload: IncomingPayload, identity: Identity, at: Instant) -> _Told:
    match payload:
        case IncomingMessage():
            return _Told(
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
            return _Told(
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
            return _told_of_permission(payload, at)
        case IncomingPulse():
            return _told_of_pulse(payload, identity, at)


def _told_of_permission(payload: IncomingPermission, at: Instant) -> _Told:
    granted_at = parse_instant(payload.granted_at)
    # no id is told: a right given by the same hand at the same moment is the same
    edge = f"{payload.scope}:{payload.granted_by}:{granted_at or at}"
    detail = PermissionDetail(
        edge, payload.scope, payload.granted_by, granted_at or at, granted_at_observed=granted_at is None
    )
    return _Told(EventKind.PERMISSION, edge, detail, granted_at or at)


def _told_of_pulse(payload: IncomingPulse, identity: Identity, at: Instant) -> _Told:
    detail = PulseDetail(payload.pulse_id, payload.source, payload.reason, payload.next_action)
    if not (payload.source or payload.reason):
        # upstream writes what a pulse says into its id
        read = pulse_from(f"HEARTBEAT_PULSE:{identity}:{payload.pulse_id}")
        detail = detail if isinstance(read, Unusable) else read[1]
    return _Told(EventKind.PULSE, payload.pulse_id, detail, at, ack_within=payload.ack_within)
