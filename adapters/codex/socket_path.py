"""Where Codex's control socket is, and whether anybody else could have put it there (SECURITY.md)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SOCKET: Final = "app-server-control/app-server-control.sock"
_ROOT: Final = 0


def codex_home(configured: str, environment: Mapping[str, str]) -> Path:
    """The directory of Codex: as configured, else `CODEX_HOME`, else `~/.codex`; one spelling for every path of it."""
    home = environment.get("HOME") or "~"
    named = configured or environment.get("CODEX_HOME") or f"{home}/.codex"
    if named.startswith("~/"):
        named = f"{home}/{named[2:]}"
    return Path(os.path.realpath(Path(named).expanduser()))


def control_socket(home: Path) -> Path:
    """The socket in it."""
    return home / _SOCKET


def where_it_leads(socket: Path) -> str:
    """The socket itself: Codex makes a link, for the path of a socket must be short."""
    return os.path.realpath(socket)


def why_not_ours(socket: Path) -> str:
    """Why the socket may not be used; empty if it may.

    It must be this user's, and no other user may be able to put another one into its place or into that of the link.
    """
    real = Path(where_it_leads(socket))
    try:
        found = real.stat()
    except OSError as problem:
        return f"there is no app-server at {socket}: {problem.strerror}"
    if not stat.S_ISSOCK(found.st_mode):
        return f"{real} is no socket"
    if found.st_uid != os.geteuid():
        return f"{real} belongs to another user"
    for directory in dict.fromkeys((socket.parent, socket.parent.parent, *real.parents)):
        if why := _why_open_to_others(directory):
            return why
    return ""


def _why_open_to_others(directory: Path) -> str:
    """In a directory like /tmp nobody can replace what another one owns."""
    try:
        found = directory.stat()
    except OSError as problem:
        return f"{directory} cannot be looked at: {problem.strerror}"
    if found.st_uid not in {os.geteuid(), _ROOT}:
        return f"{directory} belongs to another user, who could put another socket there"
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return f"anyone may write {directory}, and put another socket there: run `chmod o-w` on it"
    return ""
