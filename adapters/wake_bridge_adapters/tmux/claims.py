"""Decides whom a name can mean: what other identities hold or have lost among the panes that were seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from wake_bridge.domain.names import Identity
from wake_bridge.domain.pane_identity import PaneState, sharers
from wake_bridge.domain.routing import Address, Binding, Claim, Expected, RememberedPane
from wake_bridge_adapters.tmux.occupants import started_at
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.panes import Pane, is_id, panes_named, rests_on_an_index, session_in

_NONE: Final[list[Pane]] = []

Seen = Mapping[str, list[Pane] | NoPane]
"""What each socket's server has."""


def panes_at(socket: str, seen: Seen) -> Sequence[Pane]:
    """The panes behind a socket, whatever it is called; none where its server was not asked, or did not answer."""
    panes = next((panes for one, panes in seen.items() if os.path.realpath(one) == os.path.realpath(socket)), _NONE)
    return _NONE if isinstance(panes, NoPane) else panes


class Claimants:
    """What other identities claim.

    Args:
        claims: who holds, held or may hold what.
        seen: the panes that there are.
        socket_of: the socket that a target's `socket` names.
    """

    def __init__(self, claims: Sequence[Claim], seen: Seen, socket_of: Callable[[str], str]) -> None:
        self._claims = claims
        self._seen = seen
        self._socket_of = socket_of

    def whose_names_lead_to(self, fence: Binding) -> set[Identity]:
        """Everybody whose name leads to the pane now."""
        return {one.identity for one in self._claims if self._leads_to(one, fence)}

    def named_by(self, fence: Binding) -> frozenset[Identity]:
        """Whose name leads to the pane; who lives in another one does not live where the name leads."""
        settled = _settled(self._claims, panes_at(fence.socket, self._seen))
        return frozenset(self.whose_names_lead_to(fence) - settled)

    def _leads_to(self, claim: Claim, fence: Binding) -> bool:
        """Whether the name in a claim leads to that pane now."""
        panes = panes_at(fence.socket, self._seen)
        is_there = bool(claim.name) and panes_at(self._socket_of(claim.socket), self._seen) is panes
        return is_there and any(pane.pane_id == fence.pane_id for pane in panes_named(panes, claim.name))

    def could_be(self, address: Address, memory: RememberedPane, fence: Binding) -> frozenset[Identity]:
        """Who else has lost its pane, where an index or a session leads to an agent that nothing tells from theirs."""
        panes = panes_at(fence.socket, self._seen)
        if not _is_loose(address.name, panes):
            return frozenset()
        alive = {pane.pane_id for pane in panes}
        told_apart = {one.identity for one in self._claims if not _may_be_the_same(one.expected, address.expected)}
        lost = frozenset(
            one.identity
            for one in self._claims
            if one.fence is not None
            and one.until is None
            and one.fence.pane_id
            and (one.fence.socket, one.fence.server_pid) == (fence.socket, fence.server_pid)
            and one.fence.pane_id not in alive
            and one.identity not in told_apart
        )
        # a session is as good as a name for those who lived elsewhere
        return lost if rests_on_an_index(address.name, panes) else lost & self._beside(address, memory, panes)

    def may_be_confused(self, address: Address, memory: RememberedPane, home: PaneState) -> bool:
        """Whether the name tells no agent from another, and the same one may be meant for somebody who has not come back."""
        panes = panes_at(self._socket_of(address.socket), self._seen)
        if not _is_loose(address.name, panes):
            return False
        others = self._beside(address, memory, panes) - sharers(memory, self._claims, home)
        return bool(others - _settled(self._claims, panes))

    def _beside(self, address: Address, memory: RememberedPane, panes: Sequence[Pane]) -> frozenset[Identity]:
        """The others of the same session by a name that does not last, or, without any name, by the pane they were in."""
        socket = self._socket_of(address.socket)
        named = {one.identity for one in self._claims if one.name}
        by_name = {
            one.identity
            for one in self._claims
            if one.name
            and self._socket_of(one.socket) == socket
            and _is_loose(one.name, panes)
            and _are_beside(one.name, address.name)
            and _may_be_the_same(one.expected, address.expected)
        }
        by_pane = {
            one.identity
            for one in self._claims
            if one.identity not in named and one.fence is not None and one.until is None
            if _is_same_session(one.fence, memory.fence)
        }
        return frozenset((by_name | by_pane) - {address.identity})


def _is_loose(name: str, panes: Sequence[Pane]) -> bool:
    """Whether a name says no more than an index or a session does."""
    is_session = bool(name) and not is_id(name) and ":" not in name
    return is_session or rests_on_an_index(name, panes)


def _is_same_session(one: Binding, other: Binding) -> bool:
    same = (other.socket, other.server_pid, other.session_id)
    return bool(one.pane_id) and (one.socket, one.server_pid, one.session_id) == same


def _settled(claims: Sequence[Claim], panes: Sequence[Pane]) -> set[Identity]:
    """Who lives in one of these panes; after a boot another pane may have the ids of one that is gone."""
    here = {pane.pane_id: pane for pane in panes}

    def lives(fence: Binding) -> bool:
        pane = here.get(fence.pane_id)
        if pane is None or (pane.server_pid, pane.pane_pid) != (fence.server_pid, fence.pane_pid):
            return False
        return started_at(pane.pane_pid) == fence.pane_started

    return {one.identity for one in claims if one.fence is not None and one.until is None and lives(one.fence)}


def _are_beside(one: str, other: str) -> bool:
    """Whether two names speak of the same session, or of sessions that tmux itself has numbered."""
    sessions = [session_in((), name)[0] for name in (one, other)]
    return sessions[0] == sessions[1] or all(name.isdecimal() for name in sessions)


def _may_be_the_same(one: Expected, other: Expected) -> bool:
    """Whether nothing that is expected of two agents tells them apart."""
    pairs = ((one.agent, other.agent), (one.directory, other.directory))
    return all(not mine or not theirs or mine == theirs for mine, theirs in pairs)
