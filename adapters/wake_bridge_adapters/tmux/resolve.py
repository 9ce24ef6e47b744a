"""Resolves an address to exactly one pane, or to none; it never guesses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.pane_identity import (
    CandidatePane,
    PaneCase,
    PaneMove,
    PaneState,
    already_lives_there,
    decide_pane,
)
from wake_bridge.domain.routing import Address, Binding, Claim, Expected, RememberedPane
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import Nowhere, Place, TargetLimits
from wake_bridge_adapters.tmux.claims import Claimants, Seen, panes_at
from wake_bridge_adapters.tmux.command import NOT_ON_PATH, TmuxServer
from wake_bridge_adapters.tmux.occupants import (
    Occupants,
    PaneAgent,
    age_of,
    breach,
    fence_around,
    process_now,
    started_at,
)
from wake_bridge_adapters.tmux.pane_facts import NoPane, nothing_behind
from wake_bridge_adapters.tmux.panes import (
    Listing,
    Pane,
    is_id,
    panes_claimed_by,
    panes_named,
)

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


@dataclass(frozen=True, slots=True)
class _Home:
    """How the remembered pane stands; `place` where it is there."""

    state: PaneState
    place: Place | None = None


class Resolver:
    """Finds the one pane an address means, now.

    Args:
        server_of: the server behind a socket's path.
        socket_of: the socket that a target's `socket` names; the configured one for an empty text.
        occupants: who recognises the agent in a pane.
        now: the time by which it is said when a remembered agent was last seen.

    `listing` is shared with whoever lists panes at the same moment.
    """

    def __init__(
        self,
        server_of: Callable[[str], TmuxServer],
        socket_of: Callable[[str], str],
        occupants: Occupants,
        now: Callable[[], Instant],
    ) -> None:
        self._server_of = server_of
        self._socket_of = socket_of
        self._occupants = occupants
        self._now = now
        self.listing = Listing()
        self._asked: dict[Address, asyncio.Task[Place | Nowhere]] = {}

    async def resolve(self, address: Address) -> Place | Nowhere:
        """Find it now; adapters that ask at the same moment, to reach past the same screen, share one answer, as of a listing."""
        asked = self._asked.get(address)
        if asked is None:
            asked = self._asked[address] = asyncio.create_task(self._resolve(address))
        # one who gives up waiting takes the answer from nobody else
        return await asyncio.shield(asked)

    async def _resolve(self, address: Address) -> Place | Nowhere:
        """The configured target; else the pane that says so itself; else the binding; else the subscription's.

        A configured id of a server that is gone says nothing; the subscription's does not stand in for it. The pane where
        a name led to before counts in its stead while it lives.
        """
        await asyncio.sleep(0)
        # from now on the answer may be older than a question
        del self._asked[address]
        usual = self._socket_of(address.socket)
        sockets = [usual]
        if address.binding and address.binding.socket != usual:
            sockets.append(address.binding.socket)
        seen = {socket: await self._panes(socket) for socket in sockets}
        found, home = await asyncio.to_thread(self._choose, address, usual, seen)
        if home is None:
            return found
        if address.remembered is None:
            return self._for_the_first_time(address, found, seen)
        claims = tuple(address.claims())
        return await asyncio.to_thread(self._judged, address, address.remembered, home, found, seen, claims)

    async def _panes(self, socket: str) -> list[Pane] | NoPane:
        server = self._server_of(socket)
        if server.program is None:
            return NoPane(NOT_ON_PATH, cause=Cause.NO_TMUX)
        if nobody := nothing_behind(socket):
            return nobody
        return await self.listing.of(server)

    def _choose(self, address: Address, usual: str, seen: Seen) -> tuple[Place | Nowhere, _Home | None]:
        """The one place, or why there is none; with the remembered pane where that is lost, and others may be meant."""
        outlived = _outlived(address.pane, address.pane_written, seen[usual])
        is_configured = bool(address.pane) and outlived is None
        if not is_configured and (marked := self._marked(address, seen)):
            return marked, None
        home = self._home(address, seen)
        if home.state is PaneState.LIVES and home.place is not None:
            return home.place, None
        if is_configured:
            return self._named(address.pane, usual, seen[usual], address.harness, address.expected), home
        bound = self._bound(address.binding, seen, address.harness) if address.binding else None
        if isinstance(bound, Place):
            return bound, None
        if outlived is not None:
            return outlived, home
        if address.suggested:
            return _outlived(address.suggested, address.suggested_written, seen[usual]) or self._named(
                address.suggested, usual, seen[usual], address.harness
            ), home
        why = f"nothing says in which pane {address.identity} is"
        nothing = Nowhere(HoldReason.UNREACHABLE, why, cause=Cause.NO_PLACE)
        return bound or nothing, home

    def _marked(self, address: Address, seen: Seen) -> Place | Nowhere | None:
        """The pane that says itself that it is the identity's; None where none does."""
        claims = [
            _Located(socket, panes, pane)
            for socket, panes in seen.items()
            if not isinstance(panes, NoPane)
            for pane in panes_claimed_by(panes, address.identity)
        ]
        if len(claims) > 1:
            listed = _listed([claim.pane for claim in claims])
            return Nowhere(HoldReason.AMBIGUOUS, f"{len(claims)} panes say they are {address.identity}: {listed}")
        return _place(claims[0], self._agent(claims[0], address.harness)) if claims else None

    def _home(self, address: Address, seen: Seen) -> _Home:
        """How the remembered pane stands now; gone where its server cannot be asked."""
        if address.remembered is None:
            return _Home(PaneState.GONE)
        fence, since = address.remembered.fence, address.remembered.since
        panes = next((panes for socket, panes in seen.items() if os.path.realpath(socket) == fence.socket), [])
        if isinstance(panes, NoPane) or not panes:
            return _Home(PaneState.GONE)
        pane = next(iter(panes_named(panes, fence.pane_id)), None)
        is_same_process = pane is not None and (pane.pane_pid, started_at(pane.pane_pid)) == (
            fence.pane_pid,
            fence.pane_started,
        )
        # a pid may come again after a boot, and the first panes always have the same ids
        is_same_server = panes[0].server_pid == fence.server_pid and (
            is_same_process or panes[0].server_started * 1000 <= since
        )
        if not is_same_server:
            return _Home(PaneState.SERVER_ENDED)
        if pane is None:
            return _Home(PaneState.GONE)
        located = _Located(fence.socket, panes, pane)
        agent = self._agent(located, address.harness)
        if _stranger(located, agent, address.expected):
            return _Home(PaneState.EMPTY)
        place = _place(located, agent)
        if agent is not None:
            return _Home(PaneState.LIVES, place)
        process = process_now(fence.agent_pid) if fence.agent_pid else None
        lives = process is not None and process.started == fence.agent_started
        return _Home(PaneState.ASIDE if lives else PaneState.EMPTY, place)

    def _for_the_first_time(self, address: Address, found: Place | Nowhere, seen: Seen) -> Place | Nowhere:
        """Where a name leads of which nothing is remembered: after `unbind`, an update, or as the first there was."""
        if not isinstance(found, Place) or found.fence is None or not found.fence.agent_pid:
            return found
        claims = address.claims()
        named_here = Claimants(claims, seen, self._socket_of).whose_names_lead_to(found.fence)
        owner = already_lives_there(address.identity, found.fence, claims, named_here)
        if owner is None:
            return found
        why = f"{address.name!r} leads to {found.label} now, which is {owner}'s"
        if address.pane:
            return Nowhere(HoldReason.MOVED, f"[targets] {why}", found.label, Cause.TARGET_MOVED)
        return Nowhere(HoldReason.MOVED, why, found.label)

    def _judged(
        self,
        address: Address,
        memory: RememberedPane,
        home: _Home,
        found: Place | Nowhere,
        seen: Seen,
        claims: Sequence[Claim],
    ) -> Place | Nowhere:
        """Where the name leads, if that may be the identity's (see `decide_pane`)."""
        own = self._of_conversation(address, seen)
        place = own or found
        others = Claimants(claims, seen, self._socket_of)
        verdict = decide_pane(
            PaneCase(
                identity=address.identity,
                memory=memory,
                home=home.state,
                candidate=self._candidate(address, memory, place, seen, others, is_own=own is not None),
                claims=claims,
                may_be_confused=others.may_be_confused(address, memory, home.state),
            )
        )
        if verdict.move is PaneMove.HOLD:
            label = place.label if isinstance(place, Place) else ""
            if address.pane and verdict.cause is not Cause.SERVER_BEGAN_ANEW:
                return Nowhere(HoldReason.MOVED, f"[targets] {verdict.why}", label, Cause.TARGET_MOVED)
            return Nowhere(HoldReason.MOVED, verdict.why, label, verdict.cause)
        return home.place if verdict.move is PaneMove.STAY and home.place is not None else place

    def _of_conversation(self, address: Address, seen: Seen) -> Place | None:
        """The pane where a conversation runs that is known to be the identity's; None where none does."""
        for session in address.sessions:
            for pane in panes_named(panes_at(session.socket, seen), session.pane) if session.pane else ():
                located = _Located(session.socket, panes_at(session.socket, seen), pane)
                agent = self._agent(located, address.harness)
                is_it = agent is not None and (agent.process.pid, agent.process.started) == (
                    session.pid,
                    session.started,
                )
                if is_it and not _stranger(located, agent, address.expected):
                    return _place(located, agent)
        return None

    def _candidate(
        self,
        address: Address,
        memory: RememberedPane,
        found: Place | Nowhere,
        seen: Seen,
        others: Claimants,
        *,
        is_own: bool,
    ) -> CandidatePane | None:
        if not isinstance(found, Place) or found.fence is None:
            return None
        fence = found.fence
        pane = next(iter(panes_named(panes_at(fence.socket, seen), fence.pane_id)), None)
        began = self._now() - int(age_of(fence.agent_pid) * 1000) if fence.agent_pid else self._now()
        return CandidatePane(
            label=found.label,
            fence=fence,
            began=Instant(began),
            said_to_be=frozenset(map(Identity, pane.identities)) if pane else frozenset(),
            named_by=others.named_by(fence),
            could_be=others.could_be(address, memory, fence),
            is_own=is_own,
        )

    def _named(
        self,
        target: str,
        socket: str,
        panes: list[Pane] | NoPane,
        harness: str,
        expected: Expected = ANYBODY,
    ) -> Place | Nowhere:
        if isinstance(panes, NoPane):
            return Nowhere(HoldReason.UNREACHABLE, panes.why, target, panes.cause)
        found = [_Located(socket, panes, pane) for pane in panes_named(panes, target)]
        if not found:
            why = f"no pane is called exactly {target!r}{_meant(target, panes)}"
            return Nowhere(HoldReason.UNREACHABLE, why, target, Cause.NO_SUCH_PANE)
        # each costs a look at a process, and its place needs it again
        agents = [self._agent(one, harness) for one in found]
        whys = [_stranger(one, agent, expected) for one, agent in zip(found, agents, strict=True)]
        if all(whys):
            return Nowhere(HoldReason.UNREACHABLE, f"{target!r} now means another agent: {whys[0]}", target)
        may_be = [(one, agent) for one, agent, why in zip(found, agents, whys, strict=True) if not why]
        if len(may_be) == 1:
            return _place(*may_be[0])
        with_agent = [(one, agent) for one, agent in may_be if agent]
        if len(with_agent) == 1:
            return _place(*with_agent[0])
        count = f"{len(with_agent)} of them run an agent" if with_agent else "none of them runs an agent"
        listed = _listed([one.pane for one, _ in may_be])
        return Nowhere(HoldReason.AMBIGUOUS, f"{target!r} has {len(may_be)} panes and {count}: {listed}", target)

    def _bound(self, binding: Binding, seen: Seen, harness: str) -> Place | Nowhere:
        """The pane of the binding while its fence is intact."""
        panes = seen[binding.socket]
        if isinstance(panes, NoPane):
            return Nowhere(HoldReason.UNREACHABLE, panes.why, binding.pane_id, panes.cause)
        pane = next(iter(panes_named(panes, binding.pane_id)), None)
        if pane is None:
            return Nowhere(HoldReason.UNREACHABLE, f"the bound pane {binding.pane_id} is gone", binding.pane_id)
        located = _Located(binding.socket, panes, pane)
        agent = self._agent(located, harness)
        broken = breach(binding, _fence(located, agent))
        if broken:
            return Nowhere(HoldReason.UNREACHABLE, f"it was bound to {pane.label}, but {broken}", pane.label)
        return _place(located, agent)

    def _agent(self, located: _Located, harness: str) -> PaneAgent | None:
        pane = located.pane
        occupant = self._occupants.of(located.socket, pane.pane_id, pane.pane_pid, pane.command, harness)
        return occupant if isinstance(occupant, PaneAgent) else None


