"""Finds an identity's thread: the one that the program on its screen shows.

The server keeps a thread loaded while a terminal has it open, and for a minute longer. A terminal has touched
`tui-thread-reference-capabilities/THREAD` when it opened a thread: what it shows was touched after it began.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence
from wake_bridge.domain.routing import Address
from wake_bridge.domain.sessions import NOBODY
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import Nowhere
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.sessions import Sessions
from wake_bridge_adapters.codex.server import Connection, control_socket, where_it_leads
from wake_bridge_adapters.codex.threads import (
    Thread,
    is_same_directory,
    loaded_threads,
    named_threads,
    own_directory,
    read_thread,
)
from wake_bridge_adapters.loopback import sockets_of
from wake_bridge_adapters.own_screen import OwnScreen, ScreenOf, find_screen, in_the_way

PROGRAM: Final = "codex"

_SOCK_DIAG: Final = 4
"""`NETLINK_SOCK_DIAG`, as which Linux answers for sockets; `socket` has no name for it."""

_BY_FAMILY: Final = 20
_DUMP: Final = 0x301
"""`NLM_F_REQUEST | NLM_F_DUMP`."""

_SHOW_PEER: Final = 4
_PEER: Final = 2
_ERROR: Final = 2
_DONE: Final = 3
_ALL: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBHIIIII")
_ANSWER: Final = struct.Struct("=BBBBIII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_INODE: Final = struct.Struct("=I")
_PATIENCE: Final = 1.0
_LARGEST: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """One process that is the server's client, and may show a thread. `began` is when it started, in seconds since 1970."""

    pid: int
    began: float
    directory: str


class Clients:
    """The clients of one server as they are now.

    Args:
        server_pid: the server.
        path: the socket it listens on.

    Raises:
        OSError: the system does not tell.
    """

    def __init__(self, server_pid: int, path: str) -> None:
        self._path = path
        self._ends: frozenset[int] = frozenset()
        if sys.platform != "darwin":
            peers, own = dict(_peers()), sockets_of(server_pid)
            self._ends = frozenset(peers[one] for one in own if one in peers) - own

    def in_group_of(self, pid: int) -> ClientProcess | None:
        """The client that a process is, or that it has started in its group, as the wrapper of an installation does."""
        return next((_terminal(one) for one in _with_its_group(pid) if self._has(one)), None)

    def terminals(self) -> list[ClientProcess]:
        """Every process of the harness's name that is a client."""
        found = [_terminal(pid) for pid in _named(PROGRAM) if self._has(pid)]
        return [one for one in found if one is not None]

    def _has(self, pid: int) -> bool:
        if sys.platform == "darwin":
            try:
                return any(one.raddr == self._path for one in psutil.Process(pid).net_connections("unix"))
            except psutil.Error:
                return False
        return bool(self._ends & sockets_of(pid))


def _named(name: str) -> Iterator[int]:
    """All processes of a name; on Linux from /proc, which costs microseconds."""
    if sys.platform == "darwin":
        yield from (one.pid for one in psutil.process_iter(["name"]) if one.info["name"] == name)
        return
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names alone
        with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123 - a pseudo file
            if file.read().rstrip(b"\n") == name.encode():
                yield int(pid)


def _with_its_group(pid: int) -> Iterator[int]:
    """A process, and what of the harness's name it has started in its own group."""
    yield pid
    with suppress(psutil.Error, OSError):
        group = os.getpgid(pid)
        for one in psutil.Process(pid).children(recursive=True):
            if one.name() == PROGRAM and os.getpgid(one.pid) == group:
                yield one.pid


def _terminal(pid: int) -> ClientProcess | None:
    try:
        process = psutil.Process(pid)
        return ClientProcess(pid, process.create_time(), os.path.realpath(process.cwd()))
    except psutil.Error:
        return None


