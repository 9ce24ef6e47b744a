"""What the settings say about matching, in the domain's words."""

from __future__ import annotations

from collections.abc import Collection

from wake_bridge.domain.matching import MatchingRules, TargetRule
from wake_bridge.domain.names import Identity, WakePolicy
from wake_bridge.edges.configuration.config import Settings

SECOND = 1000
"""Milliseconds."""


def matching_rules(settings: Settings, known_adapters: Collection[str] | None = None) -> MatchingRules:
    """The rules that follow from the settings; `known_adapters` None means that nobody asked."""
    config = settings.config
    default = config.policy.default
    return MatchingRules(
        targets={
            Identity(name): TargetRule(window=table.window, policy=table.policy)
            for name, table in config.targets.items()
        },
        default_policy=None if default == "auto" else WakePolicy(default),
        default_window=config.coalesce.window,
        catch_up=config.policy.catch_up * SECOND,
        user_scope=config.graph.user_scope,
        serve=frozenset(config.graph.serve),
        known_adapters=None if known_adapters is None else frozenset(known_adapters),
    )
