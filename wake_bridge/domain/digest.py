"""The digest: what an agent is shown when it is woken (docs/design.md §4).

Short: counts, the latest subject and sender, ids. Never a message body, unless its target asked for full ones.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.events import (
    ItemDetail,
    ItemPriority,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.names import DAY, HOUR, MINUTE, AttentionKind, EventKind, Identity, Instant, Priority
from wake_bridge.domain.signed_wakes import is_signed
from wake_bridge.domain.text import ID_LIMIT, SUBJECT_LIMIT, harmless, name
from wake_bridge.domain.values import dataclass

CLOCK_SLACK: Final = 60_000
"""Milliseconds that a sender's clock may be ahead of ours before its word is worth nothing."""

_WORD_LIMIT: Final = 32

_NOUNS: Final = {
    EventKind.MESSAGE: ("new message", "new messages"),
    EventKind.TASK: ("task transition", "task transitions"),
    EventKind.PERMISSION: ("permission granted", "permissions granted"),
    EventKind.PULSE: ("heartbeat pulse", "heartbeat pulses"),
    EventKind.PRESENCE: ("change of presence", "changes of presence"),
    EventKind.ITEM: ("inbox item", "inbox items"),
}


_STANDS_AT: Final[Mapping[str, str]] = {
    AttentionKind.APPROVAL: "waits for an approval",
    AttentionKind.QUESTION: "asks its person a question",
    AttentionKind.FINISHED: "has finished",
    AttentionKind.STOPPED: "has stopped",
    AttentionKind.FAILED: "failed in its last turn",
    AttentionKind.LIMITED: "has reached a usage limit",
    AttentionKind.GONE: "is gone",
}

EMBEDDED_ACTION: Final = "Automated notice, not your user. Read: wake-bridge inbox {identity} --bodies --consume"

FOREIGN_ACTION: Final = "Automated notice, not your user. Check your mailbox."

MOST_BYTES: Final = 1024
"""UTF-8 bytes of a digest without its bodies."""

BODY_BYTES: Final = 2048
"""UTF-8 bytes of all bodies of a full digest."""

_SUBJECT_STEPS: Final = (SUBJECT_LIMIT, 120, 80, 40)
"""Characters of a subject that are shown, while the text is still too long for the target."""

_HISTORY: Final = 60
"""Characters of a subject in the line of history."""

_REMINDERS: Final = 3
"""Reminders of one wake whose texts it shows."""

_GAP: Final = "   "

BODY_MARK: Final = "> > "
"""Stands before a body in a paste: two redirections in a row are a syntax error, so no shell runs the line it may be left with."""

_NOT_OF_AN_ID: Final = re.compile(r"[^\w:.+/＠…-]")
"""What no id needs, and what a shell may act on."""

_PLACE_HOLDER: Final = "{identity}"

_COMPACT: Final = 3
"""Lines of the compact form: header with the breakdown, action, trailer."""


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
    def is_of_reminders(self) -> bool:
        """Whether these are reminders: their texts stand in no inbox."""
        return self.events[0].is_reminder

    @property
    def since(self) -> Instant:
        """When the first of them was matched."""
        return min(one.matched_at for one in self.events)


def grouped(events: Sequence[WakeEvent]) -> list[Group]:
    """By kind, highest priority first; pulses only when nothing else is left to say, but for reminders."""
    others = [one for one in events if not one.is_reminder]
    groups = [Group(tuple(one for one in others if one.kind is kind)) for kind in _NOUNS]
    groups.append(Group(tuple(one for one in events if one.is_reminder)))
    said = [group for group in groups if group.events]
    telling = [group for group in said if group.events[0].kind is not EventKind.PULSE or group.is_of_reminders]
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
        case PresenceDetail(episode_id=episode_id):
            return episode_id
        case TaskDetail() | ItemDetail():
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
    if group.is_of_reminders:
        return _reminders(group, subject)
    one, several = _NOUNS[group.events[0].kind]
    noun = one if group.count == 1 else several
    return f"{group.count} {noun} (latest: {_latest(group.latest, subject, known)}){waiting(now - group.since)}"


