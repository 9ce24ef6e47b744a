"""What a digest says of the events of one kind: how many, which is the latest, how long they have waited."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.events import MessageDetail, PermissionDetail, PulseDetail, TaskDetail, WakeEvent
from wake_bridge.domain.names import DAY, HOUR, EventKind, Identity, Instant, Priority
from wake_bridge.domain.text import harmless, name

ID_LIMIT: Final = 64
"""Characters of an id that are shown; those of the memory core have 45."""

CLOCK_SLACK: Final = 60_000
"""Milliseconds that a sender's clock may be ahead of ours before its word is worth nothing."""

_WORD_LIMIT: Final = 32

_NOUNS: Final = {
    EventKind.MESSAGE: ("new message", "new messages"),
    EventKind.TASK: ("task transition", "task transitions"),
    EventKind.PERMISSION: ("permission granted", "permissions granted"),
    EventKind.PULSE: ("heartbeat pulse", "heartbeat pulses"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """All events of one kind."""

    events: tuple[WakeEvent, ...]

    @property
    def count(self) -> int:
        """Subjects, not events: one message is one however often it matched."""
        return len({subject_of(one) for one in self.events})

    @property
    def priority(self) -> Priority:
        """The highest among them."""
        return max((one.priority for one in self.events), key=lambda one: one.rank)

    @property
    def latest(self) -> WakeEvent:
        """The one to be named."""
        return max(self.events, key=recency)

    @property
    def since(self) -> Instant:
        """When the first of them was matched."""
        return min(one.matched_at for one in self.events)


def grouped(events: Sequence[WakeEvent]) -> list[Group]:
    """By kind, highest priority first; pulses only when nothing else is left to say."""
    groups = [Group(tuple(one for one in events if one.kind is kind)) for kind in _NOUNS]
    said = [group for group in groups if group.events]
    telling = [group for group in said if group.events[0].kind is not EventKind.PULSE]
    return sorted(telling or said, key=lambda group: -group.priority.rank)


def subject_of(event: WakeEvent) -> str:
    """What it is about; a resync repeats an event under another subject key."""
    match event.detail:
        case MessageDetail(message_id=message_id):
            return message_id
        case PermissionDetail(edge_id=edge_id):
            return edge_id
        case PulseDetail(pulse_id=pulse_id):
            return pulse_id
        case TaskDetail():
            return event.subject_key


def recency(event: WakeEvent) -> tuple[bool, int, int, int]:
    """Orders by when it happened, then by arrival.

    Nothing happens after it was seen: a clock a little ahead counts as that moment, one that is missing or far ahead
    never wins.
    """
    if event.occurred_at is None or event.occurred_at > event.matched_at + CLOCK_SLACK:
        return False, 0, event.epoch, event.log_id
    return True, min(event.occurred_at, event.matched_at), event.epoch, event.log_id


def phrase(group: Group, subject: int, now: Instant, known: Container[Identity]) -> str:
    """`2 new messages (latest: …)`, with at most `subject` characters of free text; never more than a line."""
    one, several = _NOUNS[group.events[0].kind]
    noun = one if group.count == 1 else several
    return f"{group.count} {noun} (latest: {_latest(group.latest, subject, known)}){waiting(now - group.since)}"


def _latest(event: WakeEvent, subject: int, known: Container[Identity]) -> str:
    def who(login: str) -> str:
        return name(login, known=Identity(login) in known) or "unknown"

    match event.detail:
        case MessageDetail() as message:
            return f'"{harmless(message.subject, subject) or "(no subject)"}" from {who(message.sender)}'
        case TaskDetail() as task:
            states = (harmless(one, _WORD_LIMIT) for one in (task.previous_state, task.new_state))
            return f"{' → '.join(filter(None, states))} on task {harmless(task.task_id, ID_LIMIT)}"
        case PermissionDetail() as permission:
            return f"{harmless(permission.scope, _WORD_LIMIT)} by {who(permission.granted_by)}"
        case PulseDetail() as pulse:
            words = [harmless(pulse.source or pulse.pulse_id, ID_LIMIT), harmless(pulse.reason, subject)]
            following = harmless(pulse.next_action, subject)
            return "; ".join(filter(None, [*words, f"next: {following}" if following else ""]))


def waiting(age: int) -> str:
    """How long the oldest has waited, in `age` ms, once that is long: a matched event never ages out."""
    if age < HOUR:
        return ""
    return f" (waiting {age // DAY} d)" if age >= DAY else f" (waiting {age // HOUR} h)"
