"""The composition root: the only module that knows every floor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from wake_bridge.config.settings import Settings, engine_settings, matching_rules
from wake_bridge.control.instance_lock import lived_until
from wake_bridge.domain.errors import LedgerError, SourceUnavailable
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Epoch, Identity
from wake_bridge.domain.nudges import HEARTBEAT
from wake_bridge.domain.receivers import receiver_at
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.attention.answers_of_hosts import AnswersOfHosts
from wake_bridge.engine.attention.episodes import Episodes
from wake_bridge.engine.attention.escalations import Escalations
from wake_bridge.engine.attention.heartbeat import Heartbeat
from wake_bridge.engine.attention.notices import Notices
from wake_bridge.engine.attention.reminders import Reminders
from wake_bridge.engine.deliver.acknowledge import Acknowledge
from wake_bridge.engine.deliver.delivery_loop import Deliverer
from wake_bridge.engine.deliver.failed_turns import FailedTurns
from wake_bridge.engine.deliver.gate import Gate
from wake_bridge.engine.deliver.leases import Leases, SoleDriver, another_drives
from wake_bridge.engine.deliver.other_hosts import OtherHosts
from wake_bridge.engine.deliver.pushes import Pushes
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.deliver.unknown_outcomes import UnknownOutcomes
from wake_bridge.engine.graph_queries import GraphPresence, GraphQueries
from wake_bridge.engine.presence.remembered_panes import RememberedPanes
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_recovery import RouteRecovery
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.sessions.hook_handover import HookHandover
from wake_bridge.engine.sessions.registry import SessionRegistry
from wake_bridge.engine.sessions.session_identity import SessionIdentity
from wake_bridge.engine.settings import Current
from wake_bridge.engine.tail.intake import Intake, ItemEntrance
from wake_bridge.engine.tail.signed_wakes import SignedWakes
from wake_bridge.engine.tail.tail import EventNotifier, Tail
from wake_bridge.integrations.adapters import LoadedAdapters, make_adapters
from wake_bridge.integrations.channels import ChannelSenders
from wake_bridge.integrations.hosts.links import Links
from wake_bridge.ports.adapter import PushServed, SessionServed
from wake_bridge.ports.change_log import ChangeLog
from wake_bridge.ports.hosts import HostServed
from wake_bridge.ports.ledger import Ledger
from wake_bridge.storage.graph.absent import hints_of, log_at, open_log
from wake_bridge.storage.graph.source import is_busy
from wake_bridge.storage.graph.upstream import LastSyncId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.files import place_of_state
from wake_bridge.system.processes import processes
from wake_bridge.system.ulids import new_ulid

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """A value that a reload replaces as a whole."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def get(self) -> Value:
        """The value in force."""
        return self.value


@dataclass(frozen=True, slots=True)
class Parts:
    """The daemon's parts, wired; nothing runs yet. `everybody` are all that can be woken."""

    settings: Settings
    clock: SteadyClock
    ledger: LedgerStore
    queries: GraphQueries
    tail: Tail
    routes: Routes
    watch: Watch
    recovery: RouteRecovery
    deliverer: Deliverer
    acknowledge: Acknowledge
    unknowns: UnknownOutcomes
    failed_turns: FailedTurns
    heartbeat: Heartbeat
    human: ChannelSenders
    episodes: Episodes
    notices: Notices
    escalations: Escalations
    answers_of_hosts: AnswersOfHosts
    reminders: Reminders
    sessions: SessionRegistry
    handover: HookHandover
    loaded: LoadedAdapters
    rules: Latest[MatchingRules]
    current: Current
    is_embedded: bool
    signed: SignedWakes
    items: ItemEntrance
    pushes: Pushes
    links: Links
    leases: Leases
    everybody: Callable[[], AbstractSet[Identity]]
    is_dry_run: bool = False

    def residents(self) -> set[Identity]:
        """Who has a place on this host, as far as it is known by now."""
        named = {*self.everybody(), *self.ledger.bindings()}
        return {one for one in named if self.routes.has_place_here(one) or self.watch.place_of(one) is not None}

    async def close(self) -> None:
        """Give up files, threads and connections."""
        await self.notices.close()
        await self.tail.close()
        with suppress(LedgerError):
            self.watch.write_down()
        self.queries.close()
        self.leases.close()
        self.ledger.close()


