"""`setup`: turns the agents in the panes into identities, subscriptions and targets, and records it for undoing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wake_bridge.config.file import BlockTarget, read_block, write_block, write_first_config
from wake_bridge.config.settings import Settings
from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.graph_places import GraphPlace
from wake_bridge.domain.names import Identity, Trigger
from wake_bridge.domain.routing import Address
from wake_bridge.domain.setup import (
    CandidateAgents,
    FoundAgent,
    LostIdentity,
    Plan,
    Proposal,
    SetTarget,
    SetupStep,
    find_again,
    plan,
)
from wake_bridge.domain.subscriptions import BRIDGE_TARGET, SUBSCRIPTION_LABEL, parse_subscription
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.explain.pane_reports import PaneReport
from wake_bridge.integrations.setup_record import SetIdentity, SetupRecord, read_record, write_record
from wake_bridge.offline.actions import remember
from wake_bridge.offline.fragile_names import NameAdvice
from wake_bridge.offline.inspection import Inspection
from wake_bridge.panes import fragile_names, report_panes
from wake_bridge.ports.adapter import PaneLister, Place, Sight
from wake_bridge.storage.graph.access import Graph, WritableGraph
from wake_bridge.storage.graph.nodes import IDENTITY_LABEL, Wish, find_identity, put_identity, subscribe
from wake_bridge.storage.graph.opened import create_graph, graph_exists, open_graph, open_graph_to_write
from wake_bridge.system.clock import timestamp_now

TRIGGERS: Final = (Trigger.SENT_TO_ME, Trigger.TASK_STATE_CHANGED, Trigger.PERMISSION_GRANTED)


@dataclass(frozen=True, slots=True)
class SetupState:
    """What is there already: the graph's identities that are subscribed, those that may not be given away, and what was set up before."""

    known: frozenset[str]
    taken: frozenset[str]
    block: dict[str, BlockTarget]
    record: SetupRecord


def setup_state(settings: Settings) -> SetupState:
    """Read graph, configuration and record.

    Raises:
        SourceError: there is a graph, but it cannot be read.
        OperationFailed: block or record are damaged.
        RefusedForSafety: somebody changed the block.
    """
    known: frozenset[str] = frozenset()
    taken = set(settings.config.targets)
    if graph_exists(settings.graph_place):
        with open_graph(settings.graph_place) as graph:
            nodes = graph.nodes(IDENTITY_LABEL)
            subscribed = {
                str(parse_subscription(node.id, node.properties).identity) for node in graph.nodes(SUBSCRIPTION_LABEL)
            }
            known = frozenset(node.id for node in nodes) & subscribed
            taken |= {node.id for node in nodes if node.properties.get("accountType") == "human"}
            taken |= subscribed
    return SetupState(known, frozenset(taken), read_block(settings.config_file), read_record(settings.state_dir))


def proposed(settings: Settings, reports: Sequence[PaneReport], now: SetupState) -> Plan:
    """The plan for every agent that has a name to be reached by.

    Raises:
        RefusedForSafety: a name that an agent would get is configured by hand for another pane.
    """
    found = [
        FoundAgent(one.sight.harness, one.sight.directory, one.sight.name, one.sight.socket, one.identities)
        for one in reports
        if one.sight.harness and one.sight.name
    ]
    by_hand = {name: table.pane for name, table in settings.config.targets.items() if name not in now.block}
    made = plan(found, _set_targets(now, by_hand), by_hand, now.taken, now.known, Path.home())
    for identity, pane in made.conflicts.items():
        raise RefusedForSafety(
            f"{identity} is configured by hand for the pane {pane!r}, where no agent is now",
            str(settings.config_file),
            hint=f'correct or remove [targets."{identity}"] there, then run `wake-bridge setup` again',
        )
    return made


def nameless(reports: Sequence[PaneReport]) -> list[PaneReport]:
    """The agents that no name means, so that no target can be written for them."""
    return [one for one in reports if one.sight.harness and not one.sight.name]