def _stranger(located: _Located, agent: PaneAgent | None, expected: Expected) -> str:
    """Why the pane is not where the expected agent lives; empty if it may be. Nobody there is no other agent."""
    if agent is None:
        return ""
    if expected.agent and agent.profile.name != expected.agent:
        return f"{agent.profile.name} is there, not {expected.agent}"
    directory = located.pane.values["pane_current_path"]
    if expected.directory and os.path.realpath(directory) != os.path.realpath(expected.directory):
        return f"{agent.profile.name} is there in {directory}, not in {expected.directory}"
    return ""


def _place(located: _Located, agent: PaneAgent | None) -> Place:
    fence = _fence(located, agent)
    return Place(
        key=str(PaneKey(fence.socket, fence.server_pid, fence.pane_id)),
        label=located.pane.label,
        fence=fence,
        paper=limits_of(agent),
    )


def _fence(located: _Located, agent: PaneAgent | None) -> Binding:
    return fence_around(
        socket=located.socket,
        server_pid=located.pane.server_pid,
        session_id=located.pane.session_id,
        pane_id=located.pane.pane_id,
        pane_pid=located.pane.pane_pid,
        agent=agent.process if agent else None,
    )


def limits_of(agent: PaneAgent | None) -> TargetLimits:
    """What an agent takes well. A text of one line holds no line break that a shell behind a carrier would run."""
    if agent is None:
        return TargetLimits()
    paste = agent.profile.paste
    return TargetLimits(1 if agent.is_hidden else paste.max_lines, paste.max_characters, paste.at_reads_files)


def _meant(target: str, panes: Sequence[Pane]) -> str:
    """The session that may be meant by a name with a colon in it: the colon can as well stand before a window."""
    name = target.replace(":", "_").replace(".", "_")
    is_there = ":" in target and any(pane.values["session_name"] == name for pane in panes)
    return f"; tmux writes `_` for `:` and `.` in a session's name: {name!r} is there" if is_there else ""


def _outlived(target: str, written: Instant | None, panes: Sequence[Pane] | NoPane) -> Nowhere | None:
    """Why an id that was written down means no pane of today: the server began after it, and counts anew."""
    if not is_id(target) or written is None or isinstance(panes, NoPane) or not panes:
        return None
    if panes[0].server_started * 1000 <= written:
        return None
    return Nowhere(
        HoldReason.UNREACHABLE, f"{target} was a pane of an earlier tmux server, whose ids are no longer valid", target
    )


def _listed(panes: Sequence[Pane]) -> str:
    names = [f"{pane.label} ({pane.pane_id})" for pane in panes[:_LISTED]]
    more = len(panes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
