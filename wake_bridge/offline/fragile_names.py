"""Advice on names that may come to mean another pane: what is wrong with each, and what makes it last."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from wake_bridge.config.file import changed_lines, read_block
from wake_bridge.config.settings import Settings
from wake_bridge.control.instance_lock import reload_command
from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.domain.homes import FragileName
from wake_bridge.domain.names import Identity
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class NameAdvice:
    """What to do about the fragile name of an identity: its `commands`, and `last_step` after them."""

    identity: str
    name: str
    doubts: tuple[str, ...]
    commands: tuple[str, ...]
    last_step: str


def advice_on(
    names: Mapping[Identity, FragileName | None], settings: Settings, *, is_embedded: bool
) -> list[NameAdvice]:
    """What to do about each fragile name.

    Args:
        names: the fragile name of each identity; None where its name lasts.
        settings: those whose file may have to be changed.
        is_embedded: whether the graph is our own, so that a subscription may be changed without `--foreign`.
    """
    return [
        NameAdvice(who, one.name, one.doubts, one.commands, _last_step(who, one, settings, is_embedded=is_embedded))
        for who, one in names.items()
        if one is not None
    ]


def _last_step(who: Identity, fragile: FragileName, settings: Settings, *, is_embedded: bool) -> str:
    """How the lasting name is written where the old one stands."""
    name = fragile.lasting
    if not fragile.is_of_target:
        if not fragile.said_by:
            return f"set TMUX_SESSION to {name}"
        foreign = "" if is_embedded else " --foreign"
        return f"`wake-bridge update {fragile.said_by} --tmux {shlex.quote(name)}{foreign}`"
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


def remark(advice: Sequence[NameAdvice]) -> str:
    """One sentence about all of them: what is wrong, and what makes their names last."""
    return f"{complaint(advice)}; to make them last: {steps(advice)}"


def complaint(advice: Sequence[NameAdvice]) -> str:
    """Which names need not last, and why."""
    names = ", ".join(f"{one.identity} by {one.name!r} ({'; '.join(one.doubts)})" for one in advice)
    return f"names that may come to mean another pane once tmux is started again: {names}"


def steps(advice: Sequence[NameAdvice]) -> str:
    """What to run, in its order."""
    commands = dict.fromkeys(f"`{command}`" for one in advice for command in one.commands)
    return ", then ".join([*commands, *dict.fromkeys(one.last_step for one in advice)])
