"""Which tmux server is meant: a socket's path, never the default one by accident (DESIGN §6.1)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def socket_path(name: str, environment: Mapping[str, str]) -> str:
    """The path of the socket that `tmux -L name` would use."""
    directory = environment.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108 - tmux's own rule
    return _real(f"{directory}/tmux-{os.getuid()}/{name}")


def _real(path: str) -> str:
    """One spelling for every path of a socket: on macOS /tmp is a link."""
    return os.path.realpath(Path(path).expanduser())


def default_socket(name: str, path: str, environment: Mapping[str, str]) -> str:
    """The server to use where a target names none.

    `path` (tmux -S) wins over `name` (tmux -L); without both it is the server this process was started in, as for
    every tmux command typed there, else tmux's default one.
    """
    if path:
        return _real(path)
    if name:
        return socket_path(name, environment)
    inside, _, _ = environment.get("TMUX", "").partition(",")
    return _real(inside) if inside else socket_path("default", environment)


def target_socket(text: str, environment: Mapping[str, str]) -> str:
    """The socket a target names: a path when there is a slash in it, else a name."""
    return _real(text) if "/" in text else socket_path(text, environment)


def why_not_ours(path: str) -> str:
    """Why a socket may not be used; empty if it may. Only sockets of our own user are."""
    try:
        found = os.stat(path)  # noqa: PTH116 - one look, mode and owner together
    except OSError as problem:
        return f"no tmux server at {path}: {problem.strerror}"
    if not stat.S_ISSOCK(found.st_mode):
        return f"{path} is no socket"
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user"
    return ""
