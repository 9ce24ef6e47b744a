"""Inspection without the daemon: routes and panes, the graph's state, screens. It changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wake_bridge.config.hosts import host_of_agent
from wake_bridge.config.settings import Settings, engine_settings
from wake_bridge.control.client import ask
from wake_bridge.control.instance_lock import lived_until, liveness
from wake_bridge.control.serving import reach_by_daemon
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.errors import NotFound, NotRunning, OperationFailed, SourceError
from wake_bridge.domain.homes import Home, Reach
from wake_bridge.domain.hosts import HostDirectory
from wake_bridge.domain.names import EPOCH_START, Identity, did_you_mean
from wake_bridge.domain.nudges import Driver, drivers
from wake_bridge.domain.receivers import Receiver
from wake_bridge.domain.routing import Address, Binding
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.explain.homes import homes_of
from wake_bridge.engine.explain.presence_query import presence_of, reach_of_receiver, reaches_of
from wake_bridge.engine.presence.remembered_panes import RememberedPanes, claims_of
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_states import RouteStates
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.integrations.adapters import make_adapters
from wake_bridge.ports.adapter import (
    Check,
    Nowhere,
    PaneLister,
    Place,
    ScreenWorkshop,
)
from wake_bridge.ports.hosts import HostReply, HostServed, NotSentThere
from wake_bridge.records import presence_record, routes_record
from wake_bridge.storage.graph.nodes import IDENTITY_LABEL
from wake_bridge.storage.graph.opened import open_graph
from wake_bridge.storage.graph.status import book_here, book_of
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock


class DaemonsLinks:
    """The links to other hosts, as the daemon says that they stand. See `HostLinks`: nothing is handed over by a command."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._whys: dict[str, str] | None = None

    def why_away(self, host: str) -> str:
        """See `HostLinks.why_away`."""
        if self._whys is None:
            self._whys = {}
            with suppress(NotRunning, OperationFailed, LookupError, TypeError):
                self._whys = {str(one["host"]): str(one["why"] or "") for one in ask(self._state_dir, "hosts")["hosts"]}
        return self._whys.get(host, "no daemon runs here")

    async def hand_over(self, host: str, envelope: str) -> HostReply:
        """See `HostLinks.hand_over`."""
        del envelope
        raise NotSentThere(f"the daemon alone hands wakes to {host}")


