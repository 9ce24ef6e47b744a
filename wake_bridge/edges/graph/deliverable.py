"""Whether a subscription can be delivered as things stand, or what somebody must change first (CONTRACT, `list`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from wake_bridge.domain.subscriptions import (
    BRIDGE_TARGET,
    SUBSCRIPTION_LABEL,
    Subscription,
    parse_subscription,
    serves,
    with_known_adapters,
)
from wake_bridge.edges.configuration.config import Settings
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
    """Every subscription as the commands print it, with `deliverable` and `why`."""
    judged = []
    for node in graph.nodes(SUBSCRIPTION_LABEL):
        subscription = with_known_adapters(parse_subscription(node.id, node.properties), circumstances.adapters)
        why = why_undeliverable(subscription, graph, circumstances)
        judged.append({**shown_subscription(node), "deliverable": not why, "why": why})
    return judged


def why_undeliverable(subscription: Subscription, graph: GraphFile, circumstances: Circumstances) -> str:
    """What somebody must change before this subscription can wake anyone; empty when nothing.

    A busy or unattended pane is nothing of that kind: its wake is held and comes by itself.
    """
    config = circumstances.settings.config
    target = config.targets.get(subscription.identity)
    if subscription.status != "active":
        return f"its status is {subscription.status}: `wake-bridge update {subscription.id} --recover`"
    if subscription.is_heartbeat_only:
        return f"its harnessTarget is {subscription.harness_target}: nothing is injected, only the heartbeat speaks"
    if not serves(subscription, embedded=graph.is_embedded, serve=config.graph.serve):
        return f"{subscription.harness_target} is served by the graph's own server, not by wake-bridge"
    if target is None and subscription.harness_target not in {BRIDGE_TARGET, *config.graph.serve}:
        return f"no adapter serves the harnessTarget {subscription.harness_target}"
    if target is None and subscription.problems:
        return "; ".join(subscription.problems)
    if (participation := _participation(graph, subscription)) != "active":
        return f"{subscription.identity} is {participation}"
    name = target.adapter if target is not None else subscription.adapter or DEFAULT_ADAPTER
    if name not in circumstances.adapters:
        return (
            f"no adapter named {name} is installed (there are: {', '.join(sorted(circumstances.adapters)) or 'none'})"
        )
    if config.adapters.get(name, {}).get("enabled", True) is not True:
        return f"the adapter {name} is switched off in the configuration"
    return circumstances.resolve_target(subscription) if circumstances.resolve_target is not None else ""


def _participation(graph: GraphFile, subscription: Subscription) -> str:
    node = find_identity(graph, subscription.identity)
    if node is None:
        return "no identity of this graph"
    return str(node.properties.get("participationStatus") or "active")
