"""Names of panes that may come to mean another one: what is said of them, and what makes them last."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from wake_bridge.config.file import changed_lines, read_block
from wake_bridge.config.settings import Settings
from wake_bridge.control.instance_lock import reload_command
from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.domain.homes import DoubtfulName
from wake_bridge.domain.names import Identity
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Fragile:
    """One identity's name that may come to mean another pane: why, the commands that help, and what is to be done then."""

    identity: str
    name: str
    doubts: tuple[str, ...]
    commands: tuple[str, ...]
    then: str


def fragile_of(
    doubtful: Mapping[Identity, DoubtfulName | None], settings: Settings, *, is_embedded: bool
) -> list[Fragile]:
    """Those of the identities whose name need not last, with what is to be done.

    Args:
        doubtful: the doubtful name of each identity; None where it lasts.
        settings: whose file may have to be changed.
        is_embedded: whether the graph is our own, so that a subscription may be changed without `--foreign`.
    """
    return [
        Fragile(who, one.name, one.doubts, one.commands, _then(who, one, settings, is_embedded=is_embedded))
        for who, one in doubtful.items()
        if one is not None
    ]


def _then(who: Identity, doubtful: DoubtfulName, settings: Settings, *, is_embedded: bool) -> str:
    """Whoever wrote the old name must write the new one."""
    name = doubtful.lasting
    if not doubtful.is_of_target:
        if not doubtful.said_by:
            return f"set TMUX_SESSION to {name}"
        foreign = "" if is_embedded else " --foreign"
        return f"`wake-bridge update {doubtful.said_by} --tmux {shlex.quote(name)}{foreign}`"
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
