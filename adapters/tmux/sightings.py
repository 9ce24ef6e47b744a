"""Every pane of the user's own tmux servers, and a name for each that outlives the server (CONTRACT `panes`)."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from adapters.tmux.command import TmuxServer
from adapters.tmux.facts import NoPane
from adapters.tmux.lasting import RENUMBERED, mending_of, name_of
from adapters.tmux.occupants import Agent, NoAgent, Occupants
from adapters.tmux.panes import Pane, panes_of
from adapters.tmux.resolve import PaneKey
from adapters.tmux.sockets import socket_path, why_not_ours
from wake_bridge.ports.adapter import Paper, Place, Sight, Sights

_DIRECTORY: Final = "pane_current_path"

_NO_SERVER: Final = ("no server running", "error connecting", "Connection refused")
"""What tmux says of a socket that a server has left behind."""


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
        answers = await asyncio.gather(*(panes_of(self._server_of(socket), RENUMBERED) for socket in sockets))
        seen: list[Sight] = []
        silent: list[tuple[str, str]] = []
        for socket, panes in zip(sockets, answers, strict=True):
            if not isinstance(panes, NoPane):
                seen += await asyncio.to_thread(self._seen, socket, panes)
            elif not panes.why.startswith(_NO_SERVER):
                silent.append((socket, panes.why))
        return Sights(seen, silent)

    def _seen(self, socket: str, panes: Sequence[Pane]) -> list[Sight]:
        occupants = {pane.pane_id: self._occupant(socket, pane) for pane in each_once(panes)}
        return [self._sight(socket, pane, panes, occupants) for pane in each_once(panes)]

    def _sight(self, socket: str, pane: Pane, panes: Sequence[Pane], occupants: Mapping[str, Agent | NoAgent]) -> Sight:
        occupant = occupants[pane.pane_id]
        agent = occupant if isinstance(occupant, Agent) else None
        agents = [pane_id for pane_id, one in occupants.items() if isinstance(one, Agent)]
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
            lasting=mending_of(pane, panes, socket, agents).commands if agent and name.doubts else (),
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
