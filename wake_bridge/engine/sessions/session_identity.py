"""Finds the identity that a conversation belongs to; none or several count as nobody."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from wake_bridge.domain.names import Identity, Instant, is_identity
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.sessions import NOBODY, Caller, Session
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.sessions.registry import SessionRegistry
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock

SILENT_FOR: Final = 24 * 3_600_000
"""Milliseconds without a sign after which a conversation that never said goodbye counts as over."""


@dataclass(frozen=True, slots=True)
class Processes:
    """What the system says of processes: 0, empty or nothing where it cannot tell.

    Args:
        group_of: the process group.
        terminal_of: the controlling terminal's number.
        started_at: the kernel's start time, which tells a process from a later one of the same id.
        ancestors_of: parent, its parent, and so on.
        terminals_in: the terminals in whose foreground a program of that name works in that directory.
    """

    group_of: Callable[[int], int]
    terminal_of: Callable[[int], int]
    started_at: Callable[[int], str]
    ancestors_of: Callable[[int], Sequence[int]]
    terminals_in: Callable[[str, str], frozenset[int]]


class SessionIdentity:
    """Answers whose a conversation is, from what its caller says and what is known besides.

    Args:
        registry: the conversations that called in.
        recorded: what was written down of one earlier.
        all_recorded: the same of every one, the latest heard of first.
        current: the settings in force.
        clock: how long ago one was heard of.
        fences: where the identities live now, as they are watched: panes, and conversations that a native channel found.
        reachable: the identities there are.
        processes: what the system says.
    """

    def __init__(
        self,
        registry: SessionRegistry,
        recorded: Callable[[str], Session | None],
        all_recorded: Callable[[], Sequence[Session]],
        current: Current,
        clock: Clock,
        *,
        fences: Callable[[], Sequence[tuple[Identity, Binding]]],
        reachable: Callable[[], Container[Identity]],
        processes: Processes,
    ) -> None:
        self._registry = registry
        self._recorded = recorded
        self._all_recorded = all_recorded
        self._current = current
        self._clock = clock
        self._fences = fences
        self._reachable = reachable
        self._processes = processes

    def of(self, caller: Caller) -> Identity | None:
        """The one identity; None where none fits, or several do.

        The first that speaks decides: the environment, the pane, what was recorded, the directory. An agent that another
        agent has started in one of its tools inherits environment and directory, and is nobody.
        """
        places = self._fences()
        own = {one for one, fence in places if not fence.pane_id and fence.session_id == caller.session_id}
        panes = {one: fence for one, fence in places if fence.pane_id}
        if caller.is_shared:
            return _only(own) if own else self._in_shared_server(caller, panes)
        if self._is_nested(caller, [fence for _, fence in places]):
            return None
        here = own | {one for one, fence in panes.items() if self._is_in(caller, fence)}
        if caller.claims:
            return self._claimed(caller, here, panes)
        if here:
            return _only(here)
        known = self._recorded(caller.session_id)
        if known is not None and known.identity != NOBODY:
            return known.identity if self._may_be(caller, known.identity, panes) else None
        return self._by_directory(caller, panes)

    def _claimed(self, caller: Caller, here: set[Identity], panes: Mapping[Identity, Binding]) -> Identity | None:
        """Whom the environment names, unless a pane says otherwise: a tmux server gives its own to every pane it opens."""
        claimed = Identity(caller.claims)
        if not is_identity(claimed) or claimed not in self._reachable() or here - {claimed}:
            return None
        return claimed if not caller.pane or self._may_be(caller, claimed, panes) else None

    def _in_shared_server(self, caller: Caller, panes: Mapping[Identity, Binding]) -> Identity | None:
        """A shared server's environment is somebody's, not this conversation's: it is seen where its program works."""
        terminals = self._processes.terminals_in(caller.harness, _spelled(caller.directory))
        known = self._recorded(caller.session_id)
        if known is not None and known.identity != NOBODY:
            fence = panes.get(known.identity)
            lives_there = fence is None or not terminals or self._processes.terminal_of(fence.pane_pid) in terminals
            return known.identity if lives_there else None
        if len(terminals) > 1:
            return None
        here = {one for one, fence in panes.items() if self._processes.terminal_of(fence.pane_pid) in terminals}
        return _only(here) if here else self._by_directory(caller, panes)

    def _by_directory(self, caller: Caller, panes: Mapping[Identity, Binding]) -> Identity | None:
        room = _spelled(caller.directory)
        if not room or any(_spelled(one.directory) == room for one in self._others(caller)):
            return None
        fitting = [
            identity
            for identity, target in self._current.settings.targets.items()
            if target.directory and _spelled(target.directory) == room
        ]
        if len(fitting) != 1:
            return None
        wanted = self._current.settings.targets[fitting[0]].agent
        fits = wanted in {"", caller.harness} and self._may_be(caller, fitting[0], panes)
        return fitting[0] if fits else None

    def _others(self, caller: Caller) -> list[Session]:
        """The other conversations that are still going on, as far as can be told; also those from before a restart."""
        since = Instant(self._clock.now() - SILENT_FOR)
        known = {one.session_id: one for one in (*self._all_recorded(), *self._registry.live())}
        return [
            one
            for one in known.values()
            if one.session_id != caller.session_id and one.seen_at >= since and self._is_alive(one)
        ]

    def _is_alive(self, session: Session) -> bool:
        return not session.started or self._processes.started_at(session.pid) == session.started

    def _is_in(self, caller: Caller, fence: Binding) -> bool:
        """Whether the caller's harness has the terminal of that pane: its environment alone says little."""
        if not caller.pane or (caller.socket, caller.pane) != (fence.socket, fence.pane_id):
            return False
        if caller.terminal:
            return self._processes.terminal_of(fence.pane_pid) == caller.terminal
        return bool(caller.group) and self._processes.group_of(fence.agent_pid) == caller.group

    def _may_be(self, caller: Caller, identity: Identity, panes: Mapping[Identity, Binding]) -> bool:
        """Whether nothing speaks against it: who lives in one pane does not live in another terminal as well."""
        fence = panes.get(identity)
        return fence is None or self._is_in(caller, fence)

    def _is_nested(self, caller: Caller, fences: Sequence[Binding]) -> bool:
        above = set(self._processes.ancestors_of(caller.pid)) - {0, 1, caller.pid} if caller.pid else set()
        if not above:
            return False
        if any(one.pid in above and self._is_alive(one) for one in self._others(caller)):
            return True
        agents = {fence.agent_pid for fence in fences} & above
        return any(self._processes.group_of(pid) != caller.group for pid in agents)


def _only(found: set[Identity]) -> Identity | None:
    return next(iter(found)) if len(found) == 1 else None


def _spelled(directory: str) -> str:
    """One spelling for one directory."""
    return os.path.realpath(os.path.expanduser(directory)) if directory else ""  # noqa: PTH111 - strings in, strings out
