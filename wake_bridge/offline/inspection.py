"""What a command sees without the daemon: the graph's standing, routes and panes, the workshop for screens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.file import changed_lines
from wake_bridge.config.settings import Settings, engine_settings, installed_adapters, matching_rules
from wake_bridge.control.client import ask
from wake_bridge.control.instance_lock import lived_until, liveness, reload_command
from wake_bridge.domain.causes import Cause, HoldReason, cause_written
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.errors import NotFound, NotRunning, OperationFailed, RefusedForSafety, SourceError
from wake_bridge.domain.heartbeat import HEARTBEAT, Driver, drivers
from wake_bridge.domain.names import EPOCH_START, Epoch, Identity, Instant, LogId, did_you_mean
from wake_bridge.domain.routing import Address, Binding, RememberedPane
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.whereabouts import who_lives_in
from wake_bridge.engine.settings import Current
from wake_bridge.engine.tail.resync import Resync, resync
from wake_bridge.engine.tail.takeover import TakenOver, take_over
from wake_bridge.engine.watch.look import Reach, reach_of
from wake_bridge.engine.watch.memory import Memory, claims_of
from wake_bridge.engine.watch.prospects import Prospects
from wake_bridge.engine.watch.routes import Routes
from wake_bridge.engine.watch.watch import Watch
from wake_bridge.ports.adapter import (
    Check,
    LeavesMarks,
    Nowhere,
    PaneBinder,
    PaneLister,
    Place,
    ScreenWorkshop,
)
from wake_bridge.records import routes_record
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.file import GraphFile
from wake_bridge.storage.graph.glance import book_of
from wake_bridge.storage.graph.nodes import IDENTITY_LABEL
from wake_bridge.storage.graph.upstream import read_inheritance
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ancestry import own_session
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.wiring import make_adapters

PATIENCE: Final = 30.0
"""Seconds for the daemon to look at places that are slow to answer."""


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
        memory = Memory(ledger, self.clock.now() if ended is None else min(ended, self.clock.now()))
        remembered = {one.identity: memory.of(one.identity) for one in held if one.until is None}
        self.degraded = ledger.degraded_routes()
        self.window_hits = ledger.window_hits()
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
            unserved=self._book.why_nothing_serves,
        )
        self.watch = Watch(self.routes, self.current, self.clock, watched=tuple, waiting=set, changed=lambda _: None)

    def _read_graph(self) -> bool:
        try:
            with GraphFile(self._settings.graph_path) as graph:
                book = self._book = book_of(graph, self._settings)
                self._drivers = drivers(book, {*self._bindings, *map(Identity, self._settings.config.targets)})
                self._identities = frozenset(node.id for node in graph.nodes(IDENTITY_LABEL))
                self._active = book.subscribed()
                for one in book.all():
                    self._subscribed[one.identity] = book.of(one.identity)
                return bool(graph.is_embedded)
        except SourceError:
            # without a graph the configured targets can still be looked at
            self._identities = frozenset()
            self._drivers = {}
            return True

    def identities(self) -> list[Identity]:
        """Everyone who has a route: subscribed, or named in `[targets]`."""
        served = {who for who, theirs in self._subscribed.items() if theirs}
        return sorted(served | set(self.current.settings.targets))

    def subscribed(self, identity: Identity) -> tuple[Subscription, ...]:
        """Its subscriptions that are served."""
        return self._subscribed.get(identity, ())

    def speaker(self, identity: Identity) -> Subscription | None:
        """The subscription whose pane is the identity's; None where something else says where it lives."""
        address = self.routes.address(identity)
        return None if address.pane or address.binding else self.routes.speaks_for(identity)

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

    async def reach(self, identities: Iterable[Identity]) -> dict[Identity, Reach]:
        """Where each can be woken now; the daemon alone knows who listens on a native channel, and is asked for it."""
        found = {one: await reach_of(one, self.routes, self.watch) for one in dict.fromkeys(identities)}
        missing = [one for one, reach in found.items() if reach.hold is not None]
        with suppress(NotRunning, OperationFailed, LookupError, TypeError, ValueError):
            told = ask(self._settings.state_dir, "reach", identities=missing, timeout=PATIENCE) if missing else {}
            for one in missing:
                reach = _reach_told(told[one])
                if reach.hold is None and self.loaded.adapters[reach.adapter].capabilities.composer_independent:
                    found[one] = reach
        return found

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
        prospects = Prospects(identity, self.routes, self.watch, self.current, self.clock, patient=True)
        verdict = await prospects.look_everywhere()
        aside = {one.adapter: one.why for one in self.degraded if one.identity == identity}
        return routes_record(identity, prospects.all, prospects.authority, verdict, aside)

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


