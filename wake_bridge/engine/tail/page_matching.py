"""Turns the entries of one page into what the ledger stores with the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

import structlog

from wake_bridge.domain.events import EventStatus, Fact, Message, MessageDetail, TaskDetail, WakeEvent
from wake_bridge.domain.facts import Past, derived_twin, facts_of
from wake_bridge.domain.matching import MatchContext, MatchingRules, is_placed, match, read_subscription
from wake_bridge.domain.messages import MESSAGE_LABEL, Unusable, message_from
from wake_bridge.domain.names import Epoch, Identity, Instant
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import (
    SUBSCRIPTION_LABEL,
)
from wake_bridge.domain.tasks import FINAL_STATES, Transition, typed_transition
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.tail.log_reader import GraphContents
from wake_bridge.ports.change_log import IDENTITY_LABELS, BrokenRow, IdentityRow, Json, LogEntry
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import CursorStore
from wake_bridge.ports.ledger_records import NewId, Quarantined, TaskState

_REPORTED_AT_MOST: Final = 10_000

JUST_NOW: Final = 60_000
"""Milliseconds for which mail, or the move of a task, is what its actor has just done."""


@dataclass(slots=True)
class PageResult:
    """What pages of the log yield. Grows page by page until it is written.

    `rerouted` are those whose subscriptions, or whose own node, are not what they were: they may be reached elsewhere,
    or again. These are only told, never written. `words` are those who have sent mail or brought a task to its end.
    """

    events: list[WakeEvent] = field(default_factory=list)
    tasks: dict[str, TaskState] = field(default_factory=dict)
    quarantined: list[Quarantined] = field(default_factory=list)
    rerouted: set[Identity] = field(default_factory=set)
    words: set[Identity] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PageContext:
    """What is known of a page besides its rows: its epoch, the wall time after which they were committed, and more.

    `rewritten` are the edges that the log had before, or of which nobody can tell whether it had.
    """

    epoch: Epoch
    rows_after: Instant
    with_audience: frozenset[str] = frozenset()
    typed_later: frozenset[str] = frozenset()
    rewritten: frozenset[str] = frozenset()


class PageMatcher:
    """Knows subscriptions and identities as the log tells of them, and matches facts against them.

    Args:
        ledger: asked for the last states of tasks and for subjects it has met.
        rules: the matching rules in force, read anew for every page.
    """

    def __init__(self, ledger: CursorStore, clock: Clock, new_id: NewId, rules: Callable[[], MatchingRules]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._rules = rules
        self._log = structlog.get_logger("tail")
        self._reported: set[str] = set()
        self._problems: dict[str, tuple[str, ...]] = {}
        self.book = SubscriptionBook(embedded=True)
        self.identities: dict[Identity, IdentityRow] = {}

    def load(self, contents: GraphContents) -> None:
        """Forget what was known, and take a graph's subscriptions and identities as they stand."""
        rules = self._rules()
        self.book = SubscriptionBook(
            embedded=contents.is_embedded,
            serve=rules.serve,
            has_target=lambda who: who in self._rules().targets,
            is_placed=lambda one: is_placed(one, self._rules()),
            unusable=rules.unusable,
            judged_by=self._rules,
        )
        self.identities = dict(contents.identities)
        for subscription_id, properties in contents.subscriptions:
            self._subscribe(subscription_id, properties)
        for signed in rules.signed:
            self.book.put(signed)
        routes = self.book.active_routes
        self._log.info("subscriptions_read", subscriptions=len(self.book.all()), active_routes=routes)
        if not routes:
            self._warn_of_silence()

    def match_page(
        self, entries: Sequence[LogEntry], broken: Iterable[BrokenRow], context: PageContext, unsaved: PageResult
    ) -> PageResult:
        """Read entries in log order; `unsaved` is what earlier pages yielded and the ledger does not hold yet."""
        # thousands of subscriptions are counted only where one of them may have changed
        routes_before = self.book.active_routes if any(map(_may_be_subscription, entries)) else 0
        result = PageResult()
        for row in broken:
            self._quarantine(result, Quarantined(row.log_id, row.entity_id, row.why))
        typed_here = {entry.entity_id for entry in entries if _is_valid_typed_row(entry)}
        known = self._known_tasks(entries, unsaved)
        met: set[tuple[Identity, str]] = set()
        moment = self._moment(context.epoch)
        for entry in entries:
            result.rerouted |= self._learn(entry)
            if entry.label in IDENTITY_LABELS:
                # a person who was added may speak within the same page
                moment = replace(moment, humans=self.humans())
            is_typed = entry.entity_id in typed_here or entry.entity_id in context.typed_later
            past = Past(
                seen_at=moment.now,
                rows_after=context.rows_after,
                previous_state=known[entry.entity_id].state if entry.entity_id in known else None,
                has_audience=entry.edge is not None and entry.edge.source in context.with_audience,
                is_typed=is_typed,
                is_rewrite=entry.edge is not None and entry.edge.id in context.rewritten,
            )
            facts = facts_of(entry, past) if entry.node is None or entry.label == MESSAGE_LABEL else ()
            if isinstance(facts, Unusable):
                self._quarantine(result, Quarantined(entry.log_id, entry.entity_id, facts.why))
                continue
            result.words |= {Identity(one.actor) for one in facts if one.actor and _is_word(one, moment)}
            for event in self._events(facts, entry, moment):
                if (event.identity, event.subject_key) not in met:
                    met.add((event.identity, event.subject_key))
                    result.events.append(event)
            state = _state_after(entry, facts, is_typed=is_typed)
            if state is not None and state != known.get(state.task_id):
                known[state.task_id] = result.tasks[state.task_id] = state
        if routes_before and not self.book.active_routes:
            self._warn_of_silence()
        # nobody watches the others
        result.words = {one for one in result.words if self.book.can_wake(one)}
        return result

    def match_recent_mail(
        self, mail: Sequence[LogEntry], with_audience: frozenset[str], epoch: Epoch
    ) -> list[WakeEvent]:
        """Events for mail sent shortly before an epoch began. What is read already is passed over without a record."""
        moment = self._moment(epoch)
        events: dict[tuple[Identity, str], WakeEvent] = {}
        for entry in mail:
            has_audience = entry.edge is not None and entry.edge.source in with_audience
            facts = facts_of(entry, Past(seen_at=moment.now, has_audience=has_audience))
            for fact in facts if not isinstance(facts, Unusable) else ():
                if fact.already_read:
                    continue
                for event in match(replace(fact, old_at_new_position=True), self.book, moment):
                    events.setdefault((event.identity, event.subject_key), event)
        return list(events.values())

    def match_now(self, fact: Fact, epoch: Epoch) -> list[WakeEvent]:
        """The open events of something that stands in no row."""
        return [one for one in match(fact, self.book, self._moment(epoch)) if one.status is EventStatus.OPEN]

    def humans(self) -> frozenset[str]:
        """The identities that are people."""
        return frozenset(row.id for row in self.identities.values() if row.account_type == "human")

    # -- subscriptions and identities ----------------------------------------------------------------------------

    def _learn(self, entry: LogEntry) -> set[Identity]:
        """Take in what the entry says of subscriptions and identities; answers for whom something is different now."""
        if entry.entity_type != "nodes":
            return set()
        identity = Identity(entry.entity_id)
        before = self.book.get(entry.entity_id), self.identities.get(identity)
        if entry.node is None:
            self.book.remove(entry.entity_id)
            self._problems.pop(entry.entity_id, None)
            self.identities.pop(identity, None)
        elif entry.label == SUBSCRIPTION_LABEL:
            self._subscribe(entry.entity_id, entry.node)
        elif entry.label in IDENTITY_LABELS:
            self.identities[identity] = IdentityRow.from_node(entry.entity_id, entry.node)
        after = self.book.get(entry.entity_id), self.identities.get(identity)
        if before == after:
            return set()
        subscribers = {one.identity for one in (before[0], after[0]) if one is not None}
        return subscribers if before[1] == after[1] else subscribers | {identity}

    def _subscribe(self, subscription_id: str, properties: Json) -> None:
        subscription = read_subscription(subscription_id, properties, self._rules())
        self.book.put(subscription)
        said = self._problems.get(subscription_id, ())
        self._problems[subscription_id] = wrong = (*subscription.remarks, *subscription.problems)
        if wrong and wrong != said and self.book.serves(subscription):
            about = {"subscription": subscription_id, "agent": subscription.identity, "problems": list(wrong)}
            if subscription.problems:
                self._log.warning("subscription_undeliverable", **about)
            else:
                self._log.warning("subscription_defaults_taken", **about)

    def _warn_of_silence(self) -> None:
        self._log.warning(
            "no_active_routes",
            subscriptions=len(self.book.all()),
            hint="no identity will be woken: add a route with `wake-bridge subscribe`; `wake-bridge list` shows what is wrong",
        )

    # -- facts ---------------------------------------------------------------------------------------------------

    def _moment(self, epoch: Epoch) -> MatchContext:
        return MatchContext(epoch, self._clock.now(), self._clock.wall(), self._new_id, self._rules(), self.humans())

    def _events(self, facts: tuple[Fact, ...], entry: LogEntry, moment: MatchContext) -> Iterable[WakeEvent]:
        for fact in facts:
            for event in match(fact, self.book, moment):
                if entry.entity_type != "task_state_changed" or not self._was_derived(event):
                    yield event

    def _was_derived(self, event: WakeEvent) -> bool:
        """Whether the move of a typed row has been announced already, derived from the node before the row came."""
        if not isinstance(event.detail, TaskDetail):
            return False
        return bool(self._ledger.known_subjects(event.identity, [derived_twin(event.detail)]))

    def _known_tasks(self, entries: Iterable[LogEntry], unsaved: PageResult) -> dict[str, TaskState]:
        ids = list(dict.fromkeys(entry.entity_id for entry in entries if entry.label == MESSAGE_LABEL))
        return {**(self._ledger.task_states(ids) if ids else {}), **unsaved.tasks}

    def _quarantine(self, result: PageResult, row: Quarantined) -> None:
        result.quarantined.append(row)
        if row.entity_id in self._reported:
            return
        if len(self._reported) >= _REPORTED_AT_MOST:
            self._reported.clear()
        self._reported.add(row.entity_id)
        self._log.warning("row_quarantined", log_id=row.log_id, entity=row.entity_id[:200], reason=row.why)


