"""What `panes` and `setup` see: every pane, the agent in it, its identity, and whether its name is stable."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wake_bridge.config.file import changed_lines, read_block
from wake_bridge.config.settings import Settings
from wake_bridge.control.instance_lock import reload_command
from wake_bridge.domain.causes import cause_written
from wake_bridge.domain.errors import OperationFailed, WakeBridgeError
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Route
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.explain.pane_reports import Glance, PaneReports, pane_reports
from wake_bridge.engine.explain.presence_query import is_suggested
from wake_bridge.offline.inspection import Inspection
from wake_bridge.ports.adapter import NameJudge, PaneLister, Place


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


async def report_panes(
    settings: Settings, told: Iterable[Mapping[str, Any]] = (), *, looks: bool = True
) -> PaneReports:
    """Look at every pane from here, where the daemon does not see what this command sees.

    Args:
        settings: those in force.
        told: what the daemon has told of panes nevertheless, as records.
        looks: whether it matters how the agents stand.

    Raises:
        OperationFailed: no adapter can list panes.
    """
    view = Inspection(settings)
    adapters = view.loaded.adapters
    if not any(isinstance(one, PaneLister) for one in adapters.values()):
        raise OperationFailed("no adapter can list panes", hint="`wake-bridge adapters` lists them")
    reach = await view.reach(sorted({*view.identities(), *view.bound()}))
    known = {(one["adapter"], one["key"]): _glance(one) for one in told}
    return await pane_reports(adapters, reach, known, view.current.settings.fresh_for_ms, looks=looks)


def _glance(one: Mapping[str, Any]) -> Glance:
    return Glance(PresenceState(one["state"]), one["why"], one["looks"], cause_written(one.get("cause")))