def _peers() -> Iterator[tuple[int, int]]:
    """Every Unix socket of the system that is connected, and its other end. Raises `OSError`."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.settimeout(_PATIENCE)
        asked = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW_PEER, _ALL, _ALL)
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _DUMP, 1, 0) + asked)
        while True:
            answer = kernel.recv(_LARGEST)
            at = 0
            while at + _HEADER.size <= len(answer):
                length, kind, *_ = _HEADER.unpack_from(answer, at)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEADER.size:
                    raise OSError("the kernel does not tell whose sockets are connected")
                yield from _peer_in(answer[at + _HEADER.size : at + length])
                at += (length + 3) & ~3


def _peer_in(told: bytes) -> Iterator[tuple[int, int]]:
    inode = _ANSWER.unpack_from(told)[4]
    at = _ANSWER.size
    while at + _ATTRIBUTE.size <= len(told):
        length, kind = _ATTRIBUTE.unpack_from(told, at)
        if kind == _PEER:
            yield inode, _INODE.unpack_from(told, at + _ATTRIBUTE.size)[0]
        at += max((length + 3) & ~3, _ATTRIBUTE.size)


_OPENED: Final = "tui-thread-reference-capabilities"
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TELLS_ITS_TIME: Final = "7"
"""The version of a UUID that begins with the millisecond of its making."""

STARTS_APART: Final = 2.0
"""Seconds by which the start of a process, counted from that of the system, and the time of a file may differ."""

OPENED_WITHIN: Final = 10.0
"""Seconds within which a terminal has opened the thread that it begins; measured: 0.3 s."""


def opened_at(home: Path, thread_id: str) -> float | None:
    """When a terminal last opened a thread, in seconds since 1970; None where none ever has."""
    if not _ID.fullmatch(thread_id):
        return None
    try:
        return (home / _OPENED / thread_id).stat().st_mtime
    except OSError:
        return None


def begun_at(thread_id: str) -> float | None:
    """When a thread was begun, in seconds since 1970, as its id tells; None where it does not."""
    found = _ID.fullmatch(thread_id)
    if found is None or found[1] != _TELLS_ITS_TIME:
        return None
    return int(thread_id.replace("-", "")[:12], 16) / 1000


def may_be_shown(
    terminal: ClientProcess, others: Sequence[ClientProcess], loaded: Sequence[Thread], home: Path, now: float
) -> list[Thread]:
    """The threads that a terminal may show; what it shows is among them.

    Args:
        terminal: the program.
        others: all other terminals.
        loaded: all threads that the server has loaded.
        home: the directory of Codex.
        now: the wall clock, in seconds since 1970.
    """
    opened = {one.id: opened_at(home, one.id) for one in loaded}
    rooms = Counter(os.path.realpath(one.directory) for one in others)
    tenants = Counter(os.path.realpath(one.directory) for one in loaded if one.is_a_persons and opened[one.id])

    def may_have_opened(thread: Thread) -> bool:
        at, begun = opened[thread.id], begun_at(thread.id)
        if at is None:
            # a new one is there before its terminal says that it has opened it
            return thread.is_a_persons and (begun is None or now - begun < OPENED_WITHIN)
        if at < terminal.began - STARTS_APART:
            return False
        # opened by nobody but who began it, where another terminal works and this one does not
        room = os.path.realpath(thread.directory)
        was_never_left = begun is not None and at - begun < OPENED_WITHIN
        is_elsewhere = room != terminal.directory and tenants[room] <= rooms[room]
        return not (was_never_left and is_elsewhere)

    return [one for one in loaded if may_have_opened(one)]


@dataclass(frozen=True, slots=True)
class Found:
    """A thread, whether the identity's program shows it, and on which screen where one is known."""

    thread: Thread
    is_shown: bool
    screen: OwnScreen | None = None


class Finder:
    """Finds the identities' threads in one directory of Codex.

    `sessions` and `screen_of` are told later, if at all: who knows whose a conversation is, and who sees whose screen.
    """

    def __init__(self, home: Path, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self.sessions: Sessions | None = None
        self.screen_of: ScreenOf = lambda _: None

    async def find(self, connection: Connection, address: Address) -> Found | Nowhere:
        """The thread that the identity's program shows; else a known one that no program is known to show."""
        names, directory = named_threads(address), own_directory(address)
        if not names and not directory:
            return Nowhere(
                HoldReason.UNREACHABLE, "nothing tells which Codex thread belongs to it", cause=Cause.NO_PLACE
            )
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
        screen = await find_screen(self.screen_of, address)
        if screen is not None and screen.agent_pid:
            terminal = await asyncio.to_thread(clients.in_group_of, screen.agent_pid)
            shown = self._shown_on(screen, terminal, terminals, loaded, address)
        elif screen is None and not _names_a_pane(address):
            shown = self._shown_anywhere(terminals, loaded, address, names, directory)
        if shown is not None:
            return shown
        # a sub-agent works in its agent's directory, and its hooks call in as well
        known = [one for name in names if (one := await read_thread(connection, name)) is not None and one.is_a_persons]
        if not known:
            return Nowhere(HoldReason.UNREACHABLE, "no known Codex program shows a thread of it", directory)
        return Found(next((one for one in known if one.is_loaded), known[0]), is_shown=False)

    def _shown_on(
        self,
        screen: OwnScreen,
        terminal: ClientProcess | None,
        terminals: Sequence[ClientProcess],
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
        terminals: Sequence[ClientProcess],
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

    def _may_show(
        self, terminal: ClientProcess, terminals: Sequence[ClientProcess], loaded: Sequence[Thread]
    ) -> list[Thread]:
        others = [one for one in terminals if one.pid != terminal.pid]
        return may_be_shown(terminal, others, loaded, self._home, self._clock.wall() / 1000)

    async def in_the_way(self, found: Found, address: Address) -> Evidence | None:
        """What is on the screen instead of the thread at rest."""
        if found.screen is None or not found.thread.is_at_rest:
            return None
        return in_the_way(await found.screen.look(address))

    def _may_be_its(self, thread: Thread, address: Address, directory: str) -> bool:
        is_somebody_elses = self._whose(thread) not in {None, NOBODY, address.identity}
        return thread.is_a_persons and is_same_directory(thread.directory, directory) and not is_somebody_elses

    def _whose(self, thread: Thread) -> Identity | None:
        session = self.sessions.session(thread.id) if self.sessions else None
        return None if session is None else session.identity


def _not_one(threads: Sequence[Thread], where: str) -> Nowhere:
    if not threads:
        return Nowhere(HoldReason.UNREACHABLE, "its program shows no known thread of the app-server", where)
    return Nowhere(HoldReason.AMBIGUOUS, f"its program may show any of {len(threads)} Codex threads", where)


def _names_a_pane(address: Address) -> bool:
    return bool(address.pane or address.suggested or address.binding)
