"""Continues where upstream's daemon stopped: from its cursor, and with mail that it read but did not announce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.facts import Past, facts_of
from wake_bridge.domain.matching import MatchContext, MatchingRules, match, read_subscription
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import Epoch, EventKind, Identity, LogId
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.tail.checkpoint import CursorLoss, start_after
from wake_bridge.engine.tail.log_reader import LogReader, audiences_of, pages_after
from wake_bridge.engine.tail.page_matching import states_of
from wake_bridge.ports.change_log import ChangeLog
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """What an upstream daemon left behind.

    `woken_upto` is the last log id each subscription was woken for, `messages` those each identity was told of.
    """

    cursor: LogId | None = None
    woken_upto: Mapping[str, LogId] = field(default_factory=dict)
    messages: Mapping[Identity, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdoptedCursor:
    """Where the tail will start and why, and how many messages upstream had read but not announced."""

    cursor: LogId
    reason: str
    unannounced: int


def adopt_upstream(
    log: ChangeLog, ledger: Ledger, upstream_state: UpstreamState, rules: MatchingRules, clock: Clock, new_id: NewId
) -> AdoptedCursor:
    """Put an upstream daemon's place into the ledger, as a new epoch.

    Upstream moves its cursor before it delivers: mail between a subscription's last wake and the cursor was read and
    never announced. It becomes open events, unless it is older than the look-back. Without a usable cursor the tail
    starts at the tip.

    Raises:
        SourceError: the graph cannot be read.
        LedgerError: the ledger cannot be written.
    """
    wall = clock.wall()
    beginning = LogReader(log).beginning()
    known = ledger.position()
    loss = CursorLoss("taken over from an upstream daemon", is_loss=False, going_on_from=upstream_state.cursor)
    start = start_after(loss, beginning, known.epoch if known else Epoch(0), wall)
    book = SubscriptionBook(embedded=beginning.contents.is_embedded, serve=rules.serve)
    for subscription_id, properties in beginning.contents.subscriptions:
        book.put(read_subscription(subscription_id, properties, rules))
    humans = frozenset(row.id for row in beginning.contents.identities.values() if row.account_type == "human")
    moment = MatchContext(start.position.epoch, clock.now(), wall, new_id, rules, humans)
    for identity, message_ids in upstream_state.messages.items():
        ledger.announce(identity, message_ids, "upstream", clock.now())
    unannounced = list(_unannounced(log, start.position.cursor, upstream_state.woken_upto, book, moment))
    new = ledger.begin_epoch(
        start.position, states_of(beginning.census.tasks), start.loss.reason, clock.now(), unannounced
    )
    opened = sum(event.status is EventStatus.OPEN for event in new)
    return AdoptedCursor(start.position.cursor, start.loss.reason, opened)


def _unannounced(
    log: ChangeLog, upto: LogId, woken_upto: Mapping[str, LogId], book: SubscriptionBook, moment: MatchContext
) -> Iterator[WakeEvent]:
    """Open events for mail up to the cursor that lies beyond its subscription's last wake."""
    first = min((woken_upto.get(subscription.id, LogId(0)) for subscription in book.all()), default=upto)
    for page in pages_after(log, first):
        with_audience = audiences_of(log, page.entries)
        for entry in page.entries:
            if entry.log_id > upto:
                return
            has_audience = entry.edge is not None and entry.edge.source in with_audience
            facts = facts_of(entry, Past(seen_at=moment.now, has_audience=has_audience))
            for fact in () if isinstance(facts, Unusable) else facts:
                if fact.kind is not EventKind.MESSAGE:
                    continue
                for event in match(replace(fact, old_at_new_position=True), book, moment):
                    is_beyond = event.log_id > woken_upto.get(event.subscription_id, 0)
                    if is_beyond and event.status is EventStatus.OPEN:
                        yield event
