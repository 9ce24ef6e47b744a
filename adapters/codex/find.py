"""Which thread is an identity's now: the one that the program on its screen shows (docs/native.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.codex.clients import Clients, Terminal
from adapters.codex.connection import Connection
from adapters.codex.shown import may_be_shown
from adapters.codex.socket_path import control_socket, where_it_leads
from adapters.codex.threads import (
    Thread,
    is_same_directory,
    loaded_threads,
    named_threads,
    own_directory,
    read_thread,
)
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.domain.sessions import NOBODY
from wake_bridge.ports.adapter import HarnessAdapter, Nowhere, Place
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.sessions import Sessions

HOLDS: Final = {
    PresenceState.ACTIVE: HoldReason.ACTIVE,
    PresenceState.WAITING_ON_APPROVAL: HoldReason.WAITING_ON_APPROVAL,
    PresenceState.UNKNOWN: HoldReason.UNKNOWN,
}
"""What a screen may show that keeps a wake from going past it, and why."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The identity's own screen, and who sees it."""

    adapter: HarnessAdapter
    place: Place


@dataclass(frozen=True, slots=True)
class Found:
    """A thread, whether the identity's program shows it, and on which screen where one is known."""

    thread: Thread
    is_shown: bool
    screen: Screen | None = None


class Finder:
    """Finds the identities' threads in one directory of Codex.

    `sessions` and `screen_of` are told later, if at all: who knows whose a conversation is, and who sees whose screen.
    """

    def __init__(self, home: Path, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self.sessions: Sessions | None = None
        self.screen_of: Callable[[Identity], HarnessAdapter | None] = lambda _: None

    async def find(self, connection: Connection, address: Address) -> Found | Nowhere:
        """The thread that the identity's program shows; else a known one that no program is known to show."""
        names, directory = named_threads(address), own_directory(address)
        if not names and not directory:
            return Nowhere(HoldReason.UNREACHABLE, "nothing says which thread of Codex it is")
        try:
            socket = where_it_leads(control_socket(self._home))
            clients = await asyncio.to_thread(Clients, connection.server.peer.pid, socket)
            terminals = await asyncio.to_thread(clients.terminals)
        except OSError as untold:
            return Nowhere(
                HoldReason.UNREACHABLE, f"the system does not say which programs the app-server serves: {untold}"
            )
        loaded = await loaded_threads(connection)
        shown: Found | Nowhere | None = None
        screen = await self._screen_with(address)
        if screen is not None and screen.place.fence is not None and screen.place.fence.agent_pid:
            terminal = await asyncio.to_thread(clients.in_group_of, screen.place.fence.agent_pid)
            shown = self._shown_on(screen, terminal, terminals, loaded, address)
        elif screen is None and not _names_a_pane(address):
            shown = self._shown_anywhere(terminals, loaded, address, names, directory)
        if shown is not None:
            return shown
        # a sub-agent works in its agent's directory, and its hooks call in as well
        known = [one for name in names if (one := await read_thread(connection, name)) is not None and one.is_a_persons]
        if not known:
            return Nowhere(HoldReason.UNREACHABLE, "no program of Codex is known to show a thread of it", directory)
        return Found(next((one for one in known if one.is_loaded), known[0]), is_shown=False)

    def _shown_on(
        self,
        screen: Screen,
        terminal: Terminal | None,
        terminals: Sequence[Terminal],
        loaded: Sequence[Thread],
        address: Address,
    ) -> Found | Nowhere:
        """What the program in the identity's pane shows, whatever was recorded of it."""
        label = screen.place.label
        if terminal is None:
            return Nowhere(HoldReason.UNREACHABLE, f"the program in {label} does not use the app-server", label)
        threads = self._may_show(terminal, terminals, loaded)
        if len(threads) != 1:
            return _not_one(threads, label)
        if not threads[0].is_a_persons or self._whose(threads[0]) not in {None, NOBODY, address.identity}:
            return Nowhere(HoldReason.UNREACHABLE, f"{label} shows a thread that is not {address.identity}'s", label)
        return Found(threads[0], is_shown=True, screen=screen)

    def _shown_anywhere(
        self,
        terminals: Sequence[Terminal],
        loaded: Sequence[Thread],
        address: Address,
        names: Sequence[str],
        directory: str,
    ) -> Found | Nowhere | None:
        """What is shown of the identity's where nothing says in which pane it lives: a known thread, else its directory's."""
        shown = [self._may_show(one, terminals, loaded) for one in terminals]
        by_name = [one for one in shown if any(thread.id in names and thread.is_a_persons for thread in one)]
        by_room = [one for one in shown if any(self._may_be_its(thread, address, directory) for thread in one)]
        threads = {thread.id: thread for one in by_name or by_room for thread in one}
        if len(threads) > 1:
            return _not_one(list(threads.values()), directory)
        thread = next(iter(threads.values()), None)
        # its hooks may have called, and it was not to be told whose it is
        if thread is None or (not by_name and self._whose(thread) == NOBODY):
            return None
        return Found(thread, is_shown=True)

    def _may_show(self, terminal: Terminal, terminals: Sequence[Terminal], loaded: Sequence[Thread]) -> list[Thread]:
        others = [one for one in terminals if one.pid != terminal.pid]
        return may_be_shown(terminal, others, loaded, self._home, self._clock.wall() / 1000)

    async def _screen_with(self, address: Address) -> Screen | None:
        """The identity's own screen; None where no adapter finds it."""
        adapter = self.screen_of(address.identity)
        place = await adapter.resolve(address) if adapter is not None else None
        return Screen(adapter, place) if adapter is not None and isinstance(place, Place) else None

    async def in_the_way(self, found: Found, address: Address) -> Evidence | None:
        """What is on the screen instead of the thread at rest, such as a menu from which another one may be begun.

        A draft is in nobody's way, nor what tmux says of the pane.
        """
        if found.screen is None or not found.thread.is_at_rest:
            return None
        seen = await found.screen.adapter.observe(found.screen.place, address)
        told = tuple(one for one in seen.evidence if one.weighs and one.hold is None and one.vote in HOLDS)
        return single_vote(told) if told else None

    def _may_be_its(self, thread: Thread, address: Address, directory: str) -> bool:
        is_somebody_elses = self._whose(thread) not in {None, NOBODY, address.identity}
        return thread.is_a_persons and is_same_directory(thread.directory, directory) and not is_somebody_elses

    def _whose(self, thread: Thread) -> Identity | None:
        session = self.sessions.session(thread.id) if self.sessions else None
        return None if session is None else session.identity


def _not_one(threads: Sequence[Thread], where: str) -> Nowhere:
    if not threads:
        return Nowhere(HoldReason.UNREACHABLE, "its program shows no thread of the app-server that is known", where)
    return Nowhere(HoldReason.AMBIGUOUS, f"its program may show each of {len(threads)} threads of Codex", where)


def _names_a_pane(address: Address) -> bool:
    return bool(address.pane or address.suggested or address.binding)
