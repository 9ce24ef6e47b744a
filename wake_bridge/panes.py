"""What `panes` and `setup` see: every pane, the agent in it, whose it is, and whether its name lasts."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from wake_bridge.config.file import changed_lines, read_block
from wake_bridge.config.settings import Settings
from wake_bridge.control.client import ask
from wake_bridge.control.instance_lock import reload_command
from wake_bridge.domain.causes import Cause, cause_written
from wake_bridge.domain.errors import NotRunning, OperationFailed, WakeBridgeError
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState, fuse
from wake_bridge.domain.routing import Address, Route
from wake_bridge.engine.explain.presence_query import is_suggested
from wake_bridge.offline.inspection import Inspection
from wake_bridge.ports.adapter import HarnessAdapter, NameJudge, PaneLister, Place, Sight


@dataclass(frozen=True, slots=True)
class Fragile:
    """One identity's name that may come to mean another pane: why, the commands that help, and what is to be done then."""

    identity: str
    name: str
    doubts: tuple[str, ...]
    commands: tuple[str, ...]
    then: str


async def fragile_names(view: Inspection, settings: Settings, identities: Iterable[Identity]) -> list[Fragile]:
    """Those of the identities that are found by a name which need not last, as things stand."""
    found = [await _fragile(view, settings, who) for who in identities]
    return [one for one in found if one is not None]


async def _fragile(view: Inspection, settings: Settings, who: Identity) -> Fragile | None:
    for route in view.routes.of(who):
        adapter = view.routes.adapter(route)
        name = route.address.name
        if not isinstance(adapter, NameJudge) or not name:
            continue
        place = await view.watch.locate(route)
        if not isinstance(place, Place) or not (route.address.pane or await is_suggested(view.routes, route, place)):
            continue
        judged = await adapter.judge_name(place, name)
        if judged.doubts:
            return Fragile(who, name, judged.doubts, judged.commands, _then(view, settings, route, judged.name))
    return None


def _then(view: Inspection, settings: Settings, route: Route, name: str) -> str:
    """Whoever wrote the old name must write the new one."""
    who = route.address.identity
    if not route.address.pane:
        said = view.routes.speaks_for(who)
        if said is None or said.pane != route.address.suggested:
            return f"set TMUX_SESSION to {name}"
        foreign = "" if view.is_embedded else " --foreign"
        return f"`wake-bridge update {said.id} --tmux {shlex.quote(name)}{foreign}`"
    try:
        is_ours = who in read_block(settings.config_file)
    except WakeBridgeError:
        is_ours = False
    if is_ours:
        return "`wake-bridge setup`"
    changes = changed_lines(settings.config_file, who, {"pane": name})
    told = [f"line {number} of {settings.config_file} becomes `{becomes.strip()}`" for number, _, becomes in changes]
    reload = reload_command(settings.state_dir)
    return f"{'; '.join(told) or f'{name} as `pane` of {who}'}{f', `{reload}`' if reload else ''}"


def told_of(fragile: Sequence[Fragile]) -> str:
    """One remark about all of them, with what makes their names last."""
    return f"{whose(fragile)}; to make them last: {steps(fragile)}"


def whose(fragile: Sequence[Fragile]) -> str:
    """Who is found by a name that need not last, and why."""
    names = ", ".join(f"{one.identity} by {one.name!r} ({'; '.join(one.doubts)})" for one in fragile)
    return f"names that may come to mean another pane once tmux is started again: {names}"


def steps(fragile: Sequence[Fragile]) -> str:
    """What to run, in its order."""
    commands = dict.fromkeys(f"`{command}`" for one in fragile for command in one.commands)
    return ", then ".join([*commands, *dict.fromkeys(one.then for one in fragile)])


PATIENCE: Final = 3.0
"""Seconds that a daemon has to tell what it sees."""


@dataclass(frozen=True, slots=True)
class Glance:
    """How an agent stands, what decided it, and how many looks agree on it."""

    state: PresenceState
    why: str
    looks: int = 1
    cause: Cause = Cause.OTHER


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


async def report_panes(settings: Settings, *, looks: bool = True) -> PaneReports:
    """List every pane. What the daemon watches it is asked for; at the others one look is taken, which proves no idleness.

    Args:
        settings: those in force.
        looks: whether it matters how the agents stand.

    Raises:
        OperationFailed: no adapter can list panes.
    """
    # it is asked meanwhile: setting up the view here takes as long as its answer
    asked = asyncio.get_running_loop().run_in_executor(None, _watched, settings) if looks else None
    view = Inspection(settings)
    listers = {name: one for name, one in view.loaded.adapters.items() if isinstance(one, PaneLister)}
    if not listers:
        raise OperationFailed("no adapter can list panes", hint="`wake-bridge adapters` lists them")
    reports: list[PaneReport] = []
    silent: list[tuple[str, str]] = []
    dwellers = await _dwellers(view)
    for name, lister in listers.items():
        sights = await lister.list_panes()
        silent += sights.silent
        seen = await asked if asked else {}
        agents = [one for one in sights.seen if one.harness and (name, one.place.key) not in seen]
        seen |= await _look_at_all(view, name, agents if looks else [])
        for sight in sights.seen:
            key = sight.place.key
            nothing = Glance(PresenceState.UNKNOWN, sight.who)
            glance = seen.get((name, key), nothing) if sight.harness else nothing
            reports.append(PaneReport(name, sight, dwellers.get(key, ()), glance))
    return PaneReports(reports, silent)


def _watched(settings: Settings) -> dict[tuple[str, str], Glance]:
    """What a daemon that runs has seen, by adapter and the place's key."""
    with suppress(NotRunning, OperationFailed):
        told = ask(settings.state_dir, "panes", timeout=PATIENCE)["panes"]
        return {(one["adapter"], one["key"]): _glance(one) for one in told}
    return {}


def _glance(one: Mapping[str, Any]) -> Glance:
    return Glance(PresenceState(one["state"]), one["why"], one["looks"], cause_written(one.get("cause")))


async def _dwellers(view: Inspection) -> Mapping[str, tuple[Identity, ...]]:
    """Who would be woken in which place, by its key, as things stand."""
    found: dict[str, tuple[Identity, ...]] = {}
    for identity, reach in (await view.reach(sorted({*view.identities(), *view.bound()}))).items():
        if reach.key:
            found[reach.key] = (*found.get(reach.key, ()), identity)
    return found


async def _look_at_all(view: Inspection, name: str, sights: Sequence[Sight]) -> dict[tuple[str, str], Glance]:
    """What one look at each says."""
    adapter: HarnessAdapter = view.loaded.adapters[name]
    seen = await asyncio.gather(*(adapter.observe(one.place, Address(Identity(""))) for one in sights))
    found = [fuse(one, None, one.at, view.current.settings.fresh_for_ms) for one in seen]
    return {
        (name, sight.place.key): Glance(one.state, one.detail, cause=one.cause)
        for sight, one in zip(sights, found, strict=True)
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
        "state": report.seen.state.value,
        "looks": report.seen.looks,
        "why": report.seen.why,
        "agentIdentity": report.identities[0] if report.identities else None,
        "agentIdentities": list(report.identities),
        "doubts": list(sight.doubts),
        "lasting": list(sight.lasting),
    }
