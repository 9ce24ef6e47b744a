"""What log and graph say now about the subject of `why`, and the answer of each subscription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.events import (
    EventStatus,
    Fact,
    ItemDetail,
    Message,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.explanation import SubscriptionAnswer
from wake_bridge.domain.facts import MAIL_EDGES, PERMISSIONS, PULSE_PREFIX, Past, facts_of
from wake_bridge.domain.matching import MatchContext, MatchingRules, match, read_subscription
from wake_bridge.domain.messages import MESSAGE_LABEL, Unusable, message_from
from wake_bridge.domain.names import EPOCH_START, Epoch, Identity, Instant, LogId, parse_instant
from wake_bridge.domain.reasons import Refusal, unheard_by
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.change_log import BrokenRow, ChangeLog, IdentityRow, LogBounds, LogEntry, Traces

FIRST_TASK_STATE: Final = "Submitted"
NO_ROWS: Final = LogBounds(LogId(0), LogId(0))


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing, by the id of its node or edge, and who listens in the graph it lies in.

    `row` is what the log has at the row that was asked for, `type:id`, empty if nothing was asked or found.
    `is_also_named` says that a node bears the very number that was read as a row. `trouble` is why the graph could not
    be read; everything else is empty then.
    """

    entity_id: str = ""
    row: str = ""
    is_also_named: bool = False
    traces: Traces = field(default_factory=Traces)
    bounds: LogBounds = NO_ROWS
    book: SubscriptionBook = field(default_factory=lambda: SubscriptionBook(embedded=True))
    identities: Mapping[Identity, IdentityRow] = field(default_factory=dict)
    has_audience: bool = False
    trouble: SourceError | None = None

    @property
    def is_there(self) -> bool:
        """Whether log or graph hold anything of it."""
        return bool(self.traces.entries or self.traces.broken or self.traces.properties is not None)

    @property
    def message(self) -> Message | None:
        """The MESSAGE it is, if it is one that can be read."""
        if self.traces.properties is None or self.traces.label != MESSAGE_LABEL:
            return None
        found = message_from(self.entity_id, self.traces.properties)
        return found if isinstance(found, Message) else None

    @property
    def subscription(self) -> Subscription | None:
        """The subscription it is, if it is one that can be read."""
        return next((one for one in self.book.all() if one.id == self.entity_id), None)

    def facts(self, now: Instant) -> list[Fact]:
        """The facts it tells, unread as they once were; of a task's moves the last, where the log has no typed rows."""
        told = [one for one in self._told(now) if not isinstance(one, Unusable)]
        return [replace(fact, already_read=False) for facts in told for fact in facts]

    def why_unusable(self, now: Instant) -> str:
        """What is wrong with it as it stands now, or with a row of it; empty where nothing is."""
        whys = [one.why for one in (*self._told(now), *self.traces.broken) if isinstance(one, Unusable | BrokenRow)]
        return whys[-1] if whys else ""

    def _told(self, now: Instant) -> list[Sequence[Fact] | Unusable]:
        is_typed = any(entry.entity_type == "task_state_changed" for entry in self.traces.entries)
        past = Past(seen_at=now, has_audience=self.has_audience, previous_state=FIRST_TASK_STATE, is_typed=is_typed)
        return [facts_of(entry, past) for entry in self._telling_entries()]

    def _telling_entries(self) -> Sequence[LogEntry]:
        """Every row but those of the node itself, of which the last alone shows how the node stands."""
        rows = [entry for entry in self.traces.entries if entry.entity_type != "nodes"]
        if self.traces.label != MESSAGE_LABEL:
            return rows
        own = [entry for entry in self.traces.entries if entry.entity_type == "nodes"]
        last = own[-1] if own else LogEntry(LogId(0), "nodes", self.entity_id)
        return [*rows, replace(last, label=self.traces.label, node=self.traces.properties)]


