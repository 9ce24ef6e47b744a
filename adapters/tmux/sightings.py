"""Every pane of the user's own tmux servers, and a name for each that outlives the server (CONTRACT `panes`)."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.tmux.command import TmuxServer
from adapters.tmux.facts import NoPane
from adapters.tmux.occupants import Agent, NoAgent, Occupants
from adapters.tmux.panes import RENAMED_BY_PROGRAM, Pane, has_given_name, panes_named, panes_of
from adapters.tmux.resolve import PaneKey
from adapters.tmux.sockets import socket_path, why_not_ours
from wake_bridge.ports.adapter import Paper, Place, Sight, Sights

_DIRECTORY: Final = "pane_current_path"
_RENUMBERED: Final = "#{?renumber-windows,1,0}"
_ASKED_BESIDES: Final = (_RENUMBERED,)

_NO_SERVER: Final = ("no server running", "error connecting", "Connection refused")
"""What tmux says of a socket that a server has left behind."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a target would say to mean one pane, and why that may come to mean another one."""

    text: str
    doubts: tuple[str, ...] = ()


def own_sockets(usual: str, environment: Mapping[str, str]) -> list[str]:
    """The sockets of the user's servers: the usual one, tmux's default one, and all others beside it."""
    default = socket_path("default", environment)
    sockets = {usual: None, default: None}
    directory = Path(default).parent
    try:
        if directory.stat().st_uid != os.getuid():
            return [usual]
        sockets |= {str(one): None for one in sorted(directory.iterdir()) if stat.S_ISSOCK(one.lstat().st_mode)}
    except OSError:
        pass
    return [one for one in sockets if not why_not_ours(one)]


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
        answers = await asyncio.gather(*(panes_of(self._server_of(socket), *_ASKED_BESIDES) for socket in sockets))
        seen: list[Sight] = []
        silent: list[tuple[str, str]] = []
        for socket, panes in zip(sockets, answers, strict=True):
            if not isinstance(panes, NoPane):
                seen += await asyncio.to_thread(self._seen, socket, panes)
            elif not panes.why.startswith(_NO_SERVER):
                silent.append((socket, panes.why))
        return Sights(seen, silent)

    def _seen(self, socket: str, panes: Sequence[Pane]) -> list[Sight]:
        return [self._sight(socket, pane, panes) for pane in each_once(panes)]

    def _sight(self, socket: str, pane: Pane, panes: Sequence[Pane]) -> Sight:
        occupant = self._occupant(socket, pane)
        agent = occupant if isinstance(occupant, Agent) else None
        paste = agent.profile.paste if agent else None
        name = name_of(pane, panes)
        return Sight(
            place=Place(
                key=str(PaneKey(os.path.realpath(socket), pane.server_pid, pane.pane_id)),
                label=pane.label,
                paper=Paper(paste.max_lines, paste.max_characters) if paste else Paper(),
            ),
            server=socket,
            pane_id=pane.pane_id,
            name=name.text,
            socket="" if socket == self._needs_no_name else socket,
            doubts=name.doubts,
            harness=agent.profile.name if agent else "",
            version=agent.version if agent else "",
            who=occupant.why if isinstance(occupant, NoAgent) else "",
            directory=Path(pane.values[_DIRECTORY]),
            identities=tuple(pane.identities),
        )

    def _occupant(self, socket: str, pane: Pane) -> Agent | NoAgent:
        if pane.values["pane_dead"] not in {"", "0"}:
            return NoAgent("the program has ended")
        return self._occupants.of(socket, pane.pane_id, pane.pane_pid, pane.command)


def each_once(panes: Sequence[Pane]) -> list[Pane]:
    """Each pane once, however many sessions show it: where the oldest of them has it."""
    once: dict[str, Pane] = {}
    for pane in sorted(panes, key=lambda one: int(one.session_id.removeprefix("$"))):
        once.setdefault(pane.pane_id, pane)
    return [once[pane_id] for pane_id in dict.fromkeys(pane.pane_id for pane in panes)]


def name_of(pane: Pane, panes: Sequence[Pane]) -> Name:
    """`session:window.pane`, the window by a name that somebody gave it, else by its index.

    Only a name that the resolver reads as exactly this pane is answered; where there is none, the text is empty.
    """
    doubts = list(_doubts(pane, panes))
    if not pane.label.isprintable() or not _means(pane.label, pane, panes):
        return Name("", (f"no name means {pane.pane_id} and nothing else: rename its session or window",))
    if has_given_name(pane.values) and pane.window == pane.values["window_name"]:
        return Name(pane.label, tuple(doubts))
    if pane.values[RENAMED_BY_PROGRAM] == "1":
        why_by_index = "its window is named after the program (`tmux rename-window` names it for good)"
    elif not has_given_name(pane.values):
        why_by_index = "the window has no name that can be written down"
    else:
        why_by_index = f"more than one window answers to {pane.values['window_name']!r}"
    moves = ", and indexes move up (renumber-windows)" if pane.values[_RENUMBERED] == "1" else ""
    return Name(pane.label, (f"{why_by_index}, so the index stands here{moves}", *doubts))


def _doubts(pane: Pane, panes: Sequence[Pane]) -> Iterator[str]:
    session = pane.values["session_name"]
    if session.isdecimal():
        yield "tmux itself gave its session a number for a name, and gives it again (`tmux rename-session`)"
    beside = {
        one.pane_id
        for one in panes
        if one.session_id == pane.session_id and one.values["window_id"] == pane.values["window_id"]
    }
    if len(beside) > 1:
        yield "it shares its window: panes have only indexes, which move up when one before them is closed"


def _means(text: str, pane: Pane, panes: Sequence[Pane]) -> bool:
    return [one.pane_id for one in panes_named(panes, text)] == [pane.pane_id]
