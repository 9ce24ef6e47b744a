"""Who else could change what decides where keys are typed: configuration, screen profiles, state directory (SECURITY.md).

Whoever can write one of them types in the person's terminals. Only this user and root may; a group only where it is the
person's own, that is, called as they are and without another member, as many systems make one for everybody.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import RefusedForSafety

_ROOT: Final = 0


def why_another_could_change(file: Path) -> str:
    """Why a file cannot be trusted, or the directory it lies in; empty if it can, or is not there."""
    for place in dict.fromkeys((file, file.parent, Path(os.path.realpath(file)).parent)):
        if why := _why(place, allow_sticky=place != file):
            return why
    return ""


def why_another_could_add(directory: Path) -> str:
    """Why a directory cannot be trusted in which every file counts; empty if it can, or is not there."""
    return _why(directory, allow_sticky=False) or why_another_could_change(directory)


def require_own_place(directory: Path) -> None:
    """Make sure that nobody else could have put anything into the state directory.

    Raises:
        RefusedForSafety: somebody could.
    """
    if why := _why(directory, allow_sticky=False):
        raise RefusedForSafety(
            f"others can write the state directory: {why}",
            str(directory),
            hint=f"look at what lies in it, then run `chmod go-w {directory}`; or set `daemon.state_dir`",
        )


def _why(path: Path, *, allow_sticky: bool) -> str:
    """`allow_sticky`: in a directory like /tmp nobody can replace what another one owns."""
    try:
        found = path.stat()
    except OSError:
        return ""
    what = f"the directory {path}" if stat.S_ISDIR(found.st_mode) else "this file"
    if stat.S_ISCHR(found.st_mode) or (allow_sticky and found.st_mode & stat.S_ISVTX):
        return ""
    if found.st_uid not in {os.geteuid(), _ROOT}:
        return f"{what} belongs to another user ({_name_of(found.st_uid)}), who could choose where keys are typed"
    if found.st_mode & stat.S_IWOTH:
        return f"anyone may write {what}, and so choose where keys are typed; run `chmod o-w` on it"
    if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
        return f"a whole group may write {what}, and so choose where keys are typed; run `chmod g-w` on it"
    return ""


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_own_group(gid: int) -> bool:
    try:
        group, name = grp.getgrgid(gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return group.gr_name == name and not set(group.gr_mem) - {name}