def state_of(task_id: str, properties: Json) -> TaskState | None:
    """A task as its node says it stands; None if it is none."""
    message = message_from(task_id, properties)
    if not isinstance(message, Message) or message.task is None:
        return None
    return TaskState(message.id, message.task.state, message.task.assignee, message.last_modified_at)


def states_of(tasks: Iterable[tuple[str, Mapping[str, object]]]) -> list[TaskState]:
    """The states of all tasks of a census."""
    return [state for task_id, properties in tasks if (state := state_of(task_id, properties)) is not None]


def _is_word(fact: Fact, moment: MatchContext) -> bool:
    """Whether its actor has just said that something is done: not where an old row is written anew, as when mail is read."""
    if fact.occurred_at is None or abs(moment.wall - fact.occurred_at) > JUST_NOW:
        return False
    return isinstance(fact.detail, MessageDetail) or (
        isinstance(fact.detail, TaskDetail) and fact.detail.new_state in FINAL_STATES
    )


def _may_be_subscription(entry: LogEntry) -> bool:
    return entry.entity_type == "nodes" and (entry.node is None or entry.label == SUBSCRIPTION_LABEL)


def _is_valid_typed_row(entry: LogEntry) -> bool:
    if entry.entity_type != "task_state_changed":
        return False
    return isinstance(typed_transition(entry.entity_id, entry.event_id, entry.payload), Transition)


def _state_after(entry: LogEntry, facts: tuple[Fact, ...], *, is_typed: bool) -> TaskState | None:
    """What the ledger should remember of the entry's task: the typed row's state where there is one, else the node's."""
    if entry.entity_type == "task_state_changed" and facts and isinstance(facts[0].detail, TaskDetail):
        detail = facts[0].detail
        return TaskState(detail.task_id, detail.new_state, detail.assignee, detail.last_modified_at)
    if entry.label != MESSAGE_LABEL or entry.node is None or is_typed:
        return None
    return state_of(entry.entity_id, entry.node)
