"""Programs that listen on this host: where a process listens, and whether nobody but it listens there.

A port alone proves nothing: another program may listen there by now. The system says whose a socket is. The other end of a
connection cannot be asked for: some programs take a connection only with its first byte (Bun, by TCP_DEFER_ACCEPT).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import psutil

_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - who listens everywhere listens on the loopback
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL: Final = 1
_STATE: Final = 3
_INODE: Final = 9
_LISTENS: Final = "0A"
"""`TCP_LISTEN`, as these tables write it."""

Listener = tuple[str, int]
"""Address and port."""


def listeners_of(pid: int) -> list[Listener]:
    """Where a process listens for TCP, as somebody on this host would connect; empty where the system does not tell.

    Addresses but those of the loopback are left out: what goes there stays here.
    """
    try:
        sockets = psutil.Process(pid).net_connections("tcp")
    except (psutil.Error, OSError):
        return []
    found = (
        (_ANY.get(one.laddr.ip, one.laddr.ip), int(one.laddr.port))
        for one in sockets
        if one.status == psutil.CONN_LISTEN and one.laddr
    )
    return sorted({(host, port) for host, port in found if ip_address(host).is_loopback})


def listens_alone(pid: int, listener: Listener) -> bool:
    """Whether a process listens there, and no other one at that port.

    Asked of a connection that is open, it says that the connection is to that process: what another program had not
    taken yet ends with its listening. Where the system does not list the sockets of others (macOS), only the first is asked.
    """
    if listener not in listeners_of(pid):
        return False
    if sys.platform == "darwin":
        return True
    there = set(_listening_at(listener[1]))
    return bool(there) and there <= sockets_of(pid)


def _listening_at(port: int) -> Iterator[int]:
    for table in _TABLES:
        with suppress(OSError):
            for row in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = row.split()
                if fields[_STATE] == _LISTENS and int(fields[_LOCAL].rpartition(":")[2], 16) == port:
                    yield int(fields[_INODE])


def sockets_of(pid: int) -> frozenset[int]:
    """The inodes of the sockets a process has open; empty where it has ended or may not be looked at."""
    found = set()
    with suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone
            with suppress(OSError):
                leads_to = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115 - a pseudo file
                if leads_to.startswith("socket:["):
                    found.add(int(leads_to[len("socket:[") : -1]))
    return frozenset(found)


def program_in_group(pid: int, name: str) -> int | None:
    """The program of that name that a process is, or has started in its own group, as the wrapper of an installation does."""
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if _is_called(process, name):
            return pid
        # a look at all processes, so only where the name stands in the command line
        if any(_file_of(word).startswith(name) for word in process.cmdline()[:3]):
            group = os.getpgid(pid)
            below = (one for one in process.children(recursive=True) if os.getpgid(one.pid) == group)
            return next((one.pid for one in below if _is_called(one, name)), None)
    return None


def _is_called(process: psutil.Process, name: str) -> bool:
    """By its own name, or by the file that it was started as: some call their first thread otherwise."""
    if process.name() == name:
        return True
    words = process.cmdline()
    return bool(words) and _file_of(words[0]) == name


def _file_of(word: str) -> str:
    return word.rpartition("/")[2]