def _reach_told(record: Mapping[str, Any]) -> Reach:
    """A `Reach` as the daemon answered it."""
    hold = record["hold"]
    if hold is not None:
        cause = cause_written(hold.get("cause"))
        hold = Hold(HoldReason(hold["reason"]), str(hold["detail"]), str(hold["where"]), cause=cause)
    return Reach(**{**record, "hold": hold})


def driven_elsewhere(settings: Settings) -> dict[Identity, Driver]:
    """Whom a heartbeat that is not ours must skip: the push-capable, and while our daemon runs those it serves.

    Raises:
        SourceError: the graph cannot be read.
        LedgerError: the ledger cannot be read.
    """
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    bound = {*ledger.bindings(), *map(Identity, settings.config.targets)}
    ledger.close()
    with GraphFile(settings.graph_path) as graph:
        found = drivers(book_of(graph, settings), bound)
    skipped = {Driver.PUSH}
    # where nobody can tell, another heartbeat must keep away
    if liveness(settings.state_dir) != "no":
        nudges = settings.config.adapters.get(HEARTBEAT, {}).get("enabled", True)
        skipped |= {Driver.BRIDGE, *([Driver.HEARTBEAT] if nudges else [])}
    return {identity: driver for identity, driver in sorted(found.items()) if driver in skipped}


@dataclass(frozen=True, slots=True)
class Bound:
    """Where an identity was bound: a pane, a conversation of a harness, or both; never neither.

    `beside` are the other identities that were found in that pane last, or with the agent that is in it.
    """

    place: Place | None
    session: Session | None
    beside: tuple[Identity, ...] = ()


async def bind(settings: Settings, identity: Identity, pane: str | None) -> Bound:
    """Tie an identity to a pane, in the place itself and in the ledger, and to the conversation this is run in.

    Raises:
        NotFound: there is no such pane, or this process runs in none and in no conversation.
        RefusedForSafety: the identity's `[targets]` entry names another pane, and would win.
        OperationFailed: no adapter can be bound to, or tmux refused.
    """
    clock = SteadyClock()
    session = None if pane else own_session(identity, os.environ, clock.now())
    try:
        place, beside = await _bind_to_pane(settings, identity, pane, clock)
    except (NotFound, OperationFailed):
        if session is None:
            raise
        place, beside = None, ()
    if session is not None:
        with closing(LedgerStore.open(settings.state_dir)) as ledger:
            ledger.meet_session(session)
    return Bound(place, session, beside)


async def _bind_to_pane(
    settings: Settings, identity: Identity, pane: str | None, clock: SteadyClock
) -> tuple[Place, tuple[Identity, ...]]:
    view = Inspection(settings)
    for adapter in view.loaded.adapters.values():
        if isinstance(adapter, PaneBinder):
            place = await adapter.binding_for(pane, os.environ)
            if place.fence is None:
                break
            await _require_no_other_target(view, settings, identity, adapter, place)
            address = view.routes.address(identity)
            await adapter.mark_identity(place, identity)
            with closing(LedgerStore.open(settings.state_dir)) as ledger:
                ledger.bind(identity, place.fence, clock.now())
            remember(settings, address, place, clock.now())
            return place, tuple(sorted(who_lives_in(place.fence, address.claims()) - {identity}))
    raise OperationFailed("no adapter can be bound to a pane", hint="`wake-bridge adapters` lists them")


async def _require_no_other_target(
    view: Inspection, settings: Settings, identity: Identity, binder: PaneBinder, place: Place
) -> None:
    """A binding that `[targets]` overrules would help nobody. What its name led to before may be said anew."""
    target = settings.config.targets.get(identity)
    if target is None or not target.pane:
        return
    route = view.routes.by(identity, target.adapter)
    if route is not None:
        # a target that means nothing any more, as an id of a server that is gone, overrules no binding
        bound = replace(route.address, remembered=None, binding=place.fence)
        found = [await view.loaded.adapters[target.adapter].resolve(one) for one in (route.address, bound)]
        if any(isinstance(one, Place) and one.key == place.key for one in found):
            return
    sights = (await binder.list_panes()).seen if isinstance(binder, PaneLister) else ()
    sight = next((one for one in sights if one.place.key == place.key and one.name), None)
    wanted = {"pane": sight.name if sight is not None else place.label}
    if sight is not None:
        now = {"socket": sight.socket, "agent": sight.harness, "directory": str(sight.directory)}
        said = {"socket": target.socket, "agent": target.agent, "directory": target.directory}
        # an agent and a directory that nobody asked for need not be said
        wanted |= {key: value for key, value in now.items() if key == "socket" or said[key]}
    file = settings.config_file
    changes = changed_lines(file, identity, wanted)
    told = "; ".join(f"line {number}: `{was.strip()}` becomes `{becomes.strip()}`" for number, was, becomes in changes)
    reload = reload_command(settings.state_dir)
    raise RefusedForSafety(
        f"[targets] says that {identity} is in {target.pane!r}, and wins: the binding would not be used",
        f"{file}:{changes[0][0]}" if changes else str(file),
        hint=f"{told or 'change `pane` there'}{f'; then `{reload}` has the daemon read it' if reload else ''}",
    )


