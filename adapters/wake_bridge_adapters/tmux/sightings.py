"""Every pane of the user's own tmux servers, with a name for each that outlives the server.

A window's index and a pane's index come to mean another pane when one before it is closed, or tmux is started again.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason, cause_of
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import Place, Sight, Sights
from wake_bridge_adapters.tmux.command import TmuxServer, socket_path, why_not_ours
from wake_bridge_adapters.tmux.occupants import NoAgent, Occupants, PaneAgent
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.panes import (
    IDENTITY_OPTION,
    RENAMED_BY_PROGRAM,
    Pane,
    has_given_name,
    is_id,
    panes_claimed_by,
    panes_named,
    panes_of,
    window_in,
)
from wake_bridge_adapters.tmux.resolve import PaneKey, limits_of

RENUMBERED: Final = "#{?renumber-windows,1,0}"
"""Whether windows move up when one before them is closed; asked for besides what a pane always tells."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG: Final = 24


@dataclass(frozen=True, slots=True)
class Name:
    """What a target would say to mean one pane, and why that may come to mean another one."""

    text: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mending:
    """The commands after which a pane has a name that lasts, and that name; it has one already where there are none."""

    commands: tuple[str, ...]
    name: str


def name_of(pane: Pane, panes: Sequence[Pane]) -> Name:
    """`session:window.pane`, the window by a name that somebody gave it, else by its index.

    Only a name that the resolver reads as exactly this pane is answered; where there is none, the text is empty.
    """
    if not pane.label.isprintable() or not _means(pane.label, pane, panes):
        return Name("", (f"no name means {pane.pane_id} and nothing else: rename its session or window",))
    return Name(pane.label, doubts_about(pane.label, pane, panes))


def doubts_about(text: str, pane: Pane, panes: Sequence[Pane]) -> tuple[str, ...]:
    """Why a target's text, that means this pane now, may come to mean another one; an id never does."""
    return () if is_id(text) else tuple(_doubts(text, pane, panes))


def _doubts(text: str, pane: Pane, panes: Sequence[Pane]) -> Iterator[str]:
    if pane.pane_id not in {one.pane_id for one in panes_named(panes, text)}:
        yield f"it no longer means {pane.label}"
        return
    window, is_by_index = window_in(panes, text)
    if window and not (_has_lasting_window(pane) and window == pane.window):
        yield _why_by_index(window, pane)
    if pane.values["session_name"].isdecimal():
        yield "tmux itself gave its session a number for a name, and gives it again"
    if is_by_index and len(_beside(pane, panes)) > 1:
        yield "it shares its window: panes have only indexes, which move up when one before them is closed"


def _why_by_index(window: str, pane: Pane) -> str:
    if _has_lasting_window(pane):
        why = f"its window is called {pane.window!r}"
    elif pane.values[RENAMED_BY_PROGRAM] == "1":
        why = "its window is named after the program"
    elif not has_given_name(pane.values):
        why = "the window has no name that can be written down"
    else:
        why = f"more than one window answers to {pane.values['window_name']!r}"
    if window != pane.values["window_index"]:
        return why
    moves = ", and indexes move up (renumber-windows)" if pane.values.get(RENUMBERED) == "1" else ""
    return (
        f"{why}, but the index stands here{moves}"
        if _has_lasting_window(pane)
        else f"{why}, so the index stands here{moves}"
    )


def mending_of(pane: Pane, panes: Sequence[Pane], socket: str, agents: Collection[str]) -> Mending:
    """What gives the pane a name that lasts.

    Args:
        pane: whose name is to last.
        panes: all panes of its server.
        socket: the path of the server's socket.
        agents: the ids of the panes with an agent in them, at least of this window.

    Where agents alone share a window the first one keeps it and the others get windows of their own; any other pane
    leaves a window that it shares. Whoever stays alone in a window that has no name gets one for it.
    """
    commands: list[list[str]] = []
    session = pane.values["session_name"]
    can_be_said = session.isprintable() and pane.pane_id in {one.pane_id for one in panes_named(panes, f"{session}:")}
    if session.isdecimal() or not can_be_said:
        session = _free(f"work-{pane.session_id.removeprefix('$')}", {one.values["session_name"] for one in panes})
        commands.append(["rename-session", "-t", pane.session_id, session])
    sharing = sorted(_beside(pane, panes), key=lambda one: int(one.values["pane_index"]))
    stays = sharing[0].pane_id == pane.pane_id and {one.pane_id for one in sharing} <= {pane.pane_id, *agents}
    for one in sharing[1:] if stays else [pane]:
        to = f"{one.session_id}:"
        commands.append(["break-pane", "-d", "-s", one.pane_id, "-t", to, "-n", _window_for(one, panes)])
    window = pane.window if stays and _has_lasting_window(pane) else _window_for(pane, panes)
    if stays and window != pane.window:
        commands.append(["rename-window", "-t", pane.values["window_id"], window])
    return Mending(tuple(shlex.join(["tmux", "-S", socket, *one]) for one in commands), f"{session}:{window}")


