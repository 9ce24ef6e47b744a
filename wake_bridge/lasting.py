"""Names by which identities are found that may come to mean another pane, and what makes them last; told once."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Route
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.configuration.targets_block import changed_lines, read_block
from wake_bridge.edges.service.instance_lock import reload_command
from wake_bridge.engine.watch.look import is_suggested
from wake_bridge.ports.adapter import NameJudge, Place
from wake_bridge.viewpoint import Viewpoint


@dataclass(frozen=True, slots=True)
class Fragile:
    """One identity's name that may come to mean another pane: why, the commands that help, and what is to be done then."""

    identity: str
    name: str
    doubts: tuple[str, ...]
    commands: tuple[str, ...]
    then: str


async def fragile_names(view: Viewpoint, settings: Settings, identities: Iterable[Identity]) -> list[Fragile]:
    """Those of the identities that are found by a name which need not last, as things stand."""
    found = [await _fragile(view, settings, who) for who in identities]
    return [one for one in found if one is not None]


async def _fragile(view: Viewpoint, settings: Settings, who: Identity) -> Fragile | None:
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


def _then(view: Viewpoint, settings: Settings, route: Route, name: str) -> str:
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
