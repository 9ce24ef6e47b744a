"""Route recovery: sets failed routes aside, retries them with backoff, and uses them again when they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Route
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import Nowhere
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import SwitchStore

ROUND: Final = 1.0
"""Seconds between two looks at whose time it is."""


class RouteRecovery:
    """Sets routes aside and takes them into use again.

    What the ledger says was set aside before a start is asked at once.

    Args:
        restored: called with an identity one of whose routes answers again.
    """

    def __init__(
        self,
        ledger: SwitchStore,
        routes: Routes,
        watch: Watch,
        current: Current,
        clock: Clock,
        *,
        restored: Callable[[Identity], None],
    ) -> None:
        self._ledger = ledger
        self._routes = routes
        self._watch = watch
        self._current = current
        self._clock = clock
        self._restored = restored
        self._failures: dict[tuple[Identity, str], int] = {}
        self._ask_at: dict[tuple[Identity, str], Instant] = {}
        self._has_work = asyncio.Event()
        self._log = structlog.get_logger("watch")

    def set_aside(self, route: Route, why: str) -> None:
        """A route failed before anything was sent: the next one serves until it answers again."""
        identity = route.address.identity
        self._wait_longer(identity, route.adapter)
        self._ledger.degrade(identity, route.adapter, why, self._clock.now())
        self._log.warning("route_degraded", agent=identity, adapter=route.adapter, reason=why)
        self._has_work.set()

    def note_success(self, route: Route) -> None:
        """A route has delivered: what it failed before is forgotten."""
        self._failures.pop((route.address.identity, route.adapter), None)

    async def run(self) -> None:
        """Ask for ever, each when its time has come; where nothing is set aside there is nothing to wake up for."""
        while True:
            self._has_work.clear()
            if await self.tick():
                await asyncio.sleep(ROUND)
            else:
                await self._has_work.wait()

    async def tick(self) -> bool:
        """Ask the routes whose time has come; answers whether any route was set aside."""
        now, aside = self._clock.now(), self._ledger.degraded_routes()
        for one in aside:
            if self._ask_at.get((one.identity, one.adapter), EPOCH_START) <= now:
                await self._ask(one.identity, one.adapter)
        return bool(aside)

    async def _ask(self, identity: Identity, adapter: str) -> None:
        route = self._routes.by(identity, adapter)
        if route is not None and not await self._answers(route):
            self._wait_longer(identity, adapter)
            return
        # one whose adapter is not there any more cannot fail either
        self._ledger.restore(identity, adapter)
        self._ask_at.pop((identity, adapter), None)
        self._log.info("route_restored", agent=identity, adapter=adapter)
        self._restored(identity)

    async def _answers(self, route: Route) -> bool:
        place = await self._watch.locate(route)
        if isinstance(place, Nowhere):
            return False
        seen = await self._watch.look(route, place)
        is_known = seen.state is not PresenceState.UNKNOWN or seen.wants_second_look
        return is_known or seen.hold is HoldReason.NOT_LOADED

    def _wait_longer(self, identity: Identity, adapter: str) -> None:
        settings, key = self._current.settings, (identity, adapter)
        failures = self._failures[key] = self._failures.get(key, -1) + 1
        patience = min(settings.relook_min_ms * 2 ** min(failures, 8), settings.relook_max_ms)
        self._ask_at[key] = Instant(self._clock.now() + patience)
