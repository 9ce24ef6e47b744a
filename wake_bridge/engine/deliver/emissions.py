"""Wakes that are posted: what a receiver did not take is sent again as it was, until it takes it or another route does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Hold, Outcome, Progress, Proof, progress_of
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.names import Instant
from wake_bridge.domain.receivers import ReceiverAnswer, ReceiverStanding, after_failure
from wake_bridge.domain.routing import Inject, Route, Start, Steer
from wake_bridge.engine.deliver.relevance import news_of
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_states import RouteStates
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import NotTaken, Nowhere, Place
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger


class Receivers:
    """How each receiver stands, and what becomes of the emissions that it did not take.

    An emission stays locked as it is: the same body, the same eventId. Only where nothing of it can have arrived, or
    another route takes it over, its events are free again.
    """

    def __init__(
        self,
        ledger: Ledger,
        routes: Routes,
        current: Current,
        clock: Clock,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._ledger = ledger
        self._routes = routes
        self._current = current
        self._clock = clock
        self._jitter = jitter
        self._log = structlog.get_logger("deliver")

    def took_it(self, route: Route) -> None:
        """A receiver took a wake: what failed before is forgotten, and what waits for it goes out."""
        receiver = route.address.receiver
        if receiver is None or not self._ledger.forget_receiver(receiver.subscription_id):
            return
        self._log.info("receiver_restored", agent=route.address.identity, subscription=receiver.subscription_id)
        self._ledger.look_at_once(route.address.identity, self._clock.now())

    def not_taken(self, route: Route, delivery: Delivery, said: NotTaken) -> Delivery:
        """Write down what a receiver said to a LOCKED emission; answers where that stands then."""
        now, standing = self._clock.now(), self._note(route, said)
        why = Hold(HoldReason.ADAPTER_FAILED, said.reason, delivery.where, standing.next_try_at, Cause.RECEIVER_FAILED)
        if said.answer is ReceiverAnswer.REJECTED and not standing.is_shut:
            identity = route.address.identity
            if self._routes.may_fall_back(route) and not self._routes.is_only_posted(identity):
                return self._free(route, delivery, replace(why, next_look_at=self._relook()))
            evidence = {"reason": f"{delivery.where} refused it: {said.reason}"}
            return self._ledger.settle(delivery, Outcome.FAILED, Proof.NONE, evidence, now)
        if not standing.is_shut:
            return self._keep(delivery, why)
        shut = self._routes.shut(route) or why
        if self._progress(delivery) is Progress.UNTOUCHED:
            return self._free(route, delivery, self._until_next_try(shut))
        # whether the next route can take it now is looked at before it is given away
        return self._keep(delivery, replace(shut, next_look_at=now) if self._routes.may_fall_back(route) else shut)

    def _note(self, route: Route, said: NotTaken) -> ReceiverStanding:
        receiver, now = route.address.receiver, self._clock.now()
        if receiver is None:
            raise AssertionError("only receivers answer so")
        before = self._routes.standing_of(receiver)
        known = before or ReceiverStanding(receiver.subscription_id, receiver.as_of)
        after = after_failure(known, said.answer, said.reason, now, jitter=self._jitter(), wish=said.wish)
        self._ledger.note_receiver(after)
        event = "receiver_failed"
        if after.degraded_at is not None and known.degraded_at is None:
            event = "receiver_degraded"
        elif after.suspended_at is not None and known.suspended_at is None:
            event = "receiver_suspended"
        self._log.warning(
            event,
            agent=route.address.identity,
            subscription=receiver.subscription_id,
            where=receiver.shown,
            reason=said.reason,
            failures=after.failures,
        )
        return after

    def keep(self, delivery: Delivery, hold: Hold) -> Delivery:
        """Leave a LOCKED emission as it is until the hold is looked at again."""
        return self._keep(delivery, hold)

    def free(self, route: Route | None, delivery: Delivery, hold: Hold) -> Delivery:
        """Let a LOCKED emission's events go another way, at once."""
        return self._free(route, delivery, replace(hold, next_look_at=self._clock.now()))

    def _keep(self, delivery: Delivery, hold: Hold) -> Delivery:
        now, hold = self._clock.now(), self._until_next_try(hold)
        return self._ledger.renew(delivery, Instant(hold.next_look_at + self._current.settings.lease_ms), hold, now)

    def _free(self, route: Route | None, delivery: Delivery, hold: Hold) -> Delivery:
        now = self._clock.now()
        return self._ledger.release(
            delivery, hold, now, is_attempt=False, idempotent=route is None or route.capabilities.idempotent
        )

    def _until_next_try(self, hold: Hold) -> Hold:
        # a degraded one is tried by nobody: somebody's word ends it
        return hold if hold.next_look_at else replace(hold, next_look_at=self._relook())

    def _relook(self) -> Instant:
        return Instant(self._clock.now() + self._current.settings.relook_max_ms)

    def _progress(self, delivery: Delivery) -> Progress:
        return progress_of(entry.step for entry in self._ledger.journal_of(delivery.id))


