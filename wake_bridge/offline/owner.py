"""Checks that a thing is the caller's own, before an act that an agent may only do for itself."""

from __future__ import annotations

import os
from contextlib import closing

from wake_bridge.domain.errors import LedgerError, NotFound, SourceMissing, WakeBridgeError
from wake_bridge.domain.names import Identity
from wake_bridge.domain.ownership import RULES, Invoker, require_own
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph.access import Graph, Node, WritableGraph
from wake_bridge.storage.graph.nodes import ensure_identity, find_identity
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ancestry import Ancestry, Homes, names_of_harnesses, processes_above


def may_touch(run: Workplace, command: str, identity: str, graph: Graph | None = None) -> bool:
    """Whether the identity is the invoker's own, or only opened to it by a permission.

    Args:
        run: the command.
        command: a key of `ownership.RULES`.
        identity: whose things it would touch.
        graph: where permissions stand; without it there are none.

    Raises:
        RefusedForSafety: it is another's, and nothing allows it.
    """

    def has_permission(scope: str, grantee: Identity) -> bool:
        return graph is not None and bool(graph.edges(scope, source=grantee, target=identity))

    return require_own(invoker(run), command, Identity(identity), has_permission)


def speaker(
    run: Workplace, command: str, graph: WritableGraph, identity: str, now: str, *, human: bool = False
) -> Node:
    """The node in whose name a command acts; made if it is not there, but for a person alone, who is told of a new agent.

    Raises:
        NotFound: there is none, and an agent asks, or the graph is another program's.
        RefusedForSafety: it is another's.
    """
    is_new = find_identity(graph, identity) is None
    if is_new and not invoker(run).is_person:
        raise NotFound(
            f"there is no identity {identity}, and agents may not create one: {invoker(run).told}",
            str(graph.place),
            hint=f"{RULES[command].instead}add it: `wake-bridge agent add {identity}`",
        )
    may_touch(run, command, identity, graph)
    node = ensure_identity(graph, identity, now, human=human)
    if is_new and node.properties.get("accountType") != "human" and identity not in run.settings.config.targets:
        run.warn(
            f"note: {identity} was added as an agent, so what it starts is braked as a loop of agents; if it is a person:"
            f" `wake-bridge agent add {identity} --human`"
        )
    return node


def sender_of(run: Workplace) -> str:
    """Who writes: an agent by its identity, or by its program where nobody knows whose it is; empty for a person."""
    who = invoker(run)
    return "" if who.is_person else min(who.identities, default=who.harness)


def invoker(run: Workplace) -> Invoker:
    """Who runs the command: told once, and as cheaply as it can be."""
    if run.invoker is None:
        run.invoker = _found(run)
    return run.invoker


def _found(run: Workplace) -> Invoker:
    above = processes_above(os.getpid())
    ancestry = Ancestry(above, names_of_harnesses(run.places.own_screens), os.environ, lambda who: is_known(run, who))
    homes = _written_down(run)
    found = ancestry.invoker(homes)
    if found.is_person or found.identities or not ancestry.is_in_a_pane:
        return found
    return ancestry.invoker(_looked_up(run, homes))


def is_known(run: Workplace, identity: str) -> bool:
    """Whether the graph knows the identity, or without a graph the configuration.

    What is started for another graph claims nobody of this one.
    """
    try:
        with run.open_mail(foreign=False, marking=False) as graph:
            return find_identity(graph, identity) is not None
    except SourceMissing:
        return run.has_no_graph() and identity in run.settings.config.targets
    except WakeBridgeError:
        return False


def _written_down(run: Workplace) -> Homes:
    try:
        with closing(LedgerStore.open(run.places.state_dir, read_only=True)) as ledger:
            remembered = [(one.identity, one.fence) for one in ledger.claims() if one.fence and one.until is None]
            return Homes([*ledger.bindings().items(), *remembered], ledger.all_sessions())
    except LedgerError:
        # what cannot be read says of nobody whose agent it is
        return Homes()


def _looked_up(run: Workplace, homes: Homes) -> Homes:
    """The same, and where tmux says that everybody's agent is now: what no daemon has seen yet."""
    import asyncio

    from wake_bridge.offline.inspection import Inspection

    try:
        fences = asyncio.run(Inspection(run.settings).fences())
    except WakeBridgeError:
        return homes
    return Homes([*homes.fences, *fences], homes.sessions)