async def fragile(settings: Settings, made: Plan, reports: Sequence[PaneReport]) -> list[NameAdvice]:
    """Whose names need not last: of what is proposed, and of what was set up by hand."""
    sights = {(one.sight.name, one.sight.socket): one.sight for one in reports if one.sight.name}
    ours = [
        NameAdvice(one.agent.identity, sight.name, sight.doubts, sight.lasting, "`wake-bridge setup`")
        for one in made.proposals
        if one.is_ours and (sight := sights[one.agent.pane, one.socket]).doubts
    ]
    by_hand = [Identity(one.agent.identity) for one in made.proposals if not one.is_ours]
    return [*ours, *(await fragile_names(Inspection(settings), settings, by_hand) if by_hand else [])]


def _set_targets(now: SetupState, by_hand: Mapping[str, str]) -> list[SetTarget]:
    """What earlier runs wrote, also those that were stopped before they wrote the target."""
    recorded = {one.identity: one for one in now.record.identities}
    targets = {
        name: BlockTarget(one.pane, one.socket, one.harness, one.directory) for name, one in recorded.items()
    } | now.block
    return [
        SetTarget(name, target.pane, target.socket, recorded[name].harness, Path(recorded[name].directory))
        if name in recorded
        else SetTarget(name, target.pane, target.socket)
        for name, target in targets.items()
        if name not in by_hand
    ]


def carry_out(settings: Settings, made: Plan, now: SetupState, *, foreign: bool) -> None:
    """Do what the plan says, each step recorded before it is done. Repeated after a crash it does what is left.

    Args:
        settings: those in force before; configuration and graph need not exist.
        made: the plan.
        now: what the plan was made from.
        foreign: whether a graph that another program made may be written.

    Raises:
        RefusedForSafety: the graph is another program's, or the configuration cannot take the targets.
        OperationFailed: a file cannot be written.
        SourceError: the graph cannot be written.
    """
    record = _prepare(settings, now.record)
    todo = [one for one in made.proposals if one.step not in {SetupStep.KEEP, SetupStep.KEEP_BY_HAND}]
    with open_graph_to_write(settings.graph_place, allow_foreign=foreign) as graph:
        for one in todo:
            record = _enlist(settings.state_dir, graph, one, record)
    entries = {**now.block, **{one.agent.identity: _target_of(one) for one in todo}}
    for gone in made.dropped:
        entries.pop(gone.identity, None)
    write_block(settings.config_file, entries)
    finished = tuple(replace(one, finished=one.finished or one.identity in entries) for one in record.identities)
    write_record(settings.state_dir, replace(record, identities=finished))