class Emissions:
    """Takes up an emission that is LOCKED: one to be sent again, or one that a stop has left behind."""

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        routes: Routes,
        watch: Watch,
        receivers: Receivers,
        switchboard: SwitchReader,
        current: Current,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._queries = queries
        self._routes = routes
        self._watch = watch
        self._receivers = receivers
        self._switchboard = switchboard
        self._current = current
        self._clock = clock

    async def ready(self, delivery: Delivery) -> tuple[Route, Place] | Delivery:
        """Where it is to be sent again now; or where it stands, if it is not. Raises `SourceError`."""
        now, settings = self._clock.now(), self._current.settings
        until = Instant(now + settings.lease_ms)
        delivery = self._ledger.renew(delivery, until, delivery.hold, now)
        if progress_of(one.step for one in self._ledger.journal_of(delivery.id)) is Progress.SUBMITTED:
            seen = {"proof": "seen before the stop"}
            return self._ledger.settle(delivery, Outcome.SUBMITTED, Proof.SUBMITTED, seen, now)
        off = self._switchboard.off(delivery.identity)
        if off is not None:
            return self._receivers.keep(delivery, replace(off, where=delivery.where))
        news = await news_of(self._queries, self._ledger, delivery.id, delivery.identity)
        if not news.candidates:
            for event, status, why in news.judged.closed:
                self._ledger.mark([event.id], status, why, now)
            return self._ledger.settle(
                delivery, Outcome.READ if news.judged.any_read else Outcome.EMPTY, Proof.NONE, {}, now
            )
        route = self._routes.locked_for(delivery)
        if route is None:
            gone = Hold(HoldReason.NO_ADAPTER, "its subscription has no receiver any more", delivery.where)
            return self._receivers.free(None, delivery, gone)
        shut = self._routes.shut(route)
        if shut is not None and await self._another_serves(route):
            return self._receivers.free(route, delivery, shut)
        waits = self._waits(route, delivery)
        if waits is not None:
            return self._receivers.keep(delivery, waits)
        place = await self._watch.locate(route)
        return self._receivers.keep(delivery, place.hold) if isinstance(place, Nowhere) else (route, place)

    def _waits(self, route: Route, delivery: Delivery) -> Hold | None:
        """Why it is not sent again now; None where it is."""
        now, settings = self._clock.now(), self._current.settings
        shut = self._routes.shut(route)
        if shut is not None and (not shut.next_look_at or shut.next_look_at > now):
            if not self._routes.may_fall_back(route):
                return shut
            look_at = min(shut.next_look_at or now + settings.lease_ms, now + settings.relook_max_ms)
            return replace(shut, next_look_at=Instant(look_at))
        receiver = route.address.receiver
        standing = self._routes.standing_of(receiver) if receiver is not None else None
        if standing is None or standing.next_try_at <= now or delivery.hold is None:
            return None
        # who looks at everything at once must not hurry a receiver
        return replace(delivery.hold, next_look_at=standing.next_try_at)

    async def _another_serves(self, route: Route) -> bool:
        """Whether the next route would take it this very moment."""
        if not self._routes.may_fall_back(route):
            return False
        others = RouteStates(route.address.identity, self._routes, self._watch, self._current, self._clock)
        return isinstance((await others.look_until_decided()).decision, Start | Steer | Inject)

    def stays_for(self, delivery: Delivery, away: SourceError) -> Delivery:
        """The graph cannot be asked whether it is still news."""
        return self._receivers.keep(delivery, Hold(HoldReason.GRAPH_AWAY, str(away), delivery.where))