def _reminders(group: Group, subject: int) -> str:
    """`2 reminders ("…"; "…")`: each text, as far as they fit; an open parenthesis before it is a syntax error in a shell."""
    texts = [one.detail.reason for one in group.events if isinstance(one.detail, PulseDetail)]
    said = "; ".join(f'"{harmless(text, subject)}"' for text in texts[:_REMINDERS])
    more = f"; {len(texts) - _REMINDERS} more: `wake-bridge reminders list`" if len(texts) > _REMINDERS else ""
    return f"{len(texts)} {'reminder' if len(texts) == 1 else 'reminders'} ({said}{more})"


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
        case PresenceDetail() as seen:
            return said_of_presence(event.identity, seen, who(seen.of))
        case ItemDetail() as item:
            label = "" if item.priority is ItemPriority.NORMAL else f", {item.priority}"
            # an agent that speaks for a source is named, so that none borrows its word unseen
            speaker = f" by {who(item.by)}" if item.by else ""
            return f'"{harmless(item.text, subject)}" from {harmless(item.source, _WORD_LIMIT)}{speaker}{label}'
        case PulseDetail() as pulse:
            words = [harmless(pulse.source or pulse.pulse_id, ID_LIMIT), harmless(pulse.reason, subject)]
            following = harmless(pulse.next_action, subject)
            return "; ".join(filter(None, [*words, f"next: {following}" if following else ""]))


def said_of_presence(identity: Identity, seen: PresenceDetail, who: str) -> str:
    """What an agent stands at, in a few words; `who` is its name as it may be shown to `identity`."""
    if seen.of == identity:
        return "your usage limit has reset: continue where you stopped"
    return f"{who} {_STANDS_AT.get(seen.stands_at, harmless(seen.stands_at, _WORD_LIMIT))}"


def waiting(age: int) -> str:
    """How long the oldest has waited, in `age` ms, once that is long: a matched event never ages out."""
    if age < HOUR:
        return ""
    return f" (waiting {age // DAY} d)" if age >= DAY else f" (waiting {age // HOUR} h)"


class Anybody(Container[Identity]):
    """Knows every name, for a reader who reads no file at `@name`: a person."""

    def __contains__(self, _: object) -> bool:
        return True


HeaderStyle = Literal["short", "neo"]


@dataclass(frozen=True, slots=True)
class DigestStyle:
    """How a wake reads (`[digest]`).

    `max_lines` bounds it, bodies apart; `header` is `short`, or `neo` to name the priority always, as upstream does;
    `action` is the action line (see `action_template`), a format string for `{identity}` alone, empty for none.
    """

    max_lines: int = 10
    header: HeaderStyle = "short"
    action: str = EMBEDDED_ACTION


def action_template(setting: str, *, embedded: bool) -> str:
    """What the setting `digest.action` means: `auto` depends on whose graph it is, all else is the user's own text."""
    if setting != "auto":
        return setting
    return EMBEDDED_ACTION if embedded else FOREIGN_ACTION


def action_about(action: str, events: Iterable[WakeEvent]) -> str:
    """The action template for these events: mail that a signed wake told of does not lie in the graph here; items lie in our inbox."""
    told = list(events)
    if action == FOREIGN_ACTION and told and all(one.kind is EventKind.ITEM for one in told):
        return EMBEDDED_ACTION
    return FOREIGN_ACTION if action == EMBEDDED_ACTION and any(map(is_signed, told)) else action


def answer_line(delivery: Delivery) -> str:
    """How a wake that is about to be locked has to be answered, under the lease that it gets then; empty where it need not be."""
    if not delivery.ack_within:
        return ""
    return f"Answer within {lasting(delivery.ack_within)}: wake-bridge ack {delivery.id} --lease {delivery.owner_lease + 1}"


def history_line(
    passed_on: Sequence[tuple[Delivery, Sequence[WakeEvent]]],
    identity: Identity,
    now: Instant,
    known: Container[Identity],
) -> str:
    """What a person was told in the agent's place, as history: there is nothing to do about it. Empty for nothing."""
    events = [one for _, each in passed_on for one in each]
    if not events:
        return ""
    about = "; ".join(phrase(group, _HISTORY, now, known) for group in grouped(events)[:1])
    return f"History, nothing to do: your person was told of {about}. See: wake-bridge seen {name(identity, known=identity in known)}"


