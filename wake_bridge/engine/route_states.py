"""The state of each route of an identity: what `decide` reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, WakePolicy
from wake_bridge.domain.receivers import Receiver
from wake_bridge.domain.route_table import NO_ROUTE, NOTHING_LEFT, RouteVerdict, decide
from wake_bridge.domain.routing import Observe, Route, RouteState
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import Nowhere, Place
from wake_bridge.ports.clock import Clock

JUST_FOUND: Final = 100
"""Milliseconds for which a place that was resolved ahead is used; after that it is resolved again."""

AHEAD: Final = 1.0
"""Seconds that finding the other routes may take: one that hangs must not keep a wake from those before it."""


def with_what_is_missing(verdict: RouteVerdict, identity: Identity, routes: Routes) -> RouteVerdict:
    """The same; the table knows that no route is left, those who make them which one the identity should have."""
    if verdict.row not in {NO_ROUTE, NOTHING_LEFT} or not isinstance(verdict.decision, Hold):
        return verdict
    missing = routes.missing(identity)
    # that a channel which nobody named is not there either is no better reason
    return replace(verdict, decision=missing) if missing is not None else verdict


class RouteStates:
    """The state of each route of one identity, for one decision; a route is looked at when its turn comes.

    Args:
        refused: the routes that gave this very wake back a moment ago, by their keys, and why.
        patient: take the two looks that prove idle here and now.
        receivers: where this very wake is posted; all there are, where a person asks.
        retries: try a suspended receiver again whose time has come; who only asks tries nothing.
    """

    def __init__(
        self,
        identity: Identity,
        routes: Routes,
        watch: Watch,
        current: Current,
        clock: Clock,
        *,
        refused: Mapping[str, Hold] | None = None,
        patient: bool = False,
        receivers: Sequence[Receiver] = (),
        retries: bool = False,
    ) -> None:
        self._identity = identity
        self._routes = routes
        self._watch = watch
        self._current = current
        self._clock = clock
        self._patient = patient
        self._retries = retries
        self.authority = routes.authority(identity)
        self._ahead: dict[str, tuple[Instant, Place]] = {}
        self._has_looked_ahead = False
        given_back = refused or {}
        self.all = [
            RouteState(route, nowhere=self._shut(route), refused=given_back.get(route.key))
            for route in routes.of(identity, receivers)
        ]

    def _shut(self, route: Route) -> Hold | None:
        """Why a receiver is left alone; one that is suspended is tried when its time has come."""
        shut = self._routes.shut(route)
        is_due = shut is not None and self._retries and 0 < shut.next_look_at <= self._clock.now()
        return None if is_due else shut

    def verdict(self) -> RouteVerdict:
        """What the table says by what was seen so far; an `Observe` where it needs to see more."""
        fresh_for_ms = self._current.settings.fresh_for_ms
        verdict = decide(WakePolicy.IMMEDIATE, self.all, self.authority, self._clock.now(), fresh_for_ms)
        return with_what_is_missing(verdict, self._identity, self._routes)

    async def locate(self, route: Route) -> Place | Nowhere:
        """Resolve a route now; one that leads nowhere need not be looked at.

        When the first one leads nowhere, all others are resolved side by side, because adapters that ask for one pane at the
        same moment share one listing.
        """
        at, known = self._ahead.pop(route.key, (EPOCH_START, None))
        if known is not None and self._clock.now() - at <= JUST_FOUND:
            return known
        found = await self._watch.locate(route)
        if isinstance(found, Nowhere):
            self._note(route, replace(self.at(route), nowhere=found.hold))
            await self._locate_others()
        return found

    async def _locate_others(self) -> None:
        """Resolve the routes that may be asked for next, once; a place is kept for `JUST_FOUND`."""
        if self._has_looked_ahead:
            return
        self._has_looked_ahead = True
        unseen = (one.route for one in self.all if one.is_unseen and not one.route.degraded)
        # what was not found by then is asked for when its turn comes
        with suppress(TimeoutError):
            async with asyncio.timeout(AHEAD):
                await asyncio.gather(*map(self._locate_ahead, unseen))

    async def _locate_ahead(self, route: Route) -> None:
        found = await self._watch.locate(route)
        if isinstance(found, Nowhere):
            self._note(route, replace(self.at(route), nowhere=found.hold))
        else:
            self._ahead[route.key] = self._clock.now(), found

    def has_receiver_but(self, route: Route) -> bool:
        """Whether another route leads to a receiver with limits of its own that may take the wake now."""
        others = [one for one in self.all if one.route.key != route.key and one.route.capabilities.has_own_limits]
        return any(one.is_open_receiver for one in others)

    def pass_over(self, route: Route, why: Hold) -> None:
        """Leave a route out of this decision."""
        self._note(route, replace(self.at(route), nowhere=why))

    async def look(self, route: Route, place: Place) -> None:
        """Look at a route's place now."""
        seen = await (self._watch.look_twice if self._patient else self._watch.look)(route, place)
        self._note(route, replace(self.at(route), presence=seen, only_seen=place.only_seen))

    async def look_until_decided(self) -> RouteVerdict:
        """Look as far down as the table asks for, and answer what it says then."""
        while isinstance((verdict := self.verdict()).decision, Observe):
            await self.see(verdict.decision.route)
        return verdict

    async def look_everywhere(self) -> RouteVerdict:
        """Look on every route, also those that the table would not ask, and answer what it says then."""
        for one in list(self.all):
            await self.see(one.route)
        return self.verdict()

    async def see(self, route: Route) -> None:
        """Locate a route's place, and look there if there is one."""
        place = await self.locate(route)
        if isinstance(place, Place):
            await self.look(route, place)

    def at(self, route: Route) -> RouteState:
        """What is known of one route."""
        return next(one for one in self.all if one.route.key == route.key)

    def _note(self, route: Route, seen: RouteState) -> None:
        self.all = [seen if one.route.key == route.key else one for one in self.all]
