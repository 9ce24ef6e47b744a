"""Wakes that are posted: a wake that a receiver did not take is sent again unchanged, until it or another route takes it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Hold, Outcome, Progress, Proof, Step, progress_in
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import EPOCH_START, Instant
from wake_bridge.domain.receivers import GIVEN_UP, SUSPENDED, ReceiverAnswer, ReceiverStanding, after_failure
from wake_bridge.domain.routing import Inject, Route, Start, Steer
from wake_bridge.engine.deliver.relevance import news_of
from wake_bridge.engine.deliver.settle import settle_and_log
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

    def __init__(self, ledger: Ledger, routes: Routes, current: Current, clock: Clock) -> None:
        self._ledger = ledger
        self._routes = routes
        self._current = current
        self._clock = clock
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
        if said.answer is ReceiverAnswer.REJECTED:
            return self._rejected(route, delivery, said)
        now, standing = self._clock.now(), self._note(route, said)
        why = Hold(HoldReason.ADAPTER_FAILED, said.reason, delivery.where, standing.next_try_at, Cause.RECEIVER_FAILED)
        if not standing.is_shut:
            return self._keep(delivery, why)
        shut = self._routes.shut(route) or why
        if progress_in(self._ledger.journal_of(delivery.id)) is Progress.UNTOUCHED:
            return self._free(route, delivery, self._until_next_try(shut))
        # whether the next route can take it now is looked at before it is given away
        is_offered = self._routes.may_fall_back(route) or standing.degraded_at is not None
        return self._keep(delivery, replace(shut, next_look_at=now) if is_offered else shut)

    def _rejected(self, route: Route, delivery: Delivery, said: NotTaken) -> Delivery:
        """The receiver refused this very emission: the next route takes it, else it is sent again, ever more rarely.

        It stays apart from what comes after it, and only its first try counts against the receiver: what is refused for
        itself must not keep others back.
        """
        tries = self._tries_of(delivery)
        if len(tries) == 1:
            self._note(route, said)
        why = Hold(HoldReason.ADAPTER_FAILED, said.reason, delivery.where, EPOCH_START, Cause.RECEIVER_REJECTED)
        events = self._ledger.events(self._ledger.event_ids_of(delivery.id)[:1])
        has_agent = self._routes.may_fall_back(route) and not self._routes.is_only_posted(route.address.identity)
        if has_agent or self._routes.receivers_after(route, events):
            return self.pass_on(route, delivery, why)
        now = self._clock.now()
        if now - tries[0] >= GIVEN_UP:
            evidence = {"reason": f"{delivery.where} refused it: {said.reason}"}
            return settle_and_log(self._ledger, self._log, delivery, Outcome.FAILED, Proof.NONE, evidence, now)
        return self.keep(delivery, replace(why, next_look_at=self.rejected_until(delivery)))

    def rejected_until(self, delivery: Delivery) -> Instant:
        """When an emission that its receiver refused is sent again."""
        tries = self._tries_of(delivery)
        return Instant(min(tries[-1], self._clock.now()) + SUSPENDED[min(len(tries), len(SUSPENDED)) - 1])

    def _tries_of(self, delivery: Delivery) -> list[Instant]:
        """When the emission was sent, each time."""
        tries: list[Instant] = []
        for entry in self._ledger.journal_of(delivery.id):
            if entry.step is Step.RELEASED:
                tries.clear()
            elif entry.step is Step.INTENT_SUBMIT:
                tries.append(entry.at)
        return tries

    def _note(self, route: Route, said: NotTaken) -> ReceiverStanding:
        receiver, now = route.address.receiver, self._clock.now()
        if receiver is None:
            raise AssertionError("only receivers answer so")
        before = self._routes.standing_of(receiver)
        known = before or ReceiverStanding(receiver.subscription_id, receiver.as_of)
        spread = random.random()  # noqa: S311 - no secret
        after = after_failure(known, said.answer, said.reason, now, jitter=spread, wish=said.wish)
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

    def let_go(self, delivery: Delivery, hold: Hold) -> Delivery:
        """Let a LOCKED emission's events go another way at once: its receiver is there no longer."""
        return self._free(None, delivery, replace(hold, next_look_at=self._clock.now()))

    def pass_on(self, route: Route, delivery: Delivery, hold: Hold) -> Delivery:
        """Leave a LOCKED emission's events to the next route, at once and for good.

        The receiver may have them: sent again, they would come in another emission, under another eventId.
        """
        return self._free(route, delivery, replace(hold, next_look_at=self._clock.now()), is_for_good=True)

    def _keep(self, delivery: Delivery, hold: Hold) -> Delivery:
        now, hold = self._clock.now(), self._until_next_try(hold)
        return self._ledger.renew(delivery, Instant(hold.next_look_at + self._current.settings.lease_ms), hold, now)

    def _free(self, route: Route | None, delivery: Delivery, hold: Hold, *, is_for_good: bool = False) -> Delivery:
        now, receiver = self._clock.now(), route.address.receiver if route is not None else None
        return self._ledger.release(
            delivery,
            hold,
            now,
            is_attempt=False,
            idempotent=route is None or route.capabilities.idempotent,
            passed_by=receiver.subscription_id if is_for_good and receiver is not None else "",
        )

    def _until_next_try(self, hold: Hold) -> Hold:
        # a degraded one is tried by nobody: somebody's word ends it
        return hold if hold.next_look_at else replace(hold, next_look_at=self._relook())

    def _relook(self) -> Instant:
        return Instant(self._clock.now() + self._current.settings.relook_max_ms)


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
        self._log = structlog.get_logger("deliver")

    async def ready(self, delivery: Delivery) -> tuple[Route, Place] | Delivery:
        """Where it is to be sent again now; or where it stands, if it is not. Raises `SourceError`."""
        now, settings = self._clock.now(), self._current.settings
        until = Instant(now + settings.lease_ms)
        delivery = self._ledger.renew(delivery, until, delivery.hold, now)
        if progress_in(self._ledger.journal_of(delivery.id)) is Progress.SUBMITTED:
            seen = {"proof": "seen before the stop"}
            return settle_and_log(self._ledger, self._log, delivery, Outcome.SUBMITTED, Proof.SUBMITTED, seen, now)
        off = self._switchboard.off(delivery.identity)
        if off is not None:
            return self._receivers.keep(delivery, replace(off, where=delivery.where))
        news = await news_of(self._queries, self._ledger, delivery.id, delivery.identity)
        if not news.candidates:
            news.judged.write_ends(self._ledger, now)
            outcome = Outcome.READ if news.judged.any_read else Outcome.EMPTY
            return settle_and_log(self._ledger, self._log, delivery, outcome, Proof.NONE, {}, now)
        route = self._routes.locked_for(delivery)
        if route is None:
            gone = Hold(HoldReason.NO_ADAPTER, "its subscription no longer has a receiver", delivery.where)
            return self._receivers.let_go(delivery, gone)
        shut = self._routes.shut(route)
        if shut is not None and await self._another_serves(route, news.candidates):
            return self._receivers.pass_on(route, delivery, shut)
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
        if delivery.hold is not None and delivery.hold.cause is Cause.RECEIVER_REJECTED:
            again_at = self._receivers.rejected_until(delivery)
            return replace(delivery.hold, next_look_at=again_at) if again_at > now else None
        receiver = route.address.receiver
        standing = self._routes.standing_of(receiver) if receiver is not None else None
        if standing is None or standing.next_try_at <= now or delivery.hold is None:
            return None
        # who looks at everything at once must not hurry a receiver
        return replace(delivery.hold, next_look_at=standing.next_try_at)

    async def _another_serves(self, route: Route, events: Sequence[WakeEvent]) -> bool:
        """Whether the next route would take it this very moment."""
        others = RouteStates(
            route.address.identity,
            self._routes,
            self._watch,
            self._current,
            self._clock,
            receivers=self._routes.receivers_after(route, events),
        )
        return isinstance((await others.look_until_decided()).decision, Start | Steer | Inject)

    def stays_for(self, delivery: Delivery, away: SourceError) -> Delivery:
        """The graph cannot be asked whether it is still news."""
        return self._receivers.keep(delivery, Hold(HoldReason.GRAPH_AWAY, str(away), delivery.where))