def wire(
    settings: Settings,
    ledger: LedgerStore,
    cursor_directory: Path,
    *,
    other_driver: Callable[[], OtherDriver | None],
    dry_run: bool,
) -> Parts:
    """Build the daemon. The state directory's lock is the caller's business.

    Args:
        settings: what is configured.
        ledger: the ledger to work on; for a dry run a copy.
        cursor_directory: where `lastSyncId` is published.
        other_driver: what else drives the directory, None if nothing does.
        dry_run: decide and log, type nothing.

    Raises:
        SourceMissing: there is no graph.
        SourceNotAGraph: the file is none.
        SourceUnavailable: it may not be read; one that is merely locked is waited for.
    """
    clock = SteadyClock()
    links = Links(cursor_directory, lambda found: note_arrivals(found, links, ledger, deliverer))
    if settings.has_graph:
        require_graph(settings)
    loaded = make_adapters(settings, clock)
    graph = open_log(settings)
    rules = Latest(matching_rules(settings, loaded.adapters))
    is_embedded = _is_embedded(graph)
    current = Current(engine_settings(settings, embedded=is_embedded))
    leases = leases_of(settings, cursor_directory, ledger, clock, lambda: deliverer, lambda: watch, dry_run=dry_run)
    queries = GraphQueries(
        lambda: open_log(settings),
        leases.told,
        lambda: tail.identities,
    )
    report = structlog.get_logger("tail")
    tail = Tail(
        graph,
        ledger,
        hints_of(settings, lambda why: report.warning("no_hints", reason=why)),
        LastSyncId(cursor_directory),
        clock,
        new_ulid,
        rules=rules.get,
        poll_interval=settings.config.graph.poll_interval,
        on_events=lambda: deliverer.poke(),  # noqa: PLW0108 - made below
        on_rerouted=lambda identity: deliverer.look_at(identity),  # noqa: PLW0108 - made below
        on_word=lambda identity: episodes.note_word(identity),  # noqa: PLW0108 - made below
    )

    def everybody() -> AbstractSet[Identity]:
        """All that can be woken: those of the graph, and those that the configuration names."""
        reachable, named = tail.reachable_identities(), current.settings.targets.keys()
        return reachable if named <= reachable else reachable | named

    sessions = SessionRegistry(ledger, clock)
    memory = RememberedPanes(ledger, min(clock.now(), lived_until(cursor_directory) or clock.now()))
    routes = Routes(
        loaded.adapters,
        current,
        tail.subscriptions_of,
        ledger.binding,
        ledger.degraded,
        sessions.sessions_of,
        memory.of,
        memory.claims,
        everybody,
        tail.subscribed_identities,
        tail.nothing_serves,
        [entry.name for entry in loaded.catalogue if entry.kind is not None],
        ledger.receiver_standing,
        links.homes,
    )
    watch = Watch(
        routes,
        current,
        clock,
        watched=everybody,
        waiting=lambda: deliverer.waiting(),  # noqa: PLW0108 - made below
        changed=lambda identity: deliverer.look_at(identity),  # noqa: PLW0108 - made below
        told=lambda identity: sessions.evidence_of(identity, current.settings.fresh_for_ms),
        said=GraphPresence(queries, current, clock, lambda: tail.seen).of,
        memory=memory,
        driven_elsewhere=partial(another_drives, leases),
    )
    for adapter in loaded.adapters.values():
        if isinstance(adapter, SessionServed):
            adapter.serve_sessions(sessions)
        if isinstance(adapter, PushServed):
            adapter.serve_pushes(sessions.push_clients)
        if isinstance(adapter, HostServed):
            adapter.serve_hosts(links)
    recovery = RouteRecovery(
        ledger,
        routes,
        watch,
        current,
        clock,
        restored=lambda identity: deliverer.look_at(identity),  # noqa: PLW0108 - made below
    )
    gate = Gate(
        ledger,
        queries,
        routes,
        watch,
        recovery,
        current,
        clock,
        other_driver=other_driver,
        dry_run=dry_run,
        new_id=new_ulid,
        acted=sessions.acted_since,
        seen=lambda identity: episodes.look_at(identity, clock.now()),
        leases=leases,
    )
    deliverer = Deliverer(
        ledger,
        gate,
        current,
        clock,
        new_ulid,
        lambda who: bool(routes.receivers_of(who)),
        OtherHosts(ledger, leases, clock, other_driver, lambda: tail.identities),
    )
    gate.parts_with = deliverer.part
    acknowledge = Acknowledge(
        ledger,
        queries,
        current,
        clock,
        place=lambda: (tail.epoch, tail.cursor, tail.late_pages),
        moved=tail.moved,
        look_again=deliverer.look_at,
    )
    unknowns = UnknownOutcomes(ledger, queries, routes, current, clock, new_ulid, poke=deliverer.poke)
    failed_turns = FailedTurns(ledger, queries, new_ulid, poke=deliverer.poke)
    heartbeat = Heartbeat(
        ledger, queries, routes, watch, tail, current, clock, new_ulid, rules=rules.get, poke=deliverer.poke
    )
    human = ChannelSenders(
        settings.config, settings.config_file, settings.config.delivery.adapter_timeout, loaded.adapters.values()
    )
    episodes = Episodes(
        ledger,
        watch,
        current,
        clock,
        new_ulid,
        watched=everybody,
        changed=deliverer.look_at,
        watchers=tail,
    )
    answers_of_hosts = AnswersOfHosts(ledger, links, clock)
    escalations = Escalations(ledger, queries, current, tail.known_identities, answers_of_hosts.is_over)
    notices = Notices(
        ledger,
        human,
        current,
        clock,
        active_routes=lambda: active_routes(tail, watch) if tail.begun.is_set() else None,
        nudged=lambda: len(heartbeat.served()) if HEARTBEAT in loaded.adapters else 0,
        known=tail.known_identities,
        trouble=lambda: ledger.trouble,
        due=episodes.due,
        given_up=failed_turns.given_up,
        elsewhere=links.episodes,
        is_linked=links.is_known,
        is_somebody_active=episodes.is_somebody_active,
    )
    session_identity = SessionIdentity(
        sessions,
        ledger.session,
        ledger.all_sessions,
        current,
        clock,
        fences=watch.fences,
        reachable=everybody,
        processes=processes(),
    )
    handover = HookHandover(
        ledger,
        queries,
        sessions,
        session_identity,
        SwitchReader(ledger, current, clock, other_driver, leases.elsewhere),
        current,
        clock,
        new_ulid,
        place_of=watch.place_of,
        poke=deliverer.poke,
        dry_run=dry_run,
        leases=leases,
    )
    signed = SignedWakes(
        ledger,
        clock,
        new_ulid,
        rules=rules.get,
        epoch=lambda: tail.epoch if tail.begun.is_set() else Epoch(0),
        lives_here=lambda identity: lives_here(identity, settings, current, ledger, tail),
        notifier=EventNotifier(deliverer.poke),
    )

    def told_outside() -> None:
        deliverer.poke()
        notices.outbox.tick(clock.now())

    items = ItemEntrance(
        Intake(ledger, new_ulid),
        current,
        clock,
        epoch=lambda: tail.epoch if tail.begun.is_set() else Epoch(0),
        lives_here=lambda identity: lives_here(identity, settings, current, ledger, tail),
        poke=told_outside,
    )
    return Parts(
        settings=settings,
        signed=signed,
        items=items,
        pushes=gate.pushes,
        links=links,
        leases=leases,
        everybody=everybody,
        clock=clock,
        ledger=ledger,
        queries=queries,
        tail=tail,
        routes=routes,
        watch=watch,
        recovery=recovery,
        deliverer=deliverer,
        acknowledge=acknowledge,
        unknowns=unknowns,
        failed_turns=failed_turns,
        heartbeat=heartbeat,
        human=human,
        episodes=episodes,
        notices=notices,
        escalations=escalations,
        answers_of_hosts=answers_of_hosts,
        reminders=Reminders(ledger, clock, new_ulid, poke=deliverer.poke),
        sessions=sessions,
        handover=handover,
        loaded=loaded,
        rules=rules,
        current=current,
        is_embedded=is_embedded,
        is_dry_run=dry_run,
    )


