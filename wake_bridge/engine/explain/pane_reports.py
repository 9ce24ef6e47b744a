"""Every visible pane: the agent in it, its state, and who would be woken there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.homes import Reach
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Presence, PresenceState, fuse
from wake_bridge.domain.routing import Address
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import HarnessAdapter, PaneLister, Sight

PaneKey = tuple[str, str]
"""A pane by its adapter and the key of its place."""


@dataclass(frozen=True, slots=True)
class Glance:
    """How an agent stands, what decided it, and how many looks agree on it."""

    state: PresenceState
    why: str
    looks: int = 1
    cause: Cause = Cause.OTHER

    @classmethod
    def of(cls, presence: Presence) -> Self:
        """What one place showed. Idle, or moving, takes two looks to know."""
        is_of_two = presence.state is PresenceState.IDLE or (
            presence.wants_second_look and presence.cause is not Cause.ONE_LOOK
        )
        return cls(presence.state, presence.detail, 2 if is_of_two else 1, presence.cause)


@dataclass(frozen=True, slots=True)
class PaneReport:
    """One pane. Where no agent is, or none was looked at, its state is unknown."""

    adapter: str
    sight: Sight
    identities: tuple[Identity, ...]
    seen: Glance


@dataclass(frozen=True, slots=True)
class PaneReports:
    """All panes, and the servers that did not answer with the reason."""

    panes: Sequence[PaneReport]
    silent: Sequence[tuple[str, str]]


async def pane_reports(
    adapters: Mapping[str, HarnessAdapter],
    reach: Mapping[Identity, Reach],
    known: Mapping[PaneKey, Glance],
    fresh_for_ms: int,
    *,
    looks: bool = True,
) -> PaneReports:
    """List every pane. One look is taken at each agent of which nothing is known, and it proves no idleness.

    Args:
        adapters: by name; those that can list panes are asked.
        reach: where everybody would be woken.
        known: what was seen by somebody who watches.
        fresh_for_ms: how long a look counts, in milliseconds.
        looks: whether it matters how the agents stand.
    """
    reports: list[PaneReport] = []
    silent: list[tuple[str, str]] = []
    dwellers = _dwellers(reach)
    said = {one.key: one.harness for one in reach.values() if one.harness}
    for name, lister in adapters.items():
        if not isinstance(lister, PaneLister):
            continue
        sights = await lister.list_panes()
        silent += sights.silent
        found = [_as_it_is_said(one, said.get(one.place.key, "")) for one in sights.seen]
        agents = [one for one in found if one.harness and (name, one.place.key) not in known]
        seen = {**known, **(await _look_at_all(name, lister, agents, said, fresh_for_ms) if looks else {})}
        for sight in found:
            key = sight.place.key
            nothing = Glance(PresenceState.UNKNOWN, sight.who, cause=sight.cause)
            glance = seen.get((name, key), nothing) if sight.harness else nothing
            reports.append(PaneReport(name, sight, dwellers.get(key, ()), glance))
    return PaneReports(reports, silent)


def _as_it_is_said(sight: Sight, harness: str) -> Sight:
    """A place with the agent that its target says is behind what carries its terminal, which alone can be seen there."""
    is_said = harness and sight.cause is Cause.HIDDEN_BY_CARRIER
    return replace(sight, harness=harness) if is_said else sight


def _dwellers(reach: Mapping[Identity, Reach]) -> Mapping[str, tuple[Identity, ...]]:
    """Who would be woken in which place, by its key."""
    found: dict[str, tuple[Identity, ...]] = {}
    for identity, one in sorted(reach.items()):
        if one.key:
            found[one.key] = (*found.get(one.key, ()), identity)
    return found


async def _look_at_all(
    name: str, adapter: HarnessAdapter, sights: Sequence[Sight], said: Mapping[str, str], fresh_for_ms: int
) -> dict[PaneKey, Glance]:
    """What one look at each says."""
    addresses = [Address(Identity(""), harness=said.get(one.place.key, "")) for one in sights]
    looks = (adapter.observe(one.place, address) for one, address in zip(sights, addresses, strict=True))
    seen = await asyncio.gather(*looks)
    found = [fuse(one, None, one.at, fresh_for_ms) for one in seen]
    return {
        (name, sight.place.key): Glance(one.state, one.detail, cause=one.cause)
        for sight, one in zip(sights, found, strict=True)
    }
