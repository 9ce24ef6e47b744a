"""Which processes are connected to the app-server: the kernel says so, whatever anybody claims (docs/native.md)."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

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
class Terminal:
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
            peers, own = dict(_peers()), _sockets_of(server_pid)
            self._ends = frozenset(peers[one] for one in own if one in peers) - own

    def in_group_of(self, pid: int) -> Terminal | None:
        """The client that a process is, or that it has started in its group, as the wrapper of an installation does."""
        return next((_terminal(one) for one in _with_its_group(pid) if self._has(one)), None)

    def terminals(self) -> list[Terminal]:
        """Every process of the harness's name that is a client."""
        found = [_terminal(pid) for pid in _named(PROGRAM) if self._has(pid)]
        return [one for one in found if one is not None]

    def _has(self, pid: int) -> bool:
        if sys.platform == "darwin":
            try:
                return any(one.raddr == self._path for one in psutil.Process(pid).net_connections("unix"))
            except psutil.Error:
                return False
        return bool(self._ends & _sockets_of(pid))


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


def _terminal(pid: int) -> Terminal | None:
    try:
        process = psutil.Process(pid)
        return Terminal(pid, process.create_time(), os.path.realpath(process.cwd()))
    except psutil.Error:
        return None


def _sockets_of(pid: int) -> frozenset[int]:
    """The inodes of the sockets a process has open; empty where it has ended or may not be looked at."""
    found = set()
    with suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone
            with suppress(OSError):
                leads_to = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115 - a pseudo file
                if leads_to.startswith("socket:["):
                    found.add(int(leads_to[len("socket:[") : -1]))
    return frozenset(found)


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
