"""Takes one due delivery through guards, place, presence, lock and attempt, or holds it with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import (
    Delivery,
    DeliveryState,
    Hold,
    Outcome,
    Proof,
)
from wake_bridge.domain.digest import answer_line, compose, history_line
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.guards import (
    LOOKED_AT_EVERY,
    Go,
    GuardVerdict,
    Limits,
    Nothing,
    OtherDriver,
    WakeCandidate,
    before_lock,
    limits_of_receiver,
)
from wake_bridge.domain.names import DAY, EPOCH_START, Identity, Instant, WakePolicy
from wake_bridge.domain.nudges import compose_nudge
from wake_bridge.domain.receivers import Receiver, is_receiver
from wake_bridge.domain.route_table import RouteVerdict
from wake_bridge.domain.routing import Inject, Observe, Route, Start, Steer
from wake_bridge.engine.deliver.attempt import AttemptRunner, LeaseRecovery
from wake_bridge.engine.deliver.emissions import Emissions
from wake_bridge.engine.deliver.leases import Leases, SoleDriver
from wake_bridge.engine.deliver.pushes import Pushes
from wake_bridge.engine.deliver.relevance import News, allowed_senders, bodies_of, news_of
from wake_bridge.engine.deliver.settle import settle_and_log
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.deliver.unknown_outcomes import Doubt, OutcomeTracer
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_recovery import RouteRecovery
from wake_bridge.engine.route_states import RouteStates
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import SENT_PER_MINUTE, Current
from wake_bridge.ports.adapter import Nowhere, Place
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Lock, NewId

OF_ONE_PLACE: Final = frozenset({HoldReason.REFRACTORY, HoldReason.STORM, HoldReason.BUDGET})
"""Holds by what is counted at one place; at another one there may be room."""

LOOKS_APART: Final = 50
"""Milliseconds between looks at held wakes on average: thousands that nothing has changed for must not take all the time."""

LOOKS_RECOUNTED_EVERY: Final = 60_000
"""Milliseconds after which those are no longer counted whose wake ended otherwise: by an answer, a person, another host."""

POSTS_APART: Final = 1_000
"""Milliseconds to the next look at a wake for a receiver that is being posted to."""


class Gate:
    """Takes one due delivery as far as it goes now.

    Args:
        other_driver: what else drives the same directory, None if nothing does.
        dry_run: decide and log, type nothing.
        new_id: makes the ids of emissions; None where nothing is posted.
        acted: what an identity's agent was told to have done since an instant; empty for nothing.
        seen: called when an agent was looked at, before its wake is sent: it may stand at a limit that nobody has noted yet.
        leases: whether this host drives an identity.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        routes: Routes,
        watch: Watch,
        recovery: RouteRecovery,
        current: Current,
        clock: Clock,
        *,
        other_driver: Callable[[], OtherDriver | None],
        dry_run: bool = False,
        new_id: NewId | None = None,
        acted: Callable[[Identity, Instant], str] = lambda *_: "",
        seen: Callable[[Identity], None] = lambda _: None,
        leases: Leases | None = None,
    ) -> None:
        self._leases = leases = leases if leases is not None else SoleDriver()
        self._new_id = new_id
        self._seen = seen
        self._ledger = ledger
        self._queries = queries
        self._routes = routes
        self._watch = watch
        self._current = current
        self._clock = clock
        self._dry_run = dry_run
        self.pushes = Pushes(ledger, queries, routes, watch, current, clock, acted)
        self._attempt = AttemptRunner(ledger, routes, recovery, self.pushes, current, clock, leases)
        self._switches = SwitchReader(ledger, current, clock, other_driver, leases.elsewhere)
        self._tracer = OutcomeTracer(ledger, routes, current, clock)
        self._lease_recovery = LeaseRecovery(
            ledger,
            routes,
            watch,
            self._attempt,
            self._switches,
            self._tracer,
            current,
            clock,
            leases,
            relook=self._relook,
        )
        self._emissions = Emissions(
            ledger, queries, routes, watch, self._attempt.receivers, self._switches, current, clock
        )
        self.parts_with: Callable[[Delivery], bool] = lambda _: False
        """Told of a LOCKED delivery that is about to be posted: whether what else is due need not wait for the answer."""
        self._parted: set[str] = set()
        self._look_counts: dict[str, int] = {}
        self._recounted_at = EPOCH_START
        self._given_back: dict[str, dict[str, Hold]] = {}
        # a lock is there for as long as somebody holds it or waits for it
        self._pane_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._log = structlog.get_logger("deliver")

    async def take(self, delivery: Delivery, *, patient: bool) -> Delivery:
        """Take a delivery on; answers where it stands then.

        Args:
            delivery: a PENDING one whose window closed, a held one, or a LOCKED one to be taken up again.
            patient: take the two looks that prove idle here and now, instead of coming back for the second.
        """
        with structlog.contextvars.bound_contextvars(delivery=delivery.id):
            if delivery.state is DeliveryState.PENDING:
                delivery = self._ledger.dispatch(delivery, self._clock.now())
            if delivery.awaits_ack:
                return delivery
            if delivery.state is DeliveryState.LOCKED:
                return self._leave_alone(delivery) if self._dry_run else await self._go_on(delivery)
            try:
                return await self._pass(delivery, patient=patient)
            except SourceError as away:
                return self._hold(delivery, Hold(HoldReason.GRAPH_AWAY, str(away), "", self._relook(delivery)))

    async def _go_on(self, delivery: Delivery) -> Delivery:
        """A LOCKED one: an emission is sent again as it was, a push is waited for, everything else goes on from its journal."""
        if not self._routes.is_sent_again(delivery):
            is_push = is_receiver(delivery.pane_key)
            return await (self._follow_push(delivery) if is_push else self._lease_recovery.take(delivery))
        try:
            ready = await self._emissions.ready(delivery)
        except SourceError as away:
            return self._emissions.stays_for(self._ledger.delivery(delivery.id) or delivery, away)
        if isinstance(ready, Delivery):
            return ready
        return await self._attempt.make(*ready, self._ledger.delivery(delivery.id) or delivery)

    async def _follow_push(self, delivery: Delivery) -> Delivery:
        try:
            return await self.pushes.take(delivery)
        except SourceError as away:
            return self._emissions.stays_for(delivery, away)

    async def _pass(self, delivery: Delivery, *, patient: bool) -> Delivery:
        """Through the gate; once more for each native route that gives the wake back with nothing sent."""
        now = self._clock.now()
        self._parted.discard(delivery.id)
        # not offered again at each look that another route needs
        refused = {one: why for one, why in self._given_back.get(delivery.id, {}).items() if why.next_look_at > now}
        while True:
            news = await news_of(self._queries, self._ledger, delivery.id, delivery.identity)
            news.judged.write_ends(self._ledger, self._clock.now())
            if not news.candidates:
                return self._settle_quietly(delivery, Outcome.READ if news.judged.any_read else Outcome.EMPTY)
            holds: list[Hold] = []
            for receivers, share in self._shares(news):
                tried, after = await self._offer(delivery, share, receivers, refused, patient=patient)
                if isinstance(after, Hold):
                    holds.append(after)
                    continue
                delivery = after
                if delivery.id in self._parted:
                    return self._come_back(delivery)
                given_back = delivery.hold if delivery.state is DeliveryState.DISPATCHED else None
                if tried is None or given_back is None or self._dry_run:
                    return delivery
                refused[tried.key] = given_back
                self._given_back[delivery.id] = refused
                break
            else:
                return self._hold(delivery, min(holds, key=lambda one: one.next_look_at))

    def _shares(self, news: News) -> list[tuple[tuple[Receiver, ...], News]]:
        """What the same receivers may be sent, and what the agent itself is told (none); what is due first comes first.

        A share in which nothing is reason enough for a wake waits for one that is.
        """
        shares: dict[tuple[Receiver, ...], list[WakeEvent]] = {}
        for one in news.candidates:
            shares.setdefault(() if news.pulses else self._routes.receivers_for(one), []).append(one)
        wakes = {one: [each for each in share if each.policy is WakePolicy.IMMEDIATE] for one, share in shares.items()}
        due = {one: min(each.due_at for each in waking) for one, waking in wakes.items() if waking}
        if len(shares) == 1 or not due:
            return [(next(iter(shares)), news)]
        return [
            (one, replace(news, candidates=tuple(shares[one]), due_at=due[one]))
            for one in sorted(due, key=due.__getitem__)
        ]

    async def _offer(
        self,
        delivery: Delivery,
        news: News,
        receivers: Sequence[Receiver],
        refused: Mapping[str, Hold],
        *,
        patient: bool,
    ) -> tuple[Route | None, Delivery | Hold]:
        """Offer a share to its routes; answers what holds it, or where the delivery stands, and the route that was tried."""
        route_states = RouteStates(
            delivery.identity,
            self._routes,
            self._watch,
            self._current,
            self._clock,
            refused=refused,
            patient=patient,
            receivers=receivers,
            retries=True,
        )
        if not route_states.all:
            missing = self._routes.missing(delivery.identity) or Hold(HoldReason.NO_ADAPTER)
            return None, replace(missing, next_look_at=self._relook(delivery))
        return await self._choose(delivery, news, route_states)

    async def _choose(
        self, delivery: Delivery, news: News, route_states: RouteStates
    ) -> tuple[Route | None, Delivery | Hold]:
        """Look along the routes, guards first, until the table decides; answers the route that was tried if it has another."""
        is_judged = False
        while isinstance((verdict := route_states.verdict()).decision, Observe):
            route = verdict.decision.route
            place = await route_states.locate(route)
            if isinstance(place, Nowhere):
                continue
            # identities that share a pane take turns, so that its limits are counted right
            turn = self._pane_locks.setdefault(place.key, asyncio.Lock())
            if turn.locked() and route.capabilities.has_own_limits:
                # one post to a receiver at a time; who waits for it keeps nobody else waiting
                soon = Instant(self._clock.now() + POSTS_APART)
                return None, Hold(HoldReason.BUSY_PANE, "a wake is on its way there", place.label, soon)
            async with turn:
                guarded = self._judge(delivery, news, place, route)
                if (
                    isinstance(guarded, Hold)
                    and guarded.reason in OF_ONE_PLACE
                    and route_states.has_receiver_but(route)
                ):
                    # a receiver has limits of its own
                    route_states.pass_over(route, guarded)
                    continue
                if not isinstance(guarded, Go):
                    return None, self._stopped(delivery, guarded)
                is_judged = True
                await route_states.look(route, place)
                decision = route_states.verdict().decision
                if isinstance(decision, Start | Steer | Inject):
                    return await self._send(decision, delivery, place, news)
        if not is_judged:
            guarded = self._judge(delivery, news)
            if not isinstance(guarded, Go):
                return None, self._stopped(delivery, guarded)
        return None, self._with_look(verdict, route_states, delivery)

    async def _send(
        self, how: Start | Steer | Inject, delivery: Delivery, place: Place, news: News
    ) -> tuple[Route | None, Delivery | Hold]:
        """Send it on a route that was just looked at; what the look showed may hold it after all."""
        route = how.route
        self._seen(delivery.identity)
        guarded = self._judge(delivery, news, place, route)
        if not isinstance(guarded, Go):
            return None, self._stopped(delivery, guarded)
        keys = [one.subject_key for one in guarded.events]
        if not self._dry_run and (driver := await self._leases.take(delivery.identity, keys)) is not None:
            look_at = self._relook(delivery)
            return None, Hold(driver.cause.reason, driver.told, place.label, look_at, driver.cause)
        if route.capabilities.has_own_limits:
            return route, await self._attempt_at(how, delivery, place, guarded.events, news)
        is_at_rest = not isinstance(how, Steer)
        events, doubt = await self._tracer.unseen_of(guarded.events, route, place, is_at_rest=is_at_rest)
        if all(one.policy is not WakePolicy.IMMEDIATE for one in events):
            return None, self._not_again(delivery, doubt)
        after = await self._attempt_at(how, delivery, place, events, news)
        return route if self._routes.may_fall_back(route) else None, after

    def _come_back(self, delivery: Delivery) -> Delivery:
        """A post has come back, and its identity's lane has gone on: what it leaves to the next route is looked at anew."""
        self._parted.discard(delivery.id)
        if delivery.state is DeliveryState.DISPATCHED:
            self._ledger.look_at_once(delivery.identity, self._clock.now())
        return delivery

    def _not_again(self, delivery: Delivery, doubt: Doubt | None) -> Delivery | Hold:
        """All that it would tell was told before, and may have arrived, or is seen to have."""
        if doubt is None:
            return self._settle_quietly(delivery, Outcome.EMPTY)
        why = f"it may have been sent; wake-bridge looks for it ({doubt.told})"
        return Hold(HoldReason.UNKNOWN, why, doubt.where, self._relook(delivery), Cause.MAYBE_SENT)

    def _stopped(self, delivery: Delivery, guarded: Hold | Nothing) -> Delivery | Hold:
        if isinstance(guarded, Nothing):
            return self._settle_quietly(delivery, guarded.outcome)
        # the instant at which it ends was reckoned by a clock that may be set, and by a day that may have 23 hours
        look_at = min(guarded.next_look_at, self._clock.now() + LOOKED_AT_EVERY)
        return replace(guarded, next_look_at=Instant(look_at))

    def _judge(
        self, delivery: Delivery, news: News, place: Place | None = None, route: Route | None = None
    ) -> GuardVerdict:
        now = self._clock.now()
        row = news.judged.identities.get(delivery.identity)
        switches = self._switches.of(delivery.identity, row.participation if row else "active")
        return before_lock(
            WakeCandidate(
                identity=delivery.identity,
                events=news.candidates,
                due_at=news.due_at or delivery.due_at,
                pane_key=place.key if place is not None else "",
                where=place.label if place is not None else "",
                lifted_at=self._ledger.limits_lifted_at(delivery.identity),
            ),
            self._limits_on(route),
            self._ledger.past_wakes(Instant(now - DAY)),
            # a receiver is a program of its own, with an account of its own
            replace(switches, limit=None) if route is not None and route.capabilities.has_own_limits else switches,
            now,
            self._switches.local_minutes(),
        )

    def _limits_on(self, route: Route | None) -> Limits:
        settings = self._current.settings
        if route is None or not route.capabilities.has_own_limits:
            return settings.limits
        return limits_of_receiver(settings.limits, settings.sent_per_minute.get(route.adapter, SENT_PER_MINUTE))

    async def _attempt_at(
        self, how: Start | Steer | Inject, delivery: Delivery, place: Place, events: tuple[WakeEvent, ...], news: News
    ) -> Delivery:
        """Lock the delivery and make one attempt on the route that was decided."""
        settings, route = self._current.settings, how.route
        passed_on = () if news.pulses else self._ledger.passed_on(delivery.identity, EPOCH_START, is_untold=True)
        history = history_line(passed_on, delivery.identity, self._clock.now(), news.judged.identities.keys())
        text = await self._text(delivery, place, events, news, history)
        is_told = history and history in text
        if place.paper.takes_envelopes and route.address.receiver is not None:
            text = await self._envelope(delivery, route.address.receiver, events, text)
        now = self._clock.now()
        if self._dry_run:
            self._log.info("would_deliver", agent=delivery.identity, pane=place.label, lines=text.splitlines())
            return self._hold(delivery, Hold(HoldReason.DRY_RUN, "", place.label, Instant(now + DAY)))
        locked = self._ledger.lock(
            delivery,
            Lock(
                digest=text,
                events=news.locked(events),
                adapter=route.adapter,
                where=place.label,
                pane_key=place.key,
                fence=place.fence,
                until=Instant(now + settings.lease_ms),
                history=[one.id for one, _ in passed_on] if is_told else (),
            ),
            now,
        )
        self._look_counts.pop(delivery.id, None)
        self._log.info(
            "delivery_locked", agent=delivery.identity, adapter=route.adapter, pane=place.label, events=len(events)
        )
        if route.capabilities.has_own_limits and self.parts_with(locked):
            self._parted.add(locked.id)
        turn_id = how.turn_id if isinstance(how, Steer) else ""
        after = await self._attempt.make(route, place, locked, turn_id=turn_id)
        is_looked_at_on = route.capabilities.needs_sign or (
            after.state is DeliveryState.DISPATCHED and route.capabilities.composer_independent
        )
        if not is_looked_at_on:
            # where a channel gave it back nothing moved: what was seen still stands
            self._watch.forget(delivery.identity)
            self._given_back.pop(delivery.id, None)
        return after

    async def _text(
        self, delivery: Delivery, place: Place, events: tuple[WakeEvent, ...], news: News, history: str
    ) -> str:
        """The digest; of a nudge its one line."""
        style = self._current.settings.digest
        allowed = allowed_senders(self._current, delivery.identity)
        known = () if place.paper.at_reads_files else news.judged.identities.keys()
        if news.pulses:
            return compose_nudge(
                news.unread(events),
                identity=delivery.identity,
                delivery_id=delivery.id,
                known=known,
                style=style,
                target_characters=place.paper.max_characters,
            )
        return compose(
            events,
            identity=delivery.identity,
            delivery_id=delivery.id,
            now=self._clock.now(),
            known=known,
            style=style,
            target_lines=place.paper.max_lines,
            target_characters=place.paper.max_characters,
            answer=answer_line(delivery),
            history=history,
            bodies=await bodies_of(self._queries, events, allowed),
            allow_from=allowed,
        )

    async def _envelope(self, delivery: Delivery, receiver: Receiver, events: tuple[WakeEvent, ...], text: str) -> str:
        """What is posted: frozen with the delivery, so that every try sends the same bytes."""
        # pydantic and the models are 11 MB, and most daemons post nothing
        from wake_bridge.engine.deliver.envelopes import envelope_of  # noqa: PLC0415
        from wake_bridge.schemas.envelope import written  # noqa: PLC0415

        allowed = allowed_senders(self._current, delivery.identity)
        envelope = await envelope_of(
            self._queries,
            events,
            identity=delivery.identity,
            event_id=self._new_id() if self._new_id is not None else delivery.id,
            # what no subscription asked for, such as an item, is for the host where its agent lives
            subscription_id=(receiver.host and events[0].subscription_id) or receiver.subscription_id,
            text=text,
            now=self._clock.wall(),
            bodies=await bodies_of(self._queries, events, allowed),
            to_host=bool(receiver.host),
        )
        return written(envelope)

    def _leave_alone(self, delivery: Delivery) -> Delivery:
        """A dry run goes on with nothing that another run has begun."""
        now = self._clock.now()
        tomorrow = Instant(now + DAY)
        return self._ledger.renew(delivery, tomorrow, Hold(HoldReason.DRY_RUN, "", delivery.where, tomorrow), now)

    # -- what is written down ------------------------------------------------------------------------------------

    def _settle_quietly(self, delivery: Delivery, outcome: Outcome) -> Delivery:
        self._look_counts.pop(delivery.id, None)
        self._given_back.pop(delivery.id, None)
        return settle_and_log(self._ledger, self._log, delivery, outcome, Proof.NONE, {}, self._clock.now())

    def _hold(self, delivery: Delivery, hold: Hold) -> Delivery:
        before = delivery.hold
        if before is None or before.reason is not hold.reason:
            self._log.info(
                "delivery_held",
                agent=delivery.identity,
                reason=hold.reason,
                cause=hold.cause,
                detail=hold.detail,
                where=hold.where,
                remedy=hold.remedy(delivery.identity),
            )
            if hold.reason in {HoldReason.BUDGET, HoldReason.LOOP, HoldReason.STORM}:
                self._log.warning("limit_reached", agent=delivery.identity, reason=hold.reason, detail=hold.detail)
        return self._ledger.hold(delivery, hold, self._clock.now())

    def _with_look(self, verdict: RouteVerdict, route_states: RouteStates, delivery: Delivery) -> Hold:
        """A place that seemed idle is looked at again soon; everything else with growing patience."""
        route = verdict.route
        seen = route_states.at(route).presence if route is not None else None
        soon = seen is not None and seen.wants_second_look
        look_at = self._watch.second_look_at(route) if route is not None and soon else self._relook(delivery)
        hold = verdict.decision if isinstance(verdict.decision, Hold) else Hold(HoldReason.UNKNOWN)
        if hold.reason is HoldReason.UNREACHABLE and (host := self._leases.silent_host(delivery.identity)):
            hold = Hold(HoldReason.HOST_AWAY, hold.detail, host, look_at, Cause.HOST_SILENT)
        # a suspended receiver says when it is tried again
        return hold if hold.next_look_at else replace(hold, next_look_at=look_at)

    def _relook(self, delivery: Delivery) -> Instant:
        settings, now = self._current.settings, self._clock.now()
        if now - self._recounted_at >= LOOKS_RECOUNTED_EVERY:
            left = {one.id for one in self._ledger.unsettled()}
            self._look_counts = {one: count for one, count in self._look_counts.items() if one in left}
            self._given_back = {one: refused for one, refused in self._given_back.items() if one in left}
            self.pushes.keep_only(left)
            self._recounted_at = now
        looks = self._look_counts[delivery.id] = self._look_counts.get(delivery.id, -1) + 1
        apart = min(settings.relook_min_ms * 2 ** min(looks, 8), settings.relook_max_ms)
        return Instant(now + max(apart, LOOKS_APART * len(self._look_counts)))
