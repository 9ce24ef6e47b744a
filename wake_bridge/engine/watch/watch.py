"""Keeps an eye on bound panes, so that one fresh look is enough at wake time (DESIGN §5, two samples)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.presence import SAMPLES_APART, Observation, Presence, PresenceState, fuse, single_vote
from wake_bridge.domain.routing import Address, Route
from wake_bridge.engine.settings import Current
from wake_bridge.engine.watch.looks import Looks
from wake_bridge.engine.watch.overview import Sighted
from wake_bridge.engine.watch.routes import Routes
from wake_bridge.ports.adapter import HarnessAdapter, Nowhere, Place
from wake_bridge.ports.clock import Clock

ROUND: Final = 2.0
"""Seconds between two surveys of all bound panes."""

LIVELY_ROUND: Final = 1.4
"""Seconds between surveys for a while after any change: a pane that came to rest 3 s ago then has a sample that is old
enough to agree with (DESIGN §5, two samples ≥ 1.5 s apart)."""

QUICK_ROUND: Final = 0.25
"""Seconds between surveys for a while after a change where something waits."""

CHANGE_LASTS: Final = 5_000
"""Milliseconds that lively or quick rounds last."""

LOOK_AGAIN: Final = 60_000
"""Milliseconds after which an unchanged pane is looked at all the same, the one that has waited longest in each round."""

PATIENCE: Final = 1.0
"""Seconds that a round waits for what it asked: a call that hangs must keep nobody else from being looked at."""

LOOKS_AT_ONCE: Final = 8
"""Looks that are under way at once; each is a call."""

RESOLVE_AGAIN: Final = 30_000
"""Milliseconds after which a place is resolved anew, whether it still answers or could not be found."""

RESOLVED_AT_ONCE: Final = 10
"""Places of each kind resolved in one round: each costs a call, and thousands of subscriptions may lead nowhere."""


@dataclass(slots=True)
class _Track:
    """One watched place. `since` is when it began to show what it shows now."""

    route: Route
    place: Place
    pulse: str = ""
    since: Instant = EPOCH_START
    samples: deque[Observation] = field(default_factory=lambda: deque(maxlen=8))
    is_looked_at: bool = False

    @property
    def last_seen(self) -> Instant:
        """When it was looked at last."""
        return self.samples[-1].at if self.samples else EPOCH_START


class Watch:
    """Samples of every bound place, and the presence they add up to.

    Args:
        routes: where identities can be reached.
        watched: the identities worth watching now, whether something waits for them or not.
        waiting: those for which something waits; they are watched as well.
        changed: called with an identity when its place changed while something waits for it.
    """

    def __init__(
        self,
        routes: Routes,
        current: Current,
        clock: Clock,
        *,
        watched: Callable[[], Iterable[Identity]],
        waiting: Callable[[], set[Identity]],
        changed: Callable[[Identity], None],
    ) -> None:
        self._routes = routes
        self._current = current
        self._clock = clock
        self._watched = watched
        self._waiting = waiting
        self._changed = changed
        self._looks = Looks(current, clock)
        self._tracks: dict[Identity, _Track] = {}
        self._resolved_at: dict[Identity, Instant] = {}
        self._stirred = asyncio.Event()
        self._lively_until = EPOCH_START
        self._quick_until = EPOCH_START
        self._has_newcomers = False
        self._permits = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._left_behind: set[asyncio.Task[None]] = set()

    async def locate(self, route: Route) -> Place | Nowhere:
        """Resolve a route's address now; what was known of another place is forgotten."""
        found = await self._looks.resolve(self._routes.adapter(route), route.address)
        identity = route.address.identity
        self._resolved_at[identity] = self._clock.now()
        if isinstance(found, Nowhere):
            self._tracks.pop(identity, None)
            return found
        track = self._tracks.get(identity)
        if track is None or track.place.key != found.key:
            self._tracks[identity] = _Track(route, found)
        else:
            track.place, track.route = found, route
        return found

    async def look(self, route: Route, place: Place) -> Presence:
        """One fresh look, fused with an older one that is at least 1.5 s its senior."""
        track = self._tracks.get(route.address.identity)
        if track is None or track.place.key != place.key:
            track = self._tracks[route.address.identity] = _Track(route, place)
        latest = await self._sample(self._routes.adapter(route), place, route.address, track)
        return fuse(latest, self._elder(track, latest), self._clock.now(), self._current.settings.fresh_for)

    async def look_twice(self, route: Route, place: Place) -> Presence:
        """Two looks far enough apart, for callers without a history."""
        first = await self.look(route, place)
        if single_vote(first.evidence).vote is not PresenceState.IDLE:
            return first
        await asyncio.sleep((SAMPLES_APART + 100) / 1000)
        return await self.look(route, place)

    def sighted(self, identity: Identity) -> Sighted | None:
        """What the identity's place showed at the last look, without a new one; None where there was none."""
        track = self._tracks.get(identity)
        if track is None or not track.samples:
            return None
        latest = track.samples[-1]
        presence = fuse(latest, self._elder(track, latest), latest.at, self._current.settings.fresh_for)
        return Sighted(presence.state, _verdict(latest)[0], track.since, track.place.label)

    def second_look_at(self, identity: Identity) -> Instant:
        """When one more look could first prove idle: far enough from the first of the looks that agree by now."""
        since = self._clock.now()
        samples: Sequence[Observation] = self._tracks[identity].samples if identity in self._tracks else ()
        for sample in reversed(samples):
            if sample.fingerprint != samples[-1].fingerprint or not _speaks_for_idle(sample):
                break
            since = sample.at
        return Instant(since + SAMPLES_APART)

    def forget(self, identity: Identity) -> None:
        """Drop the samples of an identity's place: what follows a wake must be judged anew, and soon."""
        track = self._tracks.get(identity)
        if track is not None:
            track.samples.clear()
        self._stirred.set()

    async def run(self) -> None:
        """Survey for ever; quicker for a while after a change, and most of all where something waits."""
        while True:
            self._stirred.clear()
            await self.round()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._stirred.wait()

    async def round(self) -> None:
        """One survey of all watched places. What hangs is left behind, and goes on beside the next rounds."""
        waiting = self._waiting()
        wanted = waiting.union(self._watched())
        for gone in self._tracks.keys() - wanted:
            del self._tracks[gone]
        self._resolved_at = {one: at for one, at in self._resolved_at.items() if one in wanted}
        again, others = self._due_to_be_resolved(wanted, waiting)
        await self._patiently(self._locate_all(others))
        by_adapter: dict[str, list[_Track]] = {}
        for track in self._tracks.values():
            by_adapter.setdefault(track.route.adapter, []).append(track)
        # side by side: an adapter may answer all of them with one call
        surveys = (
            self._survey(self._routes.adapter(tracks[0].route), tracks, waiting) for tracks in by_adapter.values()
        )
        await self._patiently(self._locate_all(again), *surveys)

    def _pause(self) -> float:
        """Seconds to the next round."""
        now = self._clock.now()
        if now < self._quick_until or self._has_newcomers:
            return QUICK_ROUND
        return LIVELY_ROUND if now < self._lively_until else ROUND

    async def _patiently(self, *work: Coroutine[None, None, None]) -> None:
        """Have it done, and wait for it, but not for what hangs. Raises what was raised in it, or in what was left."""
        fresh = {asyncio.create_task(one) for one in work}
        try:
            await asyncio.wait(fresh, timeout=PATIENCE)
        except asyncio.CancelledError:
            for task in fresh | self._left_behind:
                task.cancel()
            raise
        tasks = fresh | self._left_behind
        self._left_behind = {task for task in tasks if not task.done()}
        for task in tasks - self._left_behind:
            task.result()

    def _due_to_be_resolved(
        self, wanted: set[Identity], waiting: set[Identity]
    ) -> tuple[list[Identity], list[Identity]]:
        """Those with a place that was found long ago, and those without one: sooner where something waits."""
        missed = (wanted & waiting) - self._tracks.keys()
        due = self._oldest(wanted - missed, RESOLVE_AGAIN)
        again = [one for one in due if one in self._tracks]
        others = [*self._oldest(missed, ROUND * 1000), *(one for one in due if one not in self._tracks)]
        self._resolved_at |= dict.fromkeys([*again, *others], self._clock.now())
        self._has_newcomers = bool(wanted - self._resolved_at.keys())
        return again, others

    async def _locate_all(self, identities: Iterable[Identity]) -> None:
        """Resolve them at once: an adapter may answer several with one call."""
        await asyncio.gather(*(self.locate(route) for one in identities for route in self._routes.of(one)[:1]))

    def _oldest(self, identities: Iterable[Identity], age: float) -> list[Identity]:
        """Those that were resolved longest ago, at least `age` milliseconds, as many as one round takes."""
        latest = self._clock.now() - age
        due = [one for one in identities if self._resolved_at.get(one, EPOCH_START) <= latest]
        return sorted(due, key=lambda one: self._resolved_at.get(one, EPOCH_START))[:RESOLVED_AT_ONCE]

    async def _survey(self, adapter: HarnessAdapter, tracks: Sequence[_Track], waiting: set[Identity]) -> None:
        """Ask for the pulses of an adapter's places, and look at those that changed."""
        pulses = await self._looks.survey(adapter, [track.place for track in tracks])
        looks: list[Awaitable[object]] = []
        unchanged: list[_Track] = []
        for track in tracks:
            identity, pulse = track.route.address.identity, pulses.get(track.place.key)
            if pulse is None:
                self._tracks.pop(identity, None)
                self._resolved_at.pop(identity, None)
            elif track.is_looked_at or not (track.route.capabilities.watchable or identity in waiting):
                continue
            elif pulse != track.pulse:
                track.pulse = pulse
                looks.append(self._follow(adapter, track, waiting))
            elif not track.samples:
                looks.append(self._look_once(adapter, track))
            elif self._clock.now() - track.last_seen >= LOOK_AGAIN:
                unchanged.append(track)
        if unchanged:
            looks.append(self._look_once(adapter, min(unchanged, key=lambda one: one.last_seen)))
        await asyncio.gather(*looks)

    async def _follow(self, adapter: HarnessAdapter, track: _Track, waiting: set[Identity]) -> None:
        """Look at a place that changed, and tell what that is news to."""
        identity = track.route.address.identity
        before = _verdict(track.samples[-1]) if track.samples else None
        after = _verdict(await self._look_once(adapter, track))
        self._lively_until = Instant(self._clock.now() + CHANGE_LASTS)
        # a spinner that turns is a change, but no news
        is_news = after != before or after[0] is PresenceState.IDLE
        if is_news and identity in waiting:
            self._quick_until = self._lively_until
            self._changed(identity)

    async def _look_once(self, adapter: HarnessAdapter, track: _Track) -> Observation:
        """One look, at most one of a place at a time."""
        track.is_looked_at = True
        try:
            async with self._permits:
                return await self._sample(adapter, track.place, track.route.address, track)
        finally:
            track.is_looked_at = False

    async def _sample(self, adapter: HarnessAdapter, place: Place, address: Address, track: _Track) -> Observation:
        latest = await self._looks.observe(adapter, place, address)
        if not track.samples or _verdict(track.samples[-1]) != _verdict(latest):
            track.since = latest.at
        recent = [*track.samples][-2:]
        if len(recent) > 1 and all(_agree(one, latest) for one in recent):
            # of looks that agree the first and the last say all; many in a row must not push the first out
            track.samples.pop()
        track.samples.append(latest)
        return latest

    @staticmethod
    def _elder(track: _Track, latest: Observation) -> Observation | None:
        """The newest sample old enough to compare with; a younger one that disagrees speaks first."""
        for sample in reversed(track.samples):
            if sample is latest:
                continue
            if sample.fingerprint != latest.fingerprint or latest.at - sample.at >= SAMPLES_APART:
                return sample
        return None


def _speaks_for_idle(sample: Observation) -> bool:
    return _verdict(sample)[0] is PresenceState.IDLE


def _agree(one: Observation, other: Observation) -> bool:
    return one.fingerprint == other.fingerprint and _verdict(one) == _verdict(other)


def _verdict(sample: Observation) -> tuple[PresenceState, HoldReason | None]:
    decided_by = single_vote(sample.evidence)
    return decided_by.vote, decided_by.hold