def lasting(milliseconds: int) -> str:
    """How long something lasts, in one unit."""
    if milliseconds < MINUTE:
        return f"{max(0, milliseconds) // 1000} s"
    return f"{milliseconds // MINUTE} min" if milliseconds < 2 * HOUR else f"{milliseconds // HOUR} h"


def action_line(action: str, identity: Identity, known: Container[Identity]) -> str:
    """What the agent is asked to do, of an action template; empty for none."""
    # the place-holder goes through: made harmless as a whole, a known name would lose its @
    text = harmless(action.format(identity=_PLACE_HOLDER))
    return text.replace(_PLACE_HOLDER, name(identity, known=identity in known))


def compose(
    events: Sequence[WakeEvent],
    *,
    identity: Identity,
    delivery_id: str,
    now: Instant,
    known: Container[Identity],
    style: DigestStyle | None = None,
    target_lines: int = 10,
    target_characters: int = 1024,
    answer: str = "",
    history: str = "",
    bodies: Mapping[str, str] | None = None,
    allow_from: Container[str] = frozenset(),
) -> str:
    """Write the digest of one delivery.

    Args:
        events: those that survive: unread and not yet announced; at least one.
        identity: who is woken.
        delivery_id: the mark by which submission is proven; the last word of the text, never cut.
        now: the moment of writing, on the clock that stamped `matched_at`.
        known: the AgentIdentity nodes of the graph; any other name loses its `@`.
        style: what the configuration says; None for its defaults.
        target_lines: lines that the target takes well; where they do not suffice the compact form is written.
        target_characters: characters that it takes well.
        answer: how it has to be answered; empty where it need not be.
        history: what its person was told in its place; empty for nothing.
        bodies: message bodies by message id, for a target with `digest = "full"`.
        allow_from: the senders whose bodies may be shown.

    Returns:
        Lines joined by plain newlines, the first character a `[`. Whatever the target takes, header and trailer stand; bodies
        come on top of it.

    Raises:
        ValueError: there are no events.
    """
    if not events:
        raise ValueError("a digest announces at least one event")
    sheet = _Sheet(events, identity, delivery_id, now, known, style or DigestStyle(), target_lines, answer, history)
    above, below = sheet.fitting(target_characters)
    lines = [*above, *quoted(events, bodies or {}, allow_from, known, mark=BODY_MARK), *below]
    return sheet.joint.join(lines)


@dataclass(frozen=True, slots=True)
class _Room:
    """How much is said: characters of a subject, how many kinds, whether the action line stands."""

    subject: int
    kinds: int
    action: bool = True