def _window_for(pane: Pane, panes: Sequence[Pane]) -> str:
    """A name for a window of its own: after the directory, and told apart from all by the pane's number."""
    directory = PurePath(pane.values["pane_current_path"]).name
    slug = _NOT_IN_NAMES.sub("-", directory.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "agent"
    return _free(f"{slug}-{pane.pane_id.removeprefix('%')}", {one.values["window_name"] for one in panes})


def _free(wanted: str, taken: Collection[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _has_lasting_window(pane: Pane) -> bool:
    """Whether somebody gave its window a name that means nothing else."""
    return has_given_name(pane.values) and pane.window == pane.values["window_name"]


def _beside(pane: Pane, panes: Sequence[Pane]) -> list[Pane]:
    """All panes of its window, itself among them."""
    return [
        one for one in panes if (one.session_id, one.values["window_id"]) == (pane.session_id, pane.values["window_id"])
    ]


def _means(text: str, pane: Pane, panes: Sequence[Pane]) -> bool:
    return [one.pane_id for one in panes_named(panes, text)] == [pane.pane_id]


def claim_commands(panes: Sequence[Pane], pane_id: str, identity: str) -> list[list[str]]:
    """The tmux commands after which this pane, and no other, says it is the identity's.

    Identities that share the pane keep their claim.
    """
    elsewhere = [pane for pane in panes_claimed_by(panes, identity) if pane.pane_id != pane_id]
    here = panes_named(panes, pane_id)
    return [
        *(_told(pane.pane_id, _others(pane, identity)) for pane in elsewhere),
        *(_told(pane.pane_id, [*_others(pane, identity), identity]) for pane in here),
    ]


async def claim_pane(server: TmuxServer, panes: Sequence[Pane], pane_id: str, identity: str) -> str:
    """Mark the pane; why it could not be done, empty if it was."""
    commands = claim_commands(panes, pane_id, identity)
    if not commands:
        return f"no pane {pane_id}"
    answer = await server.ask(*commands)
    return "" if answer.is_well else answer.complaint


async def release_panes(server: TmuxServer, panes: Sequence[Pane], identity: str) -> str:
    """Let no pane say that it is the identity's; why it could not be done, empty if it was."""
    commands = [_told(pane.pane_id, _others(pane, identity)) for pane in panes_claimed_by(panes, identity)]
    answer = await server.ask(*commands)
    return "" if answer.is_well else answer.complaint


def _others(pane: Pane, identity: str) -> list[str]:
    return [other for other in pane.identities if other != identity]


def _told(pane_id: str, identities: Sequence[str]) -> list[str]:
    if not identities:
        return ["set-option", "-p", "-u", "-t", pane_id, IDENTITY_OPTION]
    return ["set-option", "-p", "-t", pane_id, IDENTITY_OPTION, " ".join(identities)]


_DIRECTORY: Final = "pane_current_path"

_NO_SERVER: Final = ("no server running", "error connecting", "Connection refused")
"""What tmux says of a socket that a server has left behind."""


def own_sockets(usual: str, environment: Mapping[str, str]) -> list[str]:
    """The sockets of the user's servers that live: the usual one, tmux's default one, and all others beside it."""
    default = socket_path("default", environment)
    sockets = {usual: None, default: None}
    directory = Path(default).parent
    try:
        if directory.stat().st_uid != os.getuid():
            return [usual]
        sockets |= {str(one): None for one in sorted(directory.iterdir()) if stat.S_ISSOCK(one.lstat().st_mode)}
    except OSError:
        pass
    return [one for one in sockets if not why_not_ours(one) and not _is_left_behind(one)]


def _is_left_behind(path: str) -> bool:
    """Whether nobody listens there any more: a connection that is refused costs nothing, a tmux that finds out does."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(0)
        try:
            caller.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            # busy, or a path that is too long for us: tmux may get through
            return False
    return False


class Sightings:
    """Lists the panes.

    Args:
        server_of: the server behind a socket's path.
        usual: the socket where a target names none.
        is_configured: whether the configuration says so, and not the place this process was started in.
        occupants: who recognises the agents.
        environment: the process's, which says where sockets lie.
    """

    def __init__(
        self,
        server_of: Callable[[str], TmuxServer],
        usual: str,
        occupants: Occupants,
        environment: Mapping[str, str],
        *,
        is_configured: bool,
    ) -> None:
        self._server_of = server_of
        self._usual = usual
        self._occupants = occupants
        self._environment = environment
        default = socket_path("default", environment)
        # a daemon that is started elsewhere has another usual server, unless it is configured or tmux's own
        self._needs_no_name = usual if is_configured or usual == default else ""

    async def sights(self) -> Sights:
        """All panes, the usual server's first; a server that does not answer is told apart from one that is gone."""
        sockets = own_sockets(self._usual, self._environment)
        answers = await asyncio.gather(*(panes_of(self._server_of(socket), RENUMBERED) for socket in sockets))
        seen: list[Sight] = []
        silent: list[tuple[str, str]] = []
        for path, panes in zip(sockets, answers, strict=True):
            if not isinstance(panes, NoPane):
                seen += await asyncio.to_thread(self._seen, path, panes)
            elif not panes.why.startswith(_NO_SERVER):
                silent.append((path, panes.why))
        return Sights(seen, silent)

    def _seen(self, socket: str, panes: Sequence[Pane]) -> list[Sight]:
        occupants = {pane.pane_id: self._occupant(socket, pane) for pane in each_once(panes)}
        return [self._sight(socket, pane, panes, occupants) for pane in each_once(panes)]

    def _sight(
        self, socket: str, pane: Pane, panes: Sequence[Pane], occupants: Mapping[str, PaneAgent | NoAgent]
    ) -> Sight:
        occupant = occupants[pane.pane_id]
        agent = occupant if isinstance(occupant, PaneAgent) else None
        agents = [pane_id for pane_id, one in occupants.items() if isinstance(one, PaneAgent)]
        name = name_of(pane, panes)
        return Sight(
            place=Place(
                key=str(PaneKey(os.path.realpath(socket), pane.server_pid, pane.pane_id)),
                label=pane.label,
                paper=limits_of(agent),
            ),
            server=socket,
            pane_id=pane.pane_id,
            name=name.text,
            socket="" if socket == self._needs_no_name else socket,
            doubts=name.doubts,
            harness=agent.profile.name if agent else "",
            version=agent.version if agent else "",
            who=occupant.why if isinstance(occupant, NoAgent) else "",
            cause=cause_of(HoldReason.NO_AGENT, rule=occupant.rule) if isinstance(occupant, NoAgent) else Cause.OTHER,
            directory=Path(pane.values[_DIRECTORY]),
            identities=tuple(pane.identities),
            lasting=mending_of(pane, panes, socket, agents).commands if agent and name.doubts else (),
        )

    def _occupant(self, socket: str, pane: Pane) -> PaneAgent | NoAgent:
        if pane.values["pane_dead"] not in {"", "0"}:
            return NoAgent("the program has ended")
        return self._occupants.of(socket, pane.pane_id, pane.pane_pid, pane.command)


def each_once(panes: Sequence[Pane]) -> list[Pane]:
    """Each pane once, however many sessions show it: where the oldest of them has it."""
    once: dict[str, Pane] = {}
    for pane in sorted(panes, key=lambda one: int(one.session_id.removeprefix("$"))):
        once.setdefault(pane.pane_id, pane)
    return [once[pane_id] for pane_id in dict.fromkeys(pane.pane_id for pane in panes)]