def leases_of(
    settings: Settings,
    directory: Path,
    ledger: LedgerStore,
    clock: SteadyClock,
    deliverer: Callable[[], Deliverer],
    watch: Callable[[], Watch],
    *,
    dry_run: bool,
) -> Leases:
    """Who drives an identity: this daemon alone, or the host that holds its lease."""
    place = settings.graph_place
    if not settings.has_graph or not isinstance(place, GraphUrl) or dry_run:
        return SoleDriver()
    # whoever has a graph in a file needs none of this
    from wake_bridge.config.hosts import HostsFile  # noqa: PLC0415
    from wake_bridge.engine.deliver.host_leases import HostLeases  # noqa: PLC0415
    from wake_bridge.program_version import program_version  # noqa: PLC0415
    from wake_bridge.storage.graph.postgres.leases import PostgresLeases  # noqa: PLC0415

    host = HostsFile(directory).own_name(new_ulid())
    return HostLeases(
        PostgresLeases(place, host, place_of_state(directory), program_version()),
        host,
        ledger,
        clock,
        seen=lambda: watch().agents_here(),
        waiting=lambda: deliverer().waiting(),
        changed=lambda identity: deliverer().look_at(identity),
        told=lambda told: deliverer().end_told(told),
    )


def active_routes(tail: Tail, watch: Watch) -> int:
    """How many subscriptions can wake somebody now, by the adapter that they name or by a channel that was found."""
    return tail.active_routes + sum(watch.sighted(one) is not None for one in tail.unplaced_identities())


