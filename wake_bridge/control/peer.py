"""The user and the process at the other end of a Unix socket, as the kernel reports them."""

from __future__ import annotations

import os
import struct
import sys

try:
    import _socket as socket  # hooks wait for this: `socket` itself imports for a fifth of their time
except ImportError:
    import socket  # type: ignore[no-redef]

_LINUX = struct.Struct("3i")
"""`struct ucred`: pid, uid, gid."""

_BSD = struct.Struct("2I")
"""The start of `struct xucred`: version, uid."""

_SOL_LOCAL = 0
_LOCAL_PEERCRED = 1
_LOCAL_PEERPID = 2


def uid_of_peer(channel: socket.socket) -> int:
    """The user who connected, or who listens.

    Raises:
        OSError: the system does not tell.
    """
    if sys.platform == "darwin":
        _, uid = _BSD.unpack(channel.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _BSD.size + 68)[: _BSD.size])
    else:
        _, uid, _ = _LINUX.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
    return int(uid)


def pid_of_peer(channel: socket.socket) -> int:
    """The process that connected; 0 where the system does not tell, or it is not of this system."""
    try:
        if sys.platform == "darwin":
            return channel.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        pid, _, _ = _LINUX.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
    except OSError:
        return 0
    return int(pid)


def is_ours(channel: socket.socket) -> bool:
    """Whether the other end is this user, or root, whom nothing here could keep out; False where it cannot be told."""
    try:
        return uid_of_peer(channel) in {os.geteuid(), 0}
    except OSError:
        return False