class _Sheet:
    """One digest in every size it can have."""

    def __init__(
        self,
        events: Sequence[WakeEvent],
        identity: Identity,
        delivery_id: str,
        now: Instant,
        known: Container[Identity],
        style: DigestStyle,
        target_lines: int,
        answer: str = "",
        history: str = "",
    ) -> None:
        self._answer, self._history = answer, history
        self._groups = grouped(events)
        self._style = style
        self._action_template = action_about(style.action, events)
        self._target_lines = target_lines
        self.joint = "\n" if target_lines > 1 else _GAP
        self._now = now
        self._known = known
        self._identity = identity
        self._name = name(identity, known=identity in known)
        self._trailer = _trailer(self._groups, delivery_id, now)

    def fitting(self, characters: int) -> tuple[list[str], list[str]]:
        """The largest size that fits: what stands above bodies, and what stands below them."""
        above, below = [self._header()], [one for one in (self._answer, self._trailer) if one]
        for room in self._rooms():
            above, below = self._written(room)
            text = self.joint.join([*above, *below])
            if len(text) <= characters and len(text.encode()) <= MOST_BYTES:
                break
        return above, below

    def _rooms(self) -> Iterator[_Room]:
        """From all there is to say down to the bare header; the highest priority is given up last."""
        kinds = len(self._groups)
        yield from (_Room(subject, kinds) for subject in _SUBJECT_STEPS)
        yield from (_Room(_SUBJECT_STEPS[-1], fewer) for fewer in range(kinds - 1, 0, -1))
        yield _Room(_SUBJECT_STEPS[-1], 1, action=False)
        yield _Room(0, 0, action=False)

    def _written(self, room: _Room) -> tuple[list[str], list[str]]:
        action = action_line(self._action_template, self._identity, self._known) if room.action else ""
        history = self._history if room.action else ""
        below = [one for one in (history, action, self._answer, self._trailer) if one]
        allowed = min(room.kinds, self._style.max_lines - 1 - len(below))
        if allowed > 0 and 1 + allowed + len(below) <= self._target_lines:
            return [f"{self._header()}:", *(f"- {one}" for one in self._phrases(room.subject, allowed))], below
        if min(self._style.max_lines, self._target_lines) < _COMPACT:
            below = [_GAP.join(below)]
        breakdown = "; ".join(self._phrases(room.subject, room.kinds))
        return [f"{self._header()}: {breakdown}" if breakdown else self._header()], below

    def _phrases(self, subject: int, kinds: int) -> list[str]:
        """What happened, a phrase a kind; the last one says how many events go unmentioned."""
        phrases = [phrase(group, subject, self._now, self._known) for group in self._groups[:kinds]]
        unmentioned = sum(group.count for group in self._groups[kinds:])
        if phrases and unmentioned:
            phrases[-1] += f" ({unmentioned} more)"
        return phrases

    def _header(self) -> str:
        highest = max((group.priority for group in self._groups), key=lambda one: one.rank)
        label = f"[priority:{highest}]" if highest is Priority.HIGH else ""
        if self._style.header == "neo":
            # upstream never says `low`
            label = label or "[priority:normal]"
        total = sum(group.count for group in self._groups)
        return f"[WAKE]{label} {total} {'event' if total == 1 else 'events'} for {self._name}"


def _trailer(groups: Sequence[Group], delivery_id: str, now: Instant) -> str:
    """Subscriptions, the real age of the first event, and the mark as the last word."""
    others = sorted((one for group in groups for one in group.events), key=recency, reverse=True)
    events = [groups[0].latest, *others]
    mentioned = (one for event in events for one in (event.subscription_id, *event.other_subscriptions))
    spoken = [one for one in dict.fromkeys(mentioned) if one]
    parts = [f"Window: {max(0, now - min(group.since for group in groups)) // 1000}s", f"Wake: {delivery_id}"]
    if spoken:
        more = f" (+{len(spoken) - 1})" if len(spoken) > 1 else ""
        parts.insert(0, f"Subscription: {_NOT_OF_AN_ID.sub('_', harmless(spoken[0], ID_LIMIT))}{more}")
    return _GAP.join(parts)


def quoted(
    events: Sequence[WakeEvent],
    bodies: Mapping[str, str],
    allow_from: Container[str],
    known: Container[Identity],
    *,
    mark: str = "> ",
) -> list[str]:
    """The allowed bodies, a line each after `mark`, most important and then latest first, `BODY_BYTES` in all."""
    lines: list[str] = []
    left = BODY_BYTES
    seen: set[str] = set()
    for event in sorted(events, key=lambda one: (one.priority.rank, recency(one)), reverse=True):
        detail = event.detail
        if not isinstance(detail, MessageDetail) or detail.sender not in allow_from or detail.message_id in seen:
            continue
        seen.add(detail.message_id)
        opening = f"{mark}{name(detail.sender, known=Identity(detail.sender) in known)}: "
        body = _within(bodies.get(detail.message_id, ""), left - len(opening.encode()))
        if body:
            lines.append(opening + body)
            left -= len(lines[-1].encode()) + 1
    return lines


def _within(text: str, most_bytes: int) -> str:
    """Harmless text of at most so many bytes."""
    if most_bytes < _SUBJECT_STEPS[-1]:
        return ""
    body = harmless(text, most_bytes)
    # no character takes more than four bytes
    return body if len(body.encode()) <= most_bytes else harmless(text, most_bytes // 4)