def note_arrivals(found: Iterable[Identity], links: Links, ledger: LedgerStore, deliverer: Deliverer) -> None:
    """What failed on the way to other hosts is forgotten, and what waits for these identities is looked at now."""
    # a ledger that cannot be written is told of by the chores; what waits is looked at later then
    with suppress(LedgerError):
        for one in found:
            for host in links.hosts_of(one):
                ledger.forget_receiver(receiver_at(host, one).subscription_id)
            deliverer.look_at(one)


def lives_here(identity: Identity, settings: Settings, current: Current, ledger: Ledger, tail: Tail) -> bool:
    """Whether an identity can have a place on this host: a target, a pane that was bound or found, a node in the graph."""
    if identity in current.settings.targets or (settings.has_graph and identity in tail.known_identities()):
        return True
    return ledger.binding(identity) is not None or ledger.remembered(identity) is not None


def require_graph(settings: Settings) -> None:
    """Raise what is wrong with the graph, unless it is only locked for the moment."""
    graph = log_at(settings.graph_place)
    try:
        graph.bounds()
    except SourceUnavailable as error:
        if not is_busy(error.__cause__):
            raise
    finally:
        graph.close()


def _is_embedded(graph: ChangeLog) -> bool:
    try:
        return graph.is_embedded()
    except SourceUnavailable:
        return False