def remember(settings: Settings, address: Address, place: Place, now: Instant) -> None:
    """From now on that place is the identity's, whatever the name that is said for it leads to.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    if place.fence is None:
        return
    with closing(LedgerStore.open(settings.state_dir)) as ledger:
        was = ledger.remembered(address.identity)
        ledger.remember(address.identity, RememberedPane(address.name, address.socket, place.fence, now, now), was)


async def unbind(settings: Settings, identity: Identity) -> tuple[bool, list[str]]:
    """Forget where an identity was bound, in the ledger and in the places themselves.

    Returns:
        Whether the ledger knew of a pane or of a conversation, and the places that said they were the identity's.

    Raises:
        OperationFailed: tmux refused.
    """
    ledger = LedgerStore.open(settings.state_dir)
    try:
        binding = ledger.binding(identity)
        is_known = binding is not None or ledger.remembered(identity) is not None
        said: list[str] = []
        for adapter in make_adapters(settings, SteadyClock()).adapters.values():
            if isinstance(adapter, PaneBinder):
                said += await adapter.unmark_identity(identity, binding)
        ledger.unbind(identity)
        theirs = ledger.sessions_of(identity)
        for session in theirs:
            ledger.part_from_session(session.session_id)
    finally:
        ledger.close()
    return is_known or bool(theirs), said


async def take_marks_back(settings: Settings) -> list[str]:
    """Leave nothing of the daemon's own in the places it drove; answers where there was something.

    Raises:
        OperationFailed: tmux refused.
    """
    with closing(LedgerStore.open(settings.state_dir, read_only=True)) as ledger:
        bound = [binding.socket for binding in ledger.bindings().values()]
    named = [one.socket for one in settings.config.targets.values()]
    sockets = {socket for socket in (*bound, *named) if socket}
    marked: list[str] = []
    for adapter in make_adapters(settings, SteadyClock()).adapters.values():
        if isinstance(adapter, LeavesMarks):
            marked += await adapter.take_marks_back(sockets)
    return marked


def workshop(settings: Settings) -> ScreenWorkshop:
    """The adapter that judges screens. Raises `OperationFailed` if none does."""
    for adapter in make_adapters(settings, SteadyClock()).adapters.values():
        if isinstance(adapter, ScreenWorkshop):
            return adapter
    raise OperationFailed("no adapter judges screens", hint="`wake-bridge adapters` lists them")


def replay(settings: Settings, subscription_id: str, since: LogId) -> Resync:
    """Match the log after `since` again for one subscription, and put what matched into the ledger.

    Raises:
        UsageMistake: the log ends before `since`.
        NotFound: there is no such subscription.
        SourceError: the graph cannot be read.
        LedgerError: the ledger cannot be written.
    """
    clock = SteadyClock()
    log = SqliteGraph(settings.graph_path)
    ledger = LedgerStore.open(settings.state_dir)
    try:
        position = ledger.position()
        again = resync(
            log,
            subscription_id,
            since,
            rules=matching_rules(settings, installed_adapters()),
            epoch=position.epoch if position else Epoch(1),
            now=clock.now(),
            wall=clock.wall(),
            new_id=new_ulid,
        )
        ledger.replay(again.events, clock.now())
        return again
    finally:
        ledger.close()
        log.close()


def inherit(settings: Settings, directory: Path) -> tuple[TakenOver, tuple[str, ...]]:
    """Go on where the upstream daemon of that directory stopped; also answers what of it could not be read.

    Raises:
        SourceError: the graph cannot be read.
        LedgerError: the ledger cannot be written.
    """
    inheritance, problems = read_inheritance(directory)
    log = SqliteGraph(settings.graph_path)
    ledger = LedgerStore.open(settings.state_dir)
    try:
        rules = matching_rules(settings, installed_adapters())
        return take_over(log, ledger, inheritance, rules, SteadyClock(), new_ulid), problems
    finally:
        ledger.close()
        log.close()
