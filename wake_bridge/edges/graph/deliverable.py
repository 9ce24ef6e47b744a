"""Whether a subscription can be delivered as things stand, or what somebody must change first (CONTRACT, `list`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL, Subscription, parse_subscription
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.graph.glance import book_of
from wake_bridge.edges.graph.graph_file import GraphFile
from wake_bridge.edges.graph.identity_nodes import find_identity
from wake_bridge.edges.graph.subscription_nodes import shown_subscription

DEFAULT_ADAPTER: Final = "tmux"

ResolveTarget = Callable[[Subscription], str]
"""Asks a subscription's adapter for its one place, now: empty when there is one, else what is wrong."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What deliverability depends on besides the graph; `resolve_target` None leaves the target itself unasked."""

    settings: Settings
    adapters: Collection[str]
    resolve_target: ResolveTarget | None = None


def judge_subscriptions(graph: GraphFile, circumstances: Circumstances) -> list[dict[str, Any]]:
    """Every subscription as the commands print it, with `deliverable` and `why`, and in `note` what goes by a default."""
    book, judged = book_of(graph, circumstances.settings), []
    for node in graph.nodes(SUBSCRIPTION_LABEL):
        subscription = parse_subscription(node.id, node.properties)
        why = why_undeliverable(subscription, book, graph, circumstances)
        note = "; ".join(f"{one}: the default is taken" for one in subscription.remarks)
        judged.append({**shown_subscription(node), "deliverable": not why, "why": why, "note": note})
    return judged


def why_undeliverable(
    subscription: Subscription, book: SubscriptionBook, graph: GraphFile, circumstances: Circumstances
) -> str:
    """What somebody must change before this subscription can wake anyone; empty when nothing.

    A busy or unattended pane is nothing of that kind: its wake is held and comes by itself.
    """
    if why := book.why_unwoken(subscription):
        return why
    if (participation := _participation(graph, subscription)) != "active":
        return f"{subscription.identity} is {participation}"
    why = circumstances.resolve_target(subscription) if circumstances.resolve_target is not None else ""
    # a native channel may lead there although its own adapter does not
    return why and (_why_no_adapter(subscription, circumstances) or why)


def _why_no_adapter(subscription: Subscription, circumstances: Circumstances) -> str:
    config = circumstances.settings.config
    target = config.targets.get(subscription.identity)
    name = target.adapter if target is not None else subscription.adapter or DEFAULT_ADAPTER
    if name not in circumstances.adapters:
        return (
            f"no adapter named {name} is installed (there are: {', '.join(sorted(circumstances.adapters)) or 'none'})"
        )
    if config.adapters.get(name, {}).get("enabled", True) is not True:
        return f"the adapter {name} is switched off in the configuration"
    return ""


def _participation(graph: GraphFile, subscription: Subscription) -> str:
    node = find_identity(graph, subscription.identity)
    if node is None:
        return "no identity of this graph"
    return str(node.properties.get("participationStatus") or "active")
