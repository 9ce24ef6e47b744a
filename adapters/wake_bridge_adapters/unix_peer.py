"""Who is at the other end of a Unix socket, as the system tells."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any, Final

from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.tmux.occupants import started_at

_LINUX: Final = struct.Struct("3i")
"""`struct ucred`: pid, uid, gid."""

_BSD: Final = struct.Struct("2I")
"""The start of `struct xucred`: version, uid."""

_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """One process and its user. `started` tells it from a later one with its number; empty where nobody can say."""

    pid: int
    uid: int
    started: str = ""


def peer_of(channel: Any) -> Peer | None:
    """Who listens at the other end; None where the system does not tell."""
    try:
        if sys.platform == "darwin":
            _, uid = _BSD.unpack(channel.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _BSD.size + 68)[: _BSD.size])
            pid = channel.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        else:
            pid, uid, _ = _LINUX.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
    except OSError:
        return None
    return Peer(int(pid), int(uid), started_at(int(pid)))
