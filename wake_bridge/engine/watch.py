"""Keeps an eye on bound panes, so that one fresh look is enough at wake time (DESIGN §5, two samples)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.presence import SAMPLES_APART, Observation, Presence, PresenceState, fuse, single_vote
from wake_bridge.domain.routing import Address, Route
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import HarnessAdapter, Nowhere, Place
from wake_bridge.ports.clock import Clock

ROUND: Final = 2.0
"""Seconds between two surveys of all bound panes."""

QUICK_ROUND: Final = 0.25
"""Seconds between surveys for a while after a change where something waits."""

QUICK_FOR: Final = 5_000
"""Milliseconds that the quick rounds last."""

LOOK_AGAIN: Final = 30_000
"""Milliseconds after which an unchanged pane is looked at all the same."""

RESOLVE_AGAIN: Final = 30_000
"""Milliseconds after which a place is resolved anew even if it still answers."""


@dataclass(slots=True)
class _Track:
    """One watched place."""

    route: Route
    place: Place
    resolved_at: Instant
    pulse: str = ""
    samples: deque[Observation] = field(default_factory=lambda: deque(maxlen=8))


class Watch:
    """Samples of every bound place, and the presence they add up to.

    Args:
        routes: where identities can be reached.
        watched: the identities worth watching now.
        waiting: those of them for which something waits.
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
        self._tracks: dict[Identity, _Track] = {}
        self._log = structlog.get_logger("watch")

    async def locate(self, route: Route) -> Place | Nowhere:
        """Resolve a route's address now; what was known of another place is forgotten."""
        found = await self._routes.adapter(route).resolve(route.address)
        identity = route.address.identity
        if isinstance(found, Nowhere):
            self._tracks.pop(identity, None)
            return found
        track = self._tracks.get(identity)
        if track is None or track.place.key != found.key:
            self._tracks[identity] = _Track(route, found, self._clock.now())
        else:
            track.place, track.route, track.resolved_at = found, route, self._clock.now()
        return found

    async def look(self, route: Route, place: Place) -> Presence:
        """One fresh look, fused with an older one that is at least 1.5 s its senior."""
        track = self._tracks.get(route.address.identity)
        if track is None or track.place.key != place.key:
            track = self._tracks[route.address.identity] = _Track(route, place, self._clock.now())
        latest = await self._sample(self._routes.adapter(route), place, route.address, track)
        return fuse(latest, self._elder(track, latest), self._clock.now(), self._current.settings.fresh_for)

    async def look_twice(self, route: Route, place: Place) -> Presence:
        """Two looks far enough apart, for callers without a history."""
        first = await self.look(route, place)
        if single_vote(first.evidence).vote is not PresenceState.IDLE:
            return first
        await asyncio.sleep((SAMPLES_APART + 100) / 1000)
        return await self.look(route, place)

    def forget(self, identity: Identity) -> None:
        """Drop the samples of an identity's place: what follows a wake must be judged anew."""
        track = self._tracks.get(identity)
        if track is not None:
            track.samples.clear()

    async def run(self) -> None:
        """Survey for ever; quicker for a while where something waits and the pane has just changed."""
        quick_until = EPOCH_START
        while True:
            if await self.round():
                quick_until = Instant(self._clock.now() + QUICK_FOR)
            await asyncio.sleep(QUICK_ROUND if self._clock.now() < quick_until else ROUND)

    async def round(self) -> bool:
        """One survey of all watched places; True if a place changed for which something waits."""
        await self._resolve_new()
        by_adapter: dict[str, list[_Track]] = {}
        for track in self._tracks.values():
            by_adapter.setdefault(track.route.adapter, []).append(track)
        waiting = self._waiting()
        hurried = False
        for tracks in by_adapter.values():
            adapter = self._routes.adapter(tracks[0].route)
            pulses = await adapter.survey([track.place for track in tracks])
            for track in tracks:
                hurried |= await self._follow(adapter, track, pulses.get(track.place.key), waiting)
        return hurried

    async def _resolve_new(self) -> None:
        now = self._clock.now()
        wanted = set(self._watched())
        for gone in self._tracks.keys() - wanted:
            del self._tracks[gone]
        for identity in wanted:
            track = self._tracks.get(identity)
            if track is not None and now - track.resolved_at < RESOLVE_AGAIN:
                continue
            for route in self._routes.of(identity)[:1]:
                await self.locate(route)

    async def _follow(self, adapter: HarnessAdapter, track: _Track, pulse: str | None, waiting: set[Identity]) -> bool:
        identity = track.route.address.identity
        if pulse is None:
            self._tracks.pop(identity, None)
            return False
        newest = track.samples[-1].at if track.samples else EPOCH_START
        changed = pulse != track.pulse
        track.pulse = pulse
        if not changed and self._clock.now() - newest < LOOK_AGAIN:
            return False
        before = _verdict(track.samples[-1]) if track.samples else None
        after = _verdict(await self._sample(adapter, track.place, track.route.address, track))
        # a spinner that turns is a change, but no news
        is_news = changed and (after != before or after[0] is PresenceState.IDLE)
        if is_news and identity in waiting:
            self._changed(identity)
            return True
        return False

    async def _sample(self, adapter: HarnessAdapter, place: Place, address: Address, track: _Track) -> Observation:
        latest = await adapter.observe(place, address)
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


def _verdict(sample: Observation) -> tuple[PresenceState, HoldReason | None]:
    decided_by = single_vote(sample.evidence)
    return decided_by.vote, decided_by.hold