def read_subject(
    log: ChangeLog, asked: str, log_id: LogId | None, known: WakeEvent | None, rules: MatchingRules
) -> Subject:
    """Look at the graph; never raises: what is wrong with it is `Subject.trouble`.

    Args:
        log: the graph's log.
        asked: the id as it was asked.
        log_id: the same as a row of the log, None if it is no number.
        known: an event the ledger has of that row, which may be gone from the log.
        rules: the matching rules in force.
    """
    try:
        row = (log.fingerprint_at(log_id) or "") if log_id is not None else ""
        is_named = log_id is not None and log.node(asked) is not None
        entity_id = _subject_of(log, row, known, asked if log_id is None or (is_named and not row) else "")
        book = SubscriptionBook(embedded=log.is_embedded(), serve=rules.serve)
        for subscription_id, properties in log.subscriptions():
            book.put(read_subscription(subscription_id, properties, rules))
        return Subject(
            entity_id=entity_id,
            row=row,
            is_also_named=is_named,
            traces=log.traces_of(entity_id) if entity_id else Traces(),
            bounds=log.bounds(),
            book=book,
            identities=log.identities(),
            has_audience=bool(entity_id) and log.has_audience(entity_id),
        )
    except SourceError as trouble:
        return Subject(entity_id=entity_of(known) if known else asked, trouble=trouble)


def entity_of(event: WakeEvent) -> str:
    """The node or edge an event is about."""
    match event.detail:
        case MessageDetail(message_id=message_id):
            return message_id
        case TaskDetail(task_id=task_id):
            return task_id
        case PermissionDetail(edge_id=edge_id):
            return edge_id
        case PulseDetail(pulse_id=pulse_id):
            return f"{PULSE_PREFIX}{event.identity}:{pulse_id}"
        case PresenceDetail() | ItemDetail():
            return event.subject_key


def _subject_of(log: ChangeLog, row: str, known: WakeEvent | None, named: str) -> str:
    """The message, permission, pulse or other node that is asked about; empty if nothing is known of the row."""
    if named:
        return _mail_of(log, named)
    if row:
        return _mail_of(log, row.partition(":")[2])
    return entity_of(known) if known is not None else ""


def _mail_of(log: ChangeLog, entity_id: str) -> str:
    """The message that an edge addresses; anything else is its own subject."""
    edges = (entry.edge for entry in log.traces_of(entity_id).entries if entry.edge is not None)
    edge = next((one for one in edges if one.id == entity_id), None)
    return edge.source if edge is not None and edge.type in MAIL_EDGES - PERMISSIONS else entity_id


def happened_at(fact: Fact | None, event: WakeEvent | None) -> Instant:
    """When it happened, as far as anybody says so; 0 if nobody does."""
    for one in (fact, event):
        if one is not None and one.occurred_at is not None:
            return one.occurred_at
    return event.matched_at if event is not None else EPOCH_START


def subscription_answers(
    identity: Identity,
    book: SubscriptionBook,
    fact: Fact | None,
    event: WakeEvent | None,
    happened: Instant,
    rules: MatchingRules,
) -> list[SubscriptionAnswer]:
    """What each subscription said: as recorded, else as it would have said it when the thing happened.

    `rules` that know no age are asked: what was young enough then may be too old now, and that says nothing about then.
    """
    recorded = _recorded(event) if event is not None else {}
    present = {one.id: one for one in book.all() if one.identity == identity}
    said = [SubscriptionAnswer(one, present.get(one), refusal, is_recorded=True) for one, refusal in recorded.items()]
    if fact is not None:
        others = [one for one in present.values() if one.id not in recorded]
        said += [_would_say(one, book, fact, happened, rules) for one in others]
    return said


def _would_say(
    subscription: Subscription, book: SubscriptionBook, fact: Fact, happened: Instant, rules: MatchingRules
) -> SubscriptionAnswer:
    is_younger = 0 < happened < (parse_instant(subscription.created_at) or EPOCH_START)
    is_changed = 0 < happened < (parse_instant(subscription.updated_at) or EPOCH_START)
    deaf = unheard_by(subscription, fact, is_served=book.serves(subscription))
    refusal = None
    if deaf is None:
        alone = SubscriptionBook(embedded=True)
        alone.put(subscription)
        moment = MatchContext(Epoch(0), happened, happened, str, rules)
        told = match(replace(fact, recipients=(subscription.identity,)), alone, moment)
        refusal = Refusal(told[0].refused_by) if told and told[0].refused_by else None
    return SubscriptionAnswer(
        subscription.id, subscription, refusal, deaf, is_younger=is_younger, is_changed=is_changed
    )


def _recorded(event: WakeEvent) -> dict[str, Refusal | None]:
    """What the ledger has of each subscription's answer."""
    refused = {one: Refusal(word) for one, word in event.refusals if word in set(Refusal)}
    wanted = (
        () if event.status is EventStatus.REFUSED and refused else (event.subscription_id, *event.other_subscriptions)
    )
    return {**dict.fromkeys(one for one in wanted if one), **refused}
