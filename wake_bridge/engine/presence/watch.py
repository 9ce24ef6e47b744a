"""Watches bound panes, so that one fresh look is enough at wake time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from wake_bridge.domain.names import EPOCH_START, Identity, Instant, to_beat
from wake_bridge.domain.presence import (
    SAMPLES_APART,
    Evidence,
    Observation,
    Presence,
    PresenceState,
    Sighted,
    fuse,
    single_vote,
)
from wake_bridge.domain.routing import Address, Binding, Route
from wake_bridge.engine.presence.adapter_calls import AdapterCalls
from wake_bridge.engine.presence.remembered_panes import RememberedPanes
from wake_bridge.engine.presence.resolve_schedule import (
    OfIdentities,
    ResolveSchedule,
    RouteKey,
    Turns,
    again,
)
from wake_bridge.engine.presence.tracked_place import TrackedPlace, vote_of
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import HarnessAdapter, Nowhere, PersonActive, PersonSeen, Place
from wake_bridge.ports.clock import Clock

ROUND: Final = 2.0
"""Seconds between two surveys of all bound panes."""

LIVELY_ROUND: Final = 1.4
"""Seconds between surveys for a while after any change: a pane that came to rest 3 s ago then has a sample that is old
enough to agree with."""

QUICK_ROUND: Final = 0.25
"""Seconds between surveys for a while after a change where something waits."""

CHANGE_LASTS: Final = 5_000
"""Milliseconds that lively or quick rounds last."""

LOOKS_AGAIN_APART: Final = 5_000
"""Milliseconds between two looks at unchanged panes: each is a call, and hundreds of panes may stand still."""

PATIENCE: Final = 1.0
"""Seconds that a round waits for what it asked: a call that hangs must keep nobody else from being looked at."""

LOOKS_AT_ONCE: Final = 8
"""Looks that are under way at once; each is a call."""


class Watch:
    """Samples of every bound place, and the presence they add up to.

    Args:
        routes: where identities can be reached.
        watched: the identities worth watching now, whether something waits for them or not.
        waiting: those for which something waits; they are watched as well.
        changed: called with an identity when its place changed while something waits for it.
        told: what programs inside the harness have told of an identity's agent just now.
        said: what the graph says of how an identity's agent stands.
        memory: where it is written down in which pane an identity was found; None for one who only looks.
        driven_elsewhere: whether another host drives an identity; then its agent is not looked for here in haste.
    """

    def __init__(
        self,
        routes: Routes,
        current: Current,
        clock: Clock,
        *,
        watched: Callable[[], AbstractSet[Identity]],
        waiting: Callable[[], set[Identity]],
        changed: Callable[[Identity], None],
        told: Callable[[Identity], Sequence[Evidence]] = lambda _: (),
        said: Callable[[Identity], Awaitable[Sequence[Evidence]]] | None = None,
        memory: RememberedPanes | None = None,
        driven_elsewhere: Callable[[Identity], bool] = lambda _: False,
    ) -> None:
        self._driven_elsewhere = driven_elsewhere
        self._said = said
        self._memory = memory
        self._told = told
        self._routes = routes
        self._current = current
        self._clock = clock
        self._watched = watched
        self._waiting = waiting
        self._changed = changed
        self._calls = AdapterCalls(current, clock)
        self._tracks: OfIdentities[TrackedPlace] = OfIdentities()
        self._nowhere: OfIdentities[Nowhere] = OfIdentities()
        self._turns, self._waiting_turns = Turns(), Turns()
        self._schedule = ResolveSchedule(clock)
        self._planned_for: AbstractSet[Identity] = frozenset()
        self._stirred = asyncio.Event()
        self._lively_until = EPOCH_START
        self._quick_until = EPOCH_START
        self._looked_again_at = EPOCH_START
        self._permits = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._left_behind: set[asyncio.Task[None]] = set()

    @cached_property
    def _log(self) -> Any:
        import structlog  # noqa: PLC0415 - a command that looks at panes has nothing to log, and should be quick

        return structlog.get_logger("watch")

    async def locate(self, route: Route) -> Place | Nowhere:
        """Resolve a route's address now; what was known of another place is forgotten."""
        asked_at = self._clock.now()
        found = await self._calls.resolve(self._routes.adapter(route), route.address)
        if route.capabilities.presence_independent:
            # there is nothing to be watched
            return found
        key = _key(route)
        self._schedule.note_resolved(key)
        if isinstance(found, Nowhere):
            self._tracks.pop(key, None)
            self._nowhere[key] = found
            return found
        self._nowhere.pop(key, None)
        if self._memory is not None:
            self._memory.note(route.address, found, asked_at)
        track = self._tracks.get(key)
        if track is None or track.place.key != found.key:
            self._tracks[key] = TrackedPlace(route, found, asked_at)
        else:
            track.place, track.route = found, route
        return found

    async def look(self, route: Route, place: Place) -> Presence:
        """One fresh look, fused with an older one that is at least 1.5 s its senior."""
        if route.capabilities.presence_independent:
            seen = await self._calls.observe(self._routes.adapter(route), place, route.address)
            return fuse(seen, None, self._clock.now(), self._current.settings.fresh_for_ms)
        track = self._tracks.get(_key(route))
        if track is None or track.place.key != place.key:
            track = self._tracks[_key(route)] = TrackedPlace(route, place, self._clock.now())
        latest = await self._sample(self._routes.adapter(route), place, route.address, track)
        return fuse(latest, track.elder(latest), self._clock.now(), self._current.settings.fresh_for_ms)

    async def look_twice(self, route: Route, place: Place) -> Presence:
        """Two looks far enough apart, for callers without a history."""
        first = await self.look(route, place)
        if first.state is PresenceState.IDLE or single_vote(first.evidence).vote is not PresenceState.IDLE:
            return first
        await asyncio.sleep((SAMPLES_APART + 100) / 1000)
        return await self.look(route, place)

    async def look_at_all(self, adapters: Container[str]) -> Mapping[tuple[str, str], Presence]:
        """How every watched place of these adapters stands now, fused as in `look`; by adapter and the place's key.

        One that was proven idle and has not changed since is not looked at again.
        """
        by_adapter: dict[str, dict[str, TrackedPlace]] = {}
        for track in self._tracks.values():
            if track.route.adapter in adapters:
                by_adapter.setdefault(track.route.adapter, {})[track.place.key] = track

        async def look(track: TrackedPlace, pulse: str | None) -> Presence:
            if track.samples and pulse is not None and pulse == track.pulse:
                shown = track.shown(self._current.settings.fresh_for_ms)
                if shown.state is PresenceState.IDLE:
                    return shown
            async with self._permits:
                return await self.look(track.route, track.place)

        async def look_at(name: str, tracks: Mapping[str, TrackedPlace]) -> Mapping[tuple[str, str], Presence]:
            places = [one.place for one in tracks.values()]
            pulses = await self._calls.survey(self._routes.adapter(next(iter(tracks.values())).route), places)
            seen = await asyncio.gather(*(look(track, pulses.get(key)) for key, track in tracks.items()))
            return {(name, key): presence for key, presence in zip(tracks, seen, strict=True)}

        found = await asyncio.gather(*(look_at(name, tracks) for name, tracks in by_adapter.items()))
        return {key: presence for one in found for key, presence in one.items()}

    def sighted(self, identity: Identity) -> Sighted | None:
        """What the identity's places showed at the last look, without a new one; None where there was none.

        What a control plane says of itself comes first; where it knows nothing certain, the screen speaks.
        """
        seen = [one.sighted(self._current.settings.fresh_for_ms) for one in self.looked_at(identity)]
        return next((one for one in seen if one.looks_like is not PresenceState.UNKNOWN), seen[0] if seen else None)

    def place_of(self, identity: Identity) -> Place | None:
        """Where the identity lives, as it is watched: its pane, else where it is reached; None where it is not."""
        theirs = sorted(self._tracks.of(identity), key=_is_native)
        return theirs[0].place if theirs else None

    def looked_at(self, identity: Identity) -> list[TrackedPlace]:
        """The identity's places that were looked at, what a control plane says of itself first."""
        return sorted((one for one in self._tracks.of(identity) if one.samples), key=_is_native, reverse=True)

    def agents_here(self) -> set[Identity]:
        """Those whose agents the last look saw."""
        return {who for (who, _), track in self._tracks.items() if track.samples and track.samples[-1].capabilities}

    def seen_here(self) -> set[Identity]:
        """Those with a place that was looked at."""
        return {who for (who, _), track in self._tracks.items() if track.samples}

    def nowhere(self, identity: Identity) -> Nowhere | None:
        """Why the identity has no place on a route that was asked last; None where no route said so."""
        return next(iter(self._nowhere.of(identity)), None)

    def last_key_in_front(self, key: str) -> Instant | None:
        """See `PersonSeen.last_key_in_front`, of whichever adapter knows the place."""
        known = (one.last_key_in_front(key) for one in self._routes.adapters() if isinstance(one, PersonSeen))
        return next((one for one in known if one is not None), None)

    def last_key(self) -> Instant | None:
        """See `PersonActive.last_key`, of all adapters."""
        known = (one.last_key() for one in self._routes.adapters() if isinstance(one, PersonActive))
        return max((one for one in known if one is not None), default=None)

    def fences(self) -> list[tuple[Identity, Binding]]:
        """The fences around all places that are watched, each with whose it is."""
        return [(who, track.place.fence) for (who, _), track in self._tracks.items() if track.place.fence is not None]

    def second_look_at(self, route: Route) -> Instant:
        """When one more look could first prove idle: far enough from the first of the looks that agree by now."""
        now, track = self._clock.now(), self._tracks.get(_key(route))
        return Instant((track.at_rest_since(now) if track is not None else now) + SAMPLES_APART)

    def forget(self, identity: Identity) -> None:
        """Drop the samples of an identity's places: what follows a wake must be judged anew, and soon."""
        for track in self._tracks.of(identity):
            track.samples.clear()
        self._stirred.set()

    def has_moved(self, identity: Identity) -> None:
        """Forget where the identity lived, and find out anew: until then its former place must not speak for it."""
        self._tracks.drop(identity)
        self._turns.put_first(identity)
        self._schedule.forget_all(identity)
        self._stirred.set()

    def write_down(self) -> None:
        """Write down when each agent was seen last, before the end. Raises `LedgerError`."""
        if self._memory is not None:
            self._memory.write_down()

    async def run(self) -> None:
        """Survey for ever; quicker for a while after a change, and most of all where something waits."""
        while True:
            self._stirred.clear()
            await self.round()
            with suppress(TimeoutError):
                async with asyncio.timeout(to_beat(self._pause(), asyncio.get_running_loop().time())):
                    await self._stirred.wait()

    async def round(self) -> None:
        """One survey of all watched places. What hangs is left behind, and goes on beside the next rounds."""
        waiting = self._waiting()
        # most of what waits on a graph of many hosts is for agents of others
        sought = {one for one in waiting if not self._driven_elsewhere(one)}
        turns = self._schedule.next_newcomers() if self._schedule.is_planned else self._plan(sought)
        known, others = [one for one in turns if one in self._tracks], [one for one in turns if one not in self._tracks]
        if others:
            await self._patiently(self._locate_all(others))
        by_adapter: dict[str, list[TrackedPlace]] = {}
        for track in self._tracks.values():
            by_adapter.setdefault(track.route.adapter, []).append(track)
        # side by side: an adapter may answer all of them with one call
        surveys = (
            self._survey(self._routes.adapter(tracks[0].route), tracks, waiting) for tracks in by_adapter.values()
        )
        await self._patiently(*surveys, *([self._locate_all(known)] if known else []))

    def _pause(self) -> float:
        """Seconds to the next round."""
        now = self._clock.now()
        if now < self._quick_until or self._schedule.has_newcomers:
            return QUICK_ROUND
        return LIVELY_ROUND if now < self._lively_until else ROUND

    async def _patiently(self, *work: Coroutine[None, None, None]) -> None:
        """Have it done, and wait for it, but not for what hangs. Raises what was raised in it, or in what was left."""
        fresh = {asyncio.create_task(one) for one in work}
        try:
            if fresh:
                await asyncio.wait(fresh, timeout=PATIENCE)
        except asyncio.CancelledError:
            for task in fresh | self._left_behind:
                task.cancel()
            raise
        tasks = fresh | self._left_behind
        self._left_behind = {task for task in tasks if not task.done()}
        for task in tasks - self._left_behind:
            task.result()

    def _plan(self, waiting: set[Identity]) -> list[RouteKey]:
        """Whose turn it is now; by the last plan where nothing can have changed since."""
        watched = self._watched()
        # with thousands a set of all costs more than the rest of the plan
        watched = watched if waiting <= watched else waiting | watched
        if not waiting and watched == self._planned_for and self._turns.are_over and self._schedule.may_rest:
            return self._schedule.next_newcomers()
        return self._schedule.plan(self._wanted(waiting, watched))

    def _wanted(self, waiting: AbstractSet[Identity], watched: AbstractSet[Identity]) -> dict[RouteKey, int]:
        """The routes whose turn it is, each with `again`; the samples of what is not worth watching are dropped."""
        now, is_as_ever = self._clock.now(), watched is self._planned_for
        self._planned_for = watched
        whose = self._waiting_turns.next(waiting) | self._turns.next(watched)
        wanted: dict[RouteKey, int] = {}
        for identity in whose:
            places, is_waited_for = self._tracks.of(identity), identity in waiting
            is_still = bool(places) and not is_waited_for and all(one.is_still(now) for one in places)
            for key in ((identity, adapter) for adapter in self._routes.names(identity)):
                wanted[key] = again(is_missed=is_waited_for and key not in self._tracks, is_still=is_still)
        self._tracks.keep_only(watched, whose, wanted.keys())
        for known in (self._nowhere, self._schedule):
            known.keep_only(None if is_as_ever else watched, whose, wanted.keys())
        return wanted

    async def _locate_all(self, keys: Iterable[RouteKey]) -> None:
        """Resolve them at once: an adapter may answer several with one call. One that is set aside is asked elsewhere."""
        adapters: dict[Identity, list[str]] = {}
        for identity, adapter in keys:
            adapters.setdefault(identity, []).append(adapter)
        routes = [route for identity, names in adapters.items() for route in self._routes.through(identity, names)]
        await asyncio.gather(*(self.locate(route) for route in routes if not route.degraded))

    async def _survey(self, adapter: HarnessAdapter, tracks: Sequence[TrackedPlace], waiting: set[Identity]) -> None:
        """Ask for the pulses of an adapter's places, and look at those that changed."""
        asked_at = self._clock.now()
        pulses = await self._calls.survey(adapter, [track.place for track in tracks])
        looks: list[Awaitable[object]] = []
        unchanged: list[TrackedPlace] = []
        for track in tracks:
            identity, pulse = track.route.address.identity, pulses.get(track.place.key)
            if pulse is None:
                self._tracks.pop(_key(track.route), None)
                self._schedule.forget(_key(track.route))
                continue
            if pulse == track.pulse and track.samples:
                track.stays(asked_at)
                self._note_agent(identity, track.samples[-1], asked_at)
            if track.is_looked_at or not (track.route.capabilities.watchable or identity in waiting):
                continue
            if pulse != track.pulse:
                track.pulse, track.changed_at = pulse, asked_at
                looks.append(self._follow(adapter, track, waiting))
            elif not track.samples:
                looks.append(self._look_once(adapter, track))
            elif asked_at - self._looked_again_at >= LOOKS_AGAIN_APART and track.is_due(asked_at):
                unchanged.append(track)
        if unchanged:
            self._looked_again_at = asked_at
            looks.append(self._look_once(adapter, min(unchanged, key=lambda one: one.last_seen)))
        await asyncio.gather(*looks)

    async def _follow(self, adapter: HarnessAdapter, track: TrackedPlace, waiting: set[Identity]) -> None:
        """Look at a place that changed, and tell what that is news to."""
        identity = track.route.address.identity
        before = vote_of(track.samples[-1]) if track.samples else None
        after = vote_of(await self._look_once(adapter, track))
        self._lively_until = Instant(self._clock.now() + CHANGE_LASTS)
        # a spinner that turns is a change, but no news
        is_news = after != before or after[0] is PresenceState.IDLE
        if is_news and identity in waiting:
            self._quick_until = self._lively_until
            self._changed(identity)

    async def _look_once(self, adapter: HarnessAdapter, track: TrackedPlace) -> Observation:
        """One look, at most one of a place at a time."""
        track.is_looked_at = True
        try:
            async with self._permits:
                return await self._sample(adapter, track.place, track.route.address, track)
        finally:
            track.is_looked_at = False

    async def _sample(
        self, adapter: HarnessAdapter, place: Place, address: Address, track: TrackedPlace
    ) -> Observation:
        asked_at = self._clock.now()
        latest = await self._calls.observe(adapter, place, address)
        self._note_agent(address.identity, latest, asked_at)
        if not latest.is_proof:
            # a control plane knows better than hooks, which an interrupted turn tells nothing
            said = await self._said(address.identity) if self._said is not None else ()
            latest = replace(latest, evidence=(*latest.evidence, *self._told(address.identity), *said))
        track.keep(latest)
        if self._memory is not None:
            # a command that looks by itself has no log
            seen = single_vote(latest.evidence)
            self._log.debug(
                "looked", agent=address.identity, where=place.label, reason=seen.vote.value, detail=seen.told
            )
        return latest

    def _note_agent(self, identity: Identity, latest: Observation, now: Instant) -> None:
        """Somebody's agent was there at that time, if the look saw one."""
        if self._memory is not None and latest.capabilities:
            self._memory.still_there(identity, now)


def _is_native(track: TrackedPlace) -> bool:
    return track.route.capabilities.composer_independent


def _key(route: Route) -> RouteKey:
    return route.address.identity, route.adapter