async def remember_panes(settings: Settings, made: Plan, reports: Sequence[PaneReport]) -> None:
    """Whoever was just set up lives in the pane that was seen, whatever comes to have its name before a daemon looks.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    sights = {(one.sight.name, one.sight.socket): one.sight for one in reports if one.sight.name}
    todo = [one for one in made.proposals if one.step not in {SetupStep.KEEP, SetupStep.KEEP_BY_HAND}]
    await rebind(settings, {Identity(one.agent.identity): sights[one.agent.pane, one.socket] for one in todo})


def _target_of(one: Proposal) -> BlockTarget:
    return BlockTarget(one.agent.pane, one.socket, one.agent.harness, str(one.agent.directory))


def _prepare(settings: Settings, record: SetupRecord) -> SetupRecord:
    """Configuration and graph, as `init` makes them."""
    config, graph = settings.config_file, settings.graph_place
    if not record.config:
        record = replace(
            record,
            config=str(config),
            config_made=not config.exists(),
            graph=str(graph),
            graph_made=not graph_exists(graph),
            directories=tuple(map(str, _missing(config.parent, *_parents(graph), settings.state_dir))),
        )
    write_record(settings.state_dir, record)
    create_graph(graph, timestamp_now())
    write_first_config(config, None)
    return record


def _parents(graph: GraphPlace) -> list[Path]:
    return [graph.parent] if isinstance(graph, Path) else []


def _missing(*directories: Path) -> Iterable[Path]:
    """Those directories, and those above them, that are not there yet; outermost first."""
    missing = {one for directory in directories for one in (directory, *directory.parents) if not one.exists()}
    return sorted(missing, key=lambda one: (len(one.parts), str(one)))


def _enlist(state_dir: Path, graph: WritableGraph, one: Proposal, record: SetupRecord) -> SetupRecord:
    """The identity and its subscriptions; one that only moved has them already."""
    agent = one.agent
    known = next((known for known in record.identities if known.identity == agent.identity), None)
    was_there = find_identity(graph, agent.identity) is not None
    mine = SetIdentity(
        identity=agent.identity,
        harness=agent.harness,
        directory=str(agent.directory),
        pane=agent.pane,
        socket=one.socket,
        added=not was_there or (known is not None and known.added),
        subscriptions=known.subscriptions if known else (),
        finished=known is not None and known.finished,
    )
    record = _with(record, mine)
    write_record(state_dir, record)
    if mine.finished and was_there and _is_subscribed(graph, agent.identity):
        return record  # which triggers it has is the person's choice by now
    put_identity(graph, agent.identity, timestamp_now())
    for trigger in TRIGGERS:
        done = subscribe(graph, agent.identity, Wish(trigger=trigger, harness_target=BRIDGE_TARGET), timestamp_now())
        if done.created:
            mine = replace(mine, subscriptions=(*mine.subscriptions, done.subscription_id))
            record = _with(record, mine)
            write_record(state_dir, record)
    return record


def _is_subscribed(graph: Graph, identity: str) -> bool:
    return any(node.properties.get("agentIdentity") == identity for node in graph.nodes(SUBSCRIPTION_LABEL))


def _with(record: SetupRecord, mine: SetIdentity) -> SetupRecord:
    others = [one for one in record.identities if one.identity != mine.identity]
    return replace(record, identities=tuple(sorted([*others, mine], key=lambda one: one.identity)))


@dataclass(frozen=True, slots=True)
class Rebinding:
    """Who is lost, the agents that each could be, and where these are."""

    findings: Sequence[CandidateAgents]
    sights: Mapping[FoundAgent, Sight]


async def who_is_lost(settings: Settings) -> Rebinding:
    """Look for every identity whose pane nobody can tell, and for the agents that are nobody's.

    Raises:
        OperationFailed: no adapter can list panes.
    """
    view = Inspection(settings)
    addresses = [view.routes.address(one) for one in view.identities() if await view.has_moved(one)]
    sights = {
        FoundAgent(
            one.sight.harness, one.sight.directory, one.sight.name or one.sight.pane_id, one.sight.server
        ): one.sight
        for one in (await report_panes(settings, looks=False)).panes
        if one.sight.harness and not one.identities
    }
    return Rebinding(find_again([_lost(one) for one in addresses], list(sights)), sights)


def _lost(address: Address) -> LostIdentity:
    expected = address.expected
    directory = Path(expected.directory).resolve() if expected.directory else None
    return LostIdentity(address.identity, address.name, expected.agent or address.harness, directory)


async def rebind(settings: Settings, chosen: Mapping[Identity, Sight]) -> list[Identity]:
    """From now on each identity lives in the pane that was chosen; answers those whose agent is gone meanwhile.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    view, gone = Inspection(settings), []
    for identity, sight in chosen.items():
        meant = Address(Identity(""), pane=sight.pane_id, socket=sight.server)
        adapter = next(one for one in view.loaded.adapters.values() if isinstance(one, PaneLister))
        place = await adapter.resolve(meant)
        if isinstance(place, Place) and place.fence is not None and place.fence.agent_pid:
            remember(settings, view.routes.address(identity), place, view.clock.now())
        else:
            gone.append(identity)
    return gone
