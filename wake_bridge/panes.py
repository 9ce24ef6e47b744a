"""What `panes` and `setup` see: every pane, the agent in it, how it stands, and whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import SAMPLES_APART, Observation, Presence, PresenceState, fuse, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.ports.adapter import HarnessAdapter, PaneLister, Sight
from wake_bridge.viewpoint import Viewpoint


@dataclass(frozen=True, slots=True)
class PaneReport:
    """One pane. `presence` is None where no agent is; `looks` is how many agree on it."""

    adapter: str
    sight: Sight
    identities: tuple[Identity, ...]
    presence: Presence | None
    looks: int

    @property
    def state(self) -> PresenceState:
        """How the agent stands; unknown where there is none."""
        return self.presence.state if self.presence else PresenceState.UNKNOWN

    @property
    def why(self) -> str:
        """What decided it, or who is there instead of an agent."""
        return self.presence.detail if self.presence else self.sight.who


@dataclass(frozen=True, slots=True)
class PaneReports:
    """All panes, and the servers that did not answer with the reason."""

    panes: Sequence[PaneReport]
    silent: Sequence[tuple[str, str]]


async def report_panes(settings: Settings) -> PaneReports:
    """Look at every pane; where one look speaks for idle, a second time 1.5 s later (DESIGN §5).

    Raises:
        OperationFailed: no adapter can list panes.
    """
    view = Viewpoint(settings)
    listers = {name: one for name, one in view.bench.adapters.items() if isinstance(one, PaneLister)}
    if not listers:
        raise OperationFailed("no adapter can list panes", hint="`wake-bridge adapters` lists them")
    dwellers = await _dwellers(view)
    reports: list[PaneReport] = []
    silent: list[tuple[str, str]] = []
    for name, lister in listers.items():
        sights = await lister.list_panes()
        silent += sights.silent
        looks = await _look_at_all(view, view.bench.adapters[name], [one for one in sights.seen if one.harness])
        for sight in sights.seen:
            presence, count = looks.get(sight.place.key, (None, 1))
            reports.append(PaneReport(name, sight, dwellers.get(sight.place.key, ()), presence, count))
    return PaneReports(reports, silent)


async def _dwellers(view: Viewpoint) -> Mapping[str, tuple[Identity, ...]]:
    """Who would be woken in which place, by its key, as things stand."""
    found: dict[str, tuple[Identity, ...]] = {}
    for identity in sorted({*view.identities(), *view.bound()}):
        key = (await view.trouble_with(identity)).key
        if key:
            found[key] = (*found.get(key, ()), identity)
    return found


async def _look_at_all(
    view: Viewpoint, adapter: HarnessAdapter, sights: Sequence[Sight]
) -> Mapping[str, tuple[Presence, int]]:
    """The presence of each, by its key, and from how many looks."""

    async def look(sight: Sight) -> Observation:
        return await adapter.observe(sight.place, Address(Identity("")))

    first = dict(zip(sights, await asyncio.gather(*map(look, sights)), strict=True))
    doubtful = [one for one in sights if single_vote(first[one].evidence).vote is PresenceState.IDLE]
    second: dict[Sight, Observation] = {}
    if doubtful:
        await asyncio.sleep((SAMPLES_APART + 100) / 1000)
        second = dict(zip(doubtful, await asyncio.gather(*map(look, doubtful)), strict=True))
    now, fresh_for = view.clock.now(), view.current.settings.fresh_for
    return {
        sight.place.key: (fuse(second[sight], seen, now, fresh_for), 2)
        if sight in second
        else (fuse(seen, None, seen.at, fresh_for), 1)
        for sight, seen in first.items()
    }


def pane_record(report: PaneReport) -> dict[str, Any]:
    """A pane as `panes --json` prints it."""
    sight = report.sight
    return {
        "pane": sight.name or None,
        "label": sight.place.label,
        "id": sight.pane_id,
        "adapter": report.adapter,
        "server": sight.server,
        "harness": sight.harness or None,
        "version": sight.version or None,
        "cwd": str(sight.directory),
        "state": report.state.value,
        "looks": report.looks,
        "why": report.why,
        "agentIdentity": report.identities[0] if report.identities else None,
        "agentIdentities": list(report.identities),
        "doubts": list(sight.doubts),
        "lasting": list(sight.lasting),
    }