class Inspection:
    """What a command needs to look where the daemon would: adapters, routes, a watch without a history."""

    def __init__(self, settings: Settings) -> None:
        self.clock = SteadyClock()
        self.loaded = make_adapters(settings, self.clock)
        self._settings = settings
        ledger = LedgerStore.open(settings.state_dir, read_only=True)
        self._bindings = ledger.bindings()
        self._sessions = ledger.all_sessions()
        held = ledger.claims()
        # where no daemon runs, as the next one will see it
        ended = EPOCH_START if liveness(settings.state_dir) == "yes" else lived_until(settings.state_dir)
        memory = RememberedPanes(ledger, self.clock.now() if ended is None else min(ended, self.clock.now()))
        remembered = {one.identity: memory.of(one.identity) for one in held if one.until is None}
        self.degraded = ledger.degraded_routes()
        standings = {one.subscription_id: one for one in ledger.receiver_standings()}
        ledger.close()
        self._drivers: Mapping[Identity, Driver] = {}
        self._book = SubscriptionBook(embedded=True)
        self._subscribed: dict[Identity, tuple[Subscription, ...]] = {}
        self._active: frozenset[Identity] | None = None
        self.is_embedded = self._read_graph()
        self.current = Current(engine_settings(settings, embedded=self.is_embedded))
        self.routes = Routes(
            self.loaded.adapters,
            self.current,
            lambda who: self._subscribed.get(who, ()),
            self._bindings.get,
            lambda who: {one.adapter for one in self.degraded if one.identity == who},
            sessions_of=lambda who: [one for one in self._sessions if one.identity == who],
            remembered=remembered.get,
            claims=lambda: claims_of(held, self._sessions),
            everybody=self.identities,
            subscribed=lambda: self._active,
            unserved=self._book.nothing_serves,
            installed=[entry.name for entry in self.loaded.catalogue if entry.kind is not None],
            standing=standings.get,
            homes=HostDirectory(lambda who: host_of_agent(settings.state_dir, who)),
        )
        for adapter in self.loaded.adapters.values():
            if isinstance(adapter, HostServed):
                adapter.serve_hosts(DaemonsLinks(settings.state_dir))
        self.watch = Watch(
            self.routes, self.current, self.clock, watched=frozenset, waiting=set, changed=lambda _: None
        )

    def _read_graph(self) -> bool:
        self._identities: frozenset[str] = frozenset()
        if not self._settings.has_graph:
            self._know(book_here(self._settings))
            return False
        try:
            with open_graph(self._settings.graph_place) as graph:
                book = book_of(graph, self._settings)
                self._drivers = drivers(book, {*self._bindings, *map(Identity, self._settings.config.targets)})
                self._identities = frozenset(node.id for node in graph.nodes(IDENTITY_LABEL))
                self._know(book)
                return bool(graph.is_embedded)
        except SourceError:
            # without a graph the configured targets can still be looked at
            self._drivers = {}
            return True

    def _know(self, book: SubscriptionBook) -> None:
        self._book = book
        self._active = book.subscribed()
        for one in book.all():
            self._subscribed[one.identity] = book.of(one.identity)

    async def not_posted(self, identity: Identity, receiver: Receiver) -> Hold | None:
        """Why nothing goes to a receiver of an identity now; None where wakes are posted there."""
        return (await reach_of_receiver(identity, self.routes, self.watch, receiver)).hold

    def identities(self) -> list[Identity]:
        """Everyone who has a route: subscribed, or named in `[targets]`."""
        served = {who for who, theirs in self._subscribed.items() if theirs}
        return sorted(served | set(self.current.settings.targets))

    def subscribed(self, identity: Identity) -> tuple[Subscription, ...]:
        """Its subscriptions that are served."""
        return self._subscribed.get(identity, ())

    def nudged(self) -> list[Identity]:
        """Everyone who is left to the heartbeat."""
        return sorted(who for who, driver in self._drivers.items() if driver is Driver.HEARTBEAT)

    def sessions(self) -> list[Session]:
        """Every conversation that called in and did not say that it ended."""
        return list(self._sessions)

    def bound(self) -> list[Identity]:
        """Everyone who was bound to a place, subscribed or not."""
        return sorted(self._bindings)

    def require(self, identity: Identity) -> None:
        """Raises `NotFound` for an identity that neither graph nor configuration knows."""
        if identity not in self._identities and identity not in self.identities():
            meant = did_you_mean(identity, [*self._identities, *self.identities()])
            raise NotFound(
                "no such identity", identity, hint=f"{meant}`wake-bridge agent add {identity}`, or see `agent list`"
            )

    async def reach(
        self, identities: Iterable[Identity], told: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[Identity, Reach]:
        """Where each can be woken now; the daemon alone knows who listens on a native channel, and is asked for it.

        `told` is what it has answered already; None where nobody has asked.
        """
        found = await reaches_of(identities, self.routes, self.watch)
        missing = [one for one, reach in found.items() if reach.hold is not None]
        if told is None:
            told = reach_by_daemon(self._settings.state_dir, missing)
        for one in missing:
            with suppress(LookupError, TypeError):
                reach = Reach(**told[one])
                # a pane that it saw may be gone; an adapter that we have not, it has until it is started again
                ours = self.loaded.adapters.get(reach.adapter)
                if reach.hold is None and (ours is None or ours.capabilities.composer_independent):
                    found[one] = reach
        return found

    async def homes(self, identities: Iterable[Identity]) -> dict[Identity, Home]:
        """Where each can be woken now, and by whose word."""
        return await homes_of(identities, self.routes, self.watch, self.subscribed, self.reach)

    async def fences(self) -> list[tuple[Identity, Binding]]:
        """Where everybody's agent is now, of those that have a place of their own."""
        found = [
            (identity, await self.watch.locate(route))
            for identity in sorted({*self.identities(), *self.bound()})
            for route in self.routes.of(identity)
        ]
        return [(who, place.fence) for who, place in found if isinstance(place, Place) and place.fence is not None]

    async def has_moved(self, identity: Identity) -> bool:
        """Whether its name may mean another agent by now, so that a person has to say where it lives."""
        found = [await self.watch.locate(route) for route in self.routes.of(identity)]
        return any(isinstance(one, Nowhere) and one.reason is HoldReason.MOVED for one in found)

    async def routes_now(self, identity: Identity) -> dict[str, Any]:
        """What `routes` prints, by looks of our own."""
        route_states = RouteStates(
            identity,
            self.routes,
            self.watch,
            self.current,
            self.clock,
            patient=True,
            receivers=self.routes.receivers_of(identity),
        )
        verdict = await route_states.look_everywhere()
        aside = {one.adapter: one.why for one in self.degraded if one.identity == identity}
        return routes_record(identity, route_states.all, route_states.authority, verdict, aside)

    async def checks_of_agent(self, identity: Identity) -> Sequence[Check]:
        """What `doctor` asks of the agent that is there now; empty where none is."""
        for route in self.routes.of(identity):
            adapter = self.routes.adapter(route)
            if isinstance(adapter, ScreenWorkshop) and isinstance(place := await self.watch.locate(route), Place):
                return await adapter.checks_in(place, route.address)
        return ()

    async def require_pane(self, adapter: str, name: str) -> Place | None:
        """Make sure that a pane is called so, as far as the adapter can be asked; answers where it is, if one alone is.

        Raises:
            NotFound: none is; with those that may be meant.
        """
        asked = self.loaded.adapters.get(adapter)
        if asked is None:
            return None
        found = await asked.resolve(Address(Identity(""), suggested=name, suggested_written=self.clock.wall()))
        if isinstance(found, Place):
            return found
        if found.cause is not Cause.NO_SUCH_PANE:
            return None
        sights = (await asked.list_panes()).seen if isinstance(asked, PaneLister) else ()
        names = [text for one in sights for text in (one.name, one.pane_id) if text]
        near = get_close_matches(name, names, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise NotFound(found.detail, hint=f"{meant}`wake-bridge panes` lists them; start the agent there first")


def looked_at(settings: Settings, identity: Identity) -> dict[str, Any]:
    """How an identity's agent stands, by two looks of our own. Raises `NotFound` and `LedgerError`."""
    view = Inspection(settings)
    view.require(identity)
    return presence_record(
        identity, asyncio.run(presence_of(identity, view.routes, view.watch, view.current, view.clock))
    )


def routes_looked_at(settings: Settings, identity: Identity) -> dict[str, Any]:
    """The routes to an identity's agent, by looks of our own. Raises `NotFound` and `LedgerError`."""
    view = Inspection(settings)
    view.require(identity)
    return asyncio.run(view.routes_now(identity))


def unreachable(settings: Settings, identities: Sequence[Identity]) -> dict[Identity, Hold]:
    """Why those of them who cannot be reached now cannot, where the daemon does not say so.

    Raises:
        ConfigurationInvalid: an adapter refuses its table.
        LedgerError: the ledger cannot be read.
    """
    found = asyncio.run(Inspection(settings).reach(identities, {}))
    return {one: reach.hold for one, reach in found.items() if reach.hold is not None}


def workshop(settings: Settings) -> ScreenWorkshop:
    """The adapter that judges screens. Raises `OperationFailed` if none does."""
    for adapter in make_adapters(settings, SteadyClock()).adapters.values():
        if isinstance(adapter, ScreenWorkshop):
            return adapter
    raise OperationFailed("no adapter can classify screens", hint="`wake-bridge adapters` lists them")
