"""From an address to exactly one pane, or to none (DESIGN §6.1): never a guess."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from adapters.tmux.command import NOT_ON_PATH, TmuxServer
from adapters.tmux.facts import NoPane
from adapters.tmux.fence import breach, fence_around
from adapters.tmux.listing import Listing
from adapters.tmux.occupants import Agent, Occupants
from adapters.tmux.panes import Pane, is_id, panes_claimed_by, panes_named, sessions_with
from adapters.tmux.sockets import why_not_ours
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Instant
from wake_bridge.domain.routing import Address, Binding, Expected
from wake_bridge.ports.adapter import Nowhere, Paper, Place

ANYBODY: Final = Expected()

_LISTED: Final = 4
"""Panes that a complaint names before it says how many more there are."""


@dataclass(frozen=True, slots=True)
class PaneKey:
    """What `Place.key` says: the pane for locks and limits."""

    socket: str
    server_pid: int
    pane_id: str

    def __str__(self) -> str:
        return f"{self.socket}|{self.server_pid}|{self.pane_id}"

    @classmethod
    def of(cls, key: str) -> PaneKey:
        """Read it back."""
        socket, server_pid, pane_id = key.rsplit("|", 2)
        return cls(socket, int(server_pid), pane_id)


@dataclass(frozen=True, slots=True)
class _Located:
    """A pane, and all panes of its server."""

    socket: str
    panes: Sequence[Pane]
    pane: Pane


class Resolver:
    """Finds the one pane an address means, now.

    Args:
        server_of: the server behind a socket's path.
        socket_of: the socket that a target's `socket` names; the configured one for an empty text.
        occupants: who recognises the agent in a pane.

    `listing` is shared with whoever lists panes at the same moment.
    """

    def __init__(
        self, server_of: Callable[[str], TmuxServer], socket_of: Callable[[str], str], occupants: Occupants
    ) -> None:
        self._server_of = server_of
        self._socket_of = socket_of
        self._occupants = occupants
        self.listing = Listing()

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The configured target; else the pane that says so itself; else the binding; else the subscription's.

        A configured id of a server that is gone says nothing; the subscription's does not stand in for it.
        """
        usual = self._socket_of(address.socket)
        sockets = [usual]
        if address.binding and address.binding.socket != usual:
            sockets.append(address.binding.socket)
        seen = {socket: await self._panes(socket) for socket in sockets}
        return await asyncio.to_thread(self._choose, address, usual, seen)

    async def _panes(self, socket: str) -> list[Pane] | NoPane:
        server = self._server_of(socket)
        if server.program is None:
            return NoPane(NOT_ON_PATH)
        if why := why_not_ours(socket):
            return NoPane(why)
        return await self.listing.of(server)

    def _choose(self, address: Address, usual: str, seen: Mapping[str, list[Pane] | NoPane]) -> Place | Nowhere:
        outlived = _outlived(address.pane, address.pane_written, seen[usual])
        if address.pane and outlived is None:
            return self._named(address.pane, usual, seen[usual], address.harness, address.expected)
        claims = [
            _Located(socket, panes, pane)
            for socket, panes in seen.items()
            if not isinstance(panes, NoPane)
            for pane in panes_claimed_by(panes, address.identity)
        ]
        if len(claims) == 1:
            return self._place(claims[0], address.harness)
        if claims:
            listed = _listed([claim.pane for claim in claims])
            return Nowhere(HoldReason.AMBIGUOUS, f"{len(claims)} panes say they are {address.identity}: {listed}")
        bound = self._bound(address.binding, seen, address.harness) if address.binding else None
        if isinstance(bound, Place):
            return bound
        if outlived is not None:
            return outlived
        if address.suggested:
            return _outlived(address.suggested, address.suggested_written, seen[usual]) or self._named(
                address.suggested, usual, seen[usual], address.harness
            )
        return bound or Nowhere(HoldReason.UNREACHABLE, f"nothing says in which pane {address.identity} is")

    def _named(
        self,
        target: str,
        socket: str,
        panes: list[Pane] | NoPane,
        harness: str,
        expected: Expected = ANYBODY,
    ) -> Place | Nowhere:
        if isinstance(panes, NoPane):
            return Nowhere(HoldReason.UNREACHABLE, panes.why, target)
        found = [_Located(socket, panes, pane) for pane in panes_named(panes, target)]
        if not found:
            return Nowhere(HoldReason.UNREACHABLE, f"no pane is called exactly {target!r}", target)
        whys = [self._stranger(one, harness, expected) for one in found]
        if all(whys):
            return Nowhere(HoldReason.UNREACHABLE, f"{target!r} means another agent by now: {whys[0]}", target)
        found = [one for one, why in zip(found, whys, strict=True) if not why]
        if len(found) == 1:
            return self._place(found[0], harness)
        with_agent = [one for one in found if self._agent(one, harness)]
        if len(with_agent) == 1:
            return self._place(with_agent[0], harness)
        count = f"{len(with_agent)} of them run an agent" if with_agent else "none of them runs an agent"
        listed = _listed([one.pane for one in found])
        return Nowhere(HoldReason.AMBIGUOUS, f"{target!r} has {len(found)} panes and {count}: {listed}", target)

    def _stranger(self, located: _Located, harness: str, expected: Expected) -> str:
        """Why the pane is not where the expected agent lives; empty if it may be. Nobody there is no other agent."""
        agent = self._agent(located, harness)
        if agent is None:
            return ""
        if expected.agent and agent.profile.name != expected.agent:
            return f"{agent.profile.name} is there, not {expected.agent}"
        directory = located.pane.values["pane_current_path"]
        if expected.directory and os.path.realpath(directory) != os.path.realpath(expected.directory):
            return f"{agent.profile.name} is there in {directory}, not in {expected.directory}"
        return ""

    def _bound(self, binding: Binding, seen: Mapping[str, list[Pane] | NoPane], harness: str) -> Place | Nowhere:
        """The pane of the binding while its fence is intact."""
        panes = seen[binding.socket]
        if isinstance(panes, NoPane):
            return Nowhere(HoldReason.UNREACHABLE, panes.why, binding.pane_id)
        pane = next(iter(panes_named(panes, binding.pane_id)), None)
        if pane is None:
            return Nowhere(HoldReason.UNREACHABLE, f"the bound pane {binding.pane_id} is gone", binding.pane_id)
        located = _Located(binding.socket, panes, pane)
        broken = breach(binding, self._fence(located, harness), sessions_with(panes, pane.pane_id))
        if broken:
            return Nowhere(HoldReason.UNREACHABLE, f"it was bound to {pane.label}, but {broken}", pane.label)
        return self._place(located, harness)

    def _place(self, located: _Located, harness: str) -> Place:
        fence = self._fence(located, harness)
        agent = self._agent(located, harness)
        paste = agent.profile.paste if agent else None
        return Place(
            key=str(PaneKey(fence.socket, fence.server_pid, fence.pane_id)),
            label=located.pane.label,
            fence=fence,
            paper=Paper(paste.max_lines, paste.max_characters, paste.at_reads_files) if paste else Paper(),
        )

    def _fence(self, located: _Located, harness: str) -> Binding:
        agent = self._agent(located, harness)
        return fence_around(
            socket=located.socket,
            server_pid=located.pane.server_pid,
            session_id=located.pane.session_id,
            pane_id=located.pane.pane_id,
            pane_pid=located.pane.pane_pid,
            agent=agent.process if agent else None,
        )

    def _agent(self, located: _Located, harness: str) -> Agent | None:
        pane = located.pane
        occupant = self._occupants.of(located.socket, pane.pane_id, pane.pane_pid, pane.command, harness)
        return occupant if isinstance(occupant, Agent) else None


def _outlived(target: str, written: Instant | None, panes: Sequence[Pane] | NoPane) -> Nowhere | None:
    """Why an id that was written down means no pane of today: the server began after it, and counts anew."""
    if not is_id(target) or written is None or isinstance(panes, NoPane) or not panes:
        return None
    if panes[0].server_started * 1000 <= written:
        return None
    return Nowhere(HoldReason.UNREACHABLE, f"{target} was a pane of an earlier tmux server; its ids began anew", target)


def _listed(panes: Sequence[Pane]) -> str:
    names = [f"{pane.label} ({pane.pane_id})" for pane in panes[:_LISTED]]
    more = len(panes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
