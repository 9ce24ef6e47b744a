"""The graph's status: where its log ends, and how many routes are active. Imports little: `status` asks often."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from wake_bridge.config.settings import (
    Settings,
    enabled_adapters,
    matching_rules,
    signed_subscriptions,
    unusable_adapters,
)
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.matching import MatchingRules, is_placed
from wake_bridge.domain.names import Identity
from wake_bridge.domain.nudges import HEARTBEAT, Driver, drivers
from wake_bridge.domain.signed_wakes import NO_GRAPH, NO_GRAPH_HINT
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL, parse_subscription
from wake_bridge.domain.values import dataclass
from wake_bridge.storage.graph.access import Graph, Node
from wake_bridge.storage.graph.opened import open_graph


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """The graph seen from outside the daemon. `trouble` says why it cannot be seen, `hint` what to do.

    `nudged` counts the identities that are left to the heartbeat; 0 where that is switched off.
    """

    tip: int | None = None
    active_routes: int = 0
    nudged: int = 0
    embedded: bool = False
    journal_mode: str = ""
    trouble: str = ""
    hint: str = ""


def graph_status(settings: Settings, bound: Iterable[Identity] = ()) -> GraphStatus:
    """Where the graph's log ends and who can be woken, `bound` ones included; never raises."""
    if not settings.has_graph:
        return GraphStatus(active_routes=book_here(settings).active_routes, trouble=NO_GRAPH, hint=NO_GRAPH_HINT)
    try:
        with open_graph(settings.graph_place) as graph:
            book = book_of(graph, settings)
            return GraphStatus(
                tip=graph.tip(),
                active_routes=book.active_routes,
                nudged=_nudged(book, settings, bound),
                embedded=graph.is_embedded,
                journal_mode=graph.journal_mode(),
            )
    except SourceError as error:
        return GraphStatus(trouble=str(error), hint=error.hint)


def book_here(settings: Settings) -> SubscriptionBook:
    """All subscriptions of the graph, or without one the word of each sender. Raises `SourceError`."""
    if not settings.has_graph:
        book = _empty_book(settings, embedded=False)
        for signed in signed_subscriptions(settings):
            book.put(signed)
        return book
    with open_graph(settings.graph_place) as graph:
        return book_of(graph, settings)


def book_of(graph: Graph, settings: Settings) -> SubscriptionBook:
    """All subscriptions, as the daemon judges them."""
    return book_from(graph.nodes(SUBSCRIPTION_LABEL), settings, embedded=graph.is_embedded)


def book_from(nodes: Iterable[Node], settings: Settings, *, embedded: bool) -> SubscriptionBook:
    """The same, of nodes that were read already."""
    book = _empty_book(settings, embedded=embedded)
    for node in nodes:
        book.put(parse_subscription(node.id, node.properties))
    for signed in signed_subscriptions(settings):
        book.put(signed)
    return book


def _empty_book(settings: Settings, *, embedded: bool) -> SubscriptionBook:
    @cache
    def rules() -> MatchingRules:
        # only who counts routes asks: it takes a look through all that is installed
        return matching_rules(settings, enabled_adapters(settings))

    targets = settings.config.targets
    return SubscriptionBook(
        embedded=embedded,
        serve=settings.config.graph.serve,
        has_target=lambda who: who in targets,
        is_placed=lambda one: is_placed(one, rules()),
        unusable=unusable_adapters(settings),
    )


def _nudged(book: SubscriptionBook, settings: Settings, bound: Iterable[Identity]) -> int:
    if not settings.config.adapters.get(HEARTBEAT, {}).get("enabled", True):
        return 0
    known = drivers(book, {*bound, *map(Identity, settings.config.targets)})
    return sum(driver is Driver.HEARTBEAT for driver in known.values())
