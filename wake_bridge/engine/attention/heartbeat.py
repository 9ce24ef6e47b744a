"""The heartbeat: what is due for identities that nothing else wakes becomes a delivery like any other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

import structlog

from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.facts import Past, facts_of
from wake_bridge.domain.matching import MatchContext, MatchingRules, match
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import Identity, Instant, LogId, Trigger
from wake_bridge.domain.nudges import Beat, Driver, next_beat, pulse_for
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.deliver.relevance import unread_of
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import Nowhere
from wake_bridge.ports.change_log import LogEntry
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId, PageRecord

_NO_ROW: Final = LogId(0)


class WhoIsServed(Protocol):
    """What the heartbeat asks the tail."""

    def drivers(self, bound: Collection[Identity]) -> Mapping[Identity, Driver]:
        """Who drives everyone that is subscribed or among `bound`."""

    def subscriptions_of(self, identity: Identity) -> Collection[Subscription]:
        """The matching subscriptions of an identity."""

    def humans(self) -> frozenset[str]:
        """The identities that are people."""


class Heartbeat:
    """Nudges identities that nothing else serves.

    Contract: `tick` may be called at any time and any number of times, late or twice: what is due follows from the ledger
    and `now` alone. A nudge is an event and a delivery; this types nothing.

    Args:
        rules: the matching rules in force.
        poke: called when there is something to gather.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        routes: Routes,
        watch: Watch,
        tail: WhoIsServed,
        current: Current,
        clock: Clock,
        new_id: NewId,
        *,
        rules: Callable[[], MatchingRules],
        poke: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._queries = queries
        self._routes = routes
        self._watch = watch
        self._tail = tail
        self._current = current
        self._clock = clock
        self._new_id = new_id
        self._rules = rules
        self._poke = poke
        self._log = structlog.get_logger("heartbeat")

    async def tick(self, now: Instant) -> None:
        """Nudge everyone for whom it is due."""
        for identity in sorted(self._at_rest()):
            try:
                beat = await self._due(identity, now)
            except SourceError as away:
                # the tail says it louder; nobody can tell now what is unread
                self._log.debug("heartbeat_skipped", agent=identity, reason=str(away))
                return
            # while graph and panes were asked, another driver may have begun
            if beat is not None and identity in self._at_rest():
                self._nudge(identity, beat, now)

    def served(self) -> set[Identity]:
        """Whom nothing else wakes."""
        drivers = self._tail.drivers({*self._current.settings.targets, *self._ledger.bindings()})
        return {identity for identity, driver in drivers.items() if driver is Driver.HEARTBEAT}

    def _at_rest(self) -> set[Identity]:
        """Whom the heartbeat has to serve, but for those of whom a delivery is under way."""
        return self.served() - {one.identity for one in self._ledger.unsettled()}

    async def _due(self, identity: Identity, now: Instant) -> Beat | None:
        """The beat to remember if the identity is to be nudged now."""
        if not self._tail.subscriptions_of(identity):
            await self._store_mail(identity, now)
        unread, judged = await unread_of(self._queries, self._ledger, identity)
        judged.write_ends(self._ledger, now)
        if not unread.all:
            return None
        first_cooldown = self._current.settings.heartbeat_cooldown_ms
        beat = next_beat(
            self._ledger.beat(identity), has_news=bool(unread.news), first_cooldown=first_cooldown, now=now
        )
        return beat if beat is not None and await self._has_place(identity) else None

    async def _has_place(self, identity: Identity) -> bool:
        for route in self._routes.of(identity)[:1]:
            found = await self._watch.locate(route)
            if not isinstance(found, Nowhere):
                return True
            self._log.debug("heartbeat_skipped", agent=identity, reason=found.detail)
        return False

    def _nudge(self, identity: Identity, beat: Beat, now: Instant) -> None:
        position = self._ledger.position()
        if position is None:
            return
        self._ledger.advance(PageRecord(position, (pulse_for(identity, self._new_id(), position.epoch, now),)), now)
        self._ledger.note_beat(identity, beat)
        self._log.info("heartbeat_nudged", agent=identity, cooldown=beat.cooldown // 1000)
        self._poke()

    async def _store_mail(self, identity: Identity, now: Instant) -> None:
        """Take in the unread mail of somebody without a subscription, as if there were one left to the heartbeat."""
        position = self._ledger.position()
        if position is None:
            return
        rules = self._rules()
        since = Instant(self._clock.wall() - rules.catch_up)
        mail = await self._queries.unread_mail(identity, since)
        moment = MatchContext(position.epoch, now, self._clock.wall(), self._new_id, rules, self._tail.humans())
        book = SubscriptionBook(embedded=True)
        book.put(Subscription("", identity, Trigger.SENT_TO_ME, harness_target="none"))
        events: dict[str, WakeEvent] = {}
        for _, message, edge in mail:
            facts = facts_of(LogEntry(_NO_ROW, "edges", edge.id, edge=edge, message=message), Past(seen_at=now))
            for fact in () if isinstance(facts, Unusable) else facts:
                events |= {one.subject_key: one for one in match(fact, book, moment)}
        known = self._ledger.known_subjects(identity, list(events))
        new = tuple(event for key, event in events.items() if key not in known)
        if new:
            # no row of the log is passed by it: the cursor stays where it is
            self._ledger.advance(PageRecord(self._ledger.position() or position, new), now)
