"""The feed of what happened: its kinds, where each thing came from, and each entry in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from wake_bridge.domain.attention import Episode
from wake_bridge.domain.channels import TEXT, Send, SendOutcome, told_of
from wake_bridge.domain.delivery import Delivery, Hold, HoldReason, Outcome
from wake_bridge.domain.digest import Anybody, grouped, phrase
from wake_bridge.domain.events import REMINDER, ItemDetail, ItemMode, WakeEvent
from wake_bridge.domain.names import TRIGGER_OF, EventKind, Identity, Instant, Priority
from wake_bridge.domain.notices import standing_at
from wake_bridge.domain.nudges import is_our_pulse
from wake_bridge.domain.reasons import ENDED, held_because
from wake_bridge.domain.reminders import Reminder
from wake_bridge.domain.sessions import HOOK
from wake_bridge.domain.signed_wakes import is_signed
from wake_bridge.domain.text import WIDE_AT, harmless
from wake_bridge.domain.values import dataclass

STIMULI_TOLD: Final = 200
"""Events of one delivery that are read to say what it was for; of a flood the others are counted."""

_SUBJECT: Final = 120
_EVERYBODY: Final = "*"

_TAKEN_IN: Final[Mapping[str, str]] = {
    ItemMode.PASSIVE: "taken in, for the next turn",
    ItemMode.PROMPT: "taken in, for you",
    ItemMode.ACTIVE: "taken in, to wake its agent",
}


class ActivityKind(StrEnum):
    """What an entry tells of; also the names of the events that the daemon sends by SSE."""

    WAKE_PENDING = "wake.pending"
    WAKE_HELD = "wake.held"
    WAKE_DELIVERED = "wake.delivered"
    WAKE_FAILED = "wake.failed"
    WAKE_UNKNOWN = "wake.unknown"
    WAKE_ESCALATED = "wake.escalated"
    ATTENTION = "attention"
    INBOX_ITEM = "inbox.item"
    MESSAGE = "activity.message"


class Origin(StrEnum):
    """Where the reason for it came from."""

    GRAPH = "graph"
    SCHEDULER = "scheduler"
    INBOX = "inbox"
    WEBHOOK = "webhook"
    HOOK = "hook"
    PERSON = "person"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class Notes:
    """What the ledger still knows of what an entry is about; retention takes it when it takes the entry, or before.

    `line` is the detail of the journal's line that the entry stands for. Of the events of its delivery the latest
    `STIMULI_TOLD` are here, and `events_besides` counts the others.
    """

    delivery: Delivery | None = None
    line: dict[str, str] | None = None
    events: Sequence[WakeEvent] = ()
    events_besides: int = 0
    episode: Episode | None = None
    send: Send | None = None
    reminder: Reminder | None = None
    notice_title: str = ""


@dataclass(frozen=True, slots=True)
class Activity:
    """One entry of the feed. `id` rises with every entry, and is never used again.

    `identity` is whom it concerns, `*` for all, empty for nobody in particular. `subject` is the id of the delivery, the
    episode, the message or the reminder; empty where it is about none. `outcome` is a word of the contract: a hold reason, an
    outcome, a kind or an ending of an episode, `paused`, `resumed`.
    """

    id: int
    at: Instant
    kind: ActivityKind
    identity: str
    subject: str
    outcome: str
    notes: Notes = Notes()

    @property
    def origin(self) -> Origin:
        """Where the reason for it came from."""
        if self.kind is ActivityKind.ATTENTION:
            return Origin.ATTENTION
        if self.kind is ActivityKind.INBOX_ITEM:
            return Origin.INBOX
        if self.kind is ActivityKind.MESSAGE:
            return self._origin_of_message()
        delivery, events = self.notes.delivery, self.notes.events
        if delivery is not None and delivery.adapter == HOOK:
            return Origin.HOOK
        return _origin_of(events[-1]) if events else Origin.GRAPH

    def _origin_of_message(self) -> Origin:
        send = self.notes.send
        if send is None:
            return Origin.SCHEDULER if self.notes.reminder is not None else Origin.PERSON
        if send.subject.startswith(f"{REMINDER}:"):
            return Origin.SCHEDULER
        if send.reason == TEXT:
            return Origin.GRAPH if send.sender else Origin.PERSON
        return Origin.ATTENTION

    @property
    def trigger(self) -> str:
        """What its delivery's latest event was matched by; empty where there is none."""
        events = self.notes.events
        if not events:
            return ""
        latest = events[-1]
        return latest.detail.source if isinstance(latest.detail, ItemDetail) else TRIGGER_OF[latest.kind]

    @property
    def priority(self) -> Priority | None:
        """The highest among the events of its delivery; None where there are none."""
        return max((one.priority for one in self.notes.events), key=lambda one: one.rank, default=None)

    @property
    def where(self) -> str:
        """The place that it names, as a person reads it; empty where it names none."""
        notes = self.notes
        if notes.line is not None and notes.line.get("where"):
            return harmless(notes.line["where"])
        about = notes.delivery or notes.episode
        return harmless(about.where) if about is not None else ""

    @property
    def stimulus(self) -> str:
        """Why it happened at all, one clause: the news, the screen, the text; empty where nobody knows any more."""
        return _for_a_person(self._stimulus())

    def _stimulus(self) -> str:
        notes = self.notes
        if notes.events:
            more = f"; and {notes.events_besides} more" if notes.events_besides else ""
            return "; ".join(self._phrases()) + more
        if notes.episode is not None:
            return standing_at(notes.episode.kind)
        if notes.send is not None and notes.send.reason == TEXT:
            return harmless(notes.send.body, _SUBJECT)
        if notes.send is not None:
            return harmless(notes.send.title.removeprefix("wake-bridge: "), _SUBJECT)
        if notes.reminder is not None:
            return harmless(notes.reminder.text, _SUBJECT)
        return harmless(notes.notice_title.removeprefix("wake-bridge: "), _SUBJECT)

    def _phrases(self) -> list[str]:
        if all(is_our_pulse(one) for one in self.notes.events):
            return ["unread mail"]
        # the age of what waits is the entry's own business
        now = min(one.matched_at for one in self.notes.events)
        return [phrase(group, _SUBJECT, now, Anybody()) for group in grouped(self.notes.events)]

    @property
    def told(self) -> str:
        """What happened, one clause, for a person."""
        return _for_a_person(self._told())

    def _told(self) -> str:
        match self.kind:
            case ActivityKind.WAKE_PENDING:
                return "waits to be told"
            case ActivityKind.WAKE_HELD:
                return f"held: {self._held()}"
            case ActivityKind.WAKE_DELIVERED:
                return self._delivered()
            case ActivityKind.WAKE_FAILED:
                return "failed"
            case ActivityKind.WAKE_UNKNOWN:
                return ENDED[Outcome.UNKNOWN]
            case ActivityKind.WAKE_ESCALATED:
                return f"needs you, and you were told: {self.outcome}"
            case ActivityKind.ATTENTION:
                return self._attention()
            case ActivityKind.MESSAGE:
                return self._message()
            case ActivityKind.INBOX_ITEM:
                return _TAKEN_IN.get(self.outcome, self.outcome)

    def _held(self) -> str:
        line = self.notes.line
        try:
            reason = HoldReason(self.outcome)
        except ValueError:
            return harmless(self.outcome)
        if line is None:
            return reason.value
        hold = Hold(reason, harmless(line.get("detail", "")), self.where)
        return held_because(hold, Identity(self.identity))

    def _delivered(self) -> str:
        where = f" in {self.where}" if self.where else ""
        words = {
            Outcome.SUBMITTED: f"woken{where}",
            Outcome.ACKNOWLEDGED: "acknowledged",
            Outcome.READ: "read before it had to be announced",
            Outcome.EMPTY: "nothing was left to tell",
        }
        return words.get(self.outcome, self.outcome)  # type: ignore[call-overload, no-any-return]

    def _attention(self) -> str:
        episode = self.notes.episode
        if episode is None:
            return "you were told"
        if self.outcome == episode.kind:
            return standing_at(episode.kind) + (f" in {self.where}" if self.where else "")
        return f"{standing_at(episode.kind)}: {self.outcome}"

    def _message(self) -> str:
        if self.outcome in {"paused", "resumed"}:
            return f"{self.outcome} by you" + (", every agent" if self.identity == _EVERYBODY else "")
        send = self.notes.send
        if send is None:
            return f"a reminder was {self.outcome}"
        if self.outcome == SendOutcome.SENT:
            return f"you were told by {harmless(send.channel)}"
        return (
            "a message to you is on its way"
            if self.outcome == "pending"
            else f"a message to you {harmless(told_of(send))}"
        )


def _for_a_person(text: str) -> str:
    """What reads files at `@name` is a harness; a person reads the sign as it is."""
    return text.replace(WIDE_AT, "@")


def _origin_of(event: WakeEvent) -> Origin:
    if is_signed(event):
        return Origin.WEBHOOK
    if event.is_reminder or is_our_pulse(event):
        return Origin.SCHEDULER
    if event.kind is EventKind.PRESENCE:
        return Origin.ATTENTION
    if event.kind is EventKind.ITEM:
        return Origin.INBOX
    return Origin.PERSON if event.from_human else Origin.GRAPH
