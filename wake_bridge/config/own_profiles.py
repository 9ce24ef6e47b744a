"""Screen profiles that `screens trust` and `screens update` write: files of our own that never replace one that a person wrote."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.system.files import make_directories, read_own_file, replace_file


class ProfileOrigin(StrEnum):
    """Where a profile comes from: the package, a person, what `screens trust` learnt, or `screens update`."""

    SHIPPED = "shipped"
    USER = "user"
    LEARNT = "learnt"
    UPDATED = "updated"


_MARKS: Final = {
    origin: f"# Written by `wake-bridge screens {command}`; whoever edits it keeps it. "
    for origin, command in ((ProfileOrigin.LEARNT, "trust"), (ProfileOrigin.UPDATED, "update"))
}
_BY_HAND: Final = {
    ProfileOrigin.LEARNT: "`wake-bridge screens trust PANE --print` shows what is to be added to it",
    ProfileOrigin.UPDATED: "`wake-bridge screens update FILE --print` shows the difference; add by hand what you want of it",
}


def origin_of(directory: Path, path: Path) -> ProfileOrigin:
    """Where a profile that is in use comes from.

    Args:
        directory: of the user's own profiles.
        path: the profile's file.
    """
    if path.parent != directory:
        return ProfileOrigin.SHIPPED
    try:
        return ProfileOrigin.USER if path.is_symlink() else _written_by(read_own_file(path).decode())
    except (OSError, UnicodeDecodeError):
        return ProfileOrigin.USER


def file_of_profile(directory: Path, harness: str, origin: ProfileOrigin = ProfileOrigin.LEARNT) -> Path:
    """Where the profile of a harness goes; `origin` says which command asks.

    Raises:
        RefusedForSafety: there is one that a person wrote or edited, or a link to one.
    """
    path = directory / f"{harness}.toml"
    try:
        is_ours = not path.is_symlink() and _written_by(read_own_file(path).decode()) is not ProfileOrigin.USER
    except (FileNotFoundError, NotADirectoryError):
        is_ours = not path.is_symlink()
    except (OSError, UnicodeDecodeError):
        is_ours = False
    if is_ours:
        return path
    raise RefusedForSafety(
        "a profile that a person wrote is not replaced",
        str(path),
        hint=_BY_HAND[origin],
    )


def write_profile(directory: Path, harness: str, profile: str, origin: ProfileOrigin = ProfileOrigin.LEARNT) -> Path:
    """Write the profile of a harness, whole or not at all; directories that are made are the owner's alone (0700).

    Args:
        directory: of screen profiles.
        harness: its name, and the file's.
        profile: the text.
        origin: `LEARNT` or `UPDATED`.

    Returns:
        The file.

    Raises:
        RefusedForSafety: there is one that a person wrote or edited.
        OperationFailed: the file system refuses.
    """
    path = file_of_profile(directory, harness, origin)
    try:
        make_directories(directory)
        replace_file(path, f"{_MARKS[origin]}{_digest(profile)}\n{profile}")
    except OSError as refusal:
        raise OperationFailed(
            f"the profile cannot be written ({refusal.strerror})",
            str(path),
            hint="give this user write access there, or name another directory in screens.directory",
        ) from refusal
    return path


def without_mark(text: str) -> str:
    """The text of a profile without the line that a command wrote above it."""
    first, _, rest = text.partition("\n")
    return rest if first.startswith(tuple(_MARKS.values())) else text


def _written_by(text: str) -> ProfileOrigin:
    """Which command wrote a file, `USER` where none did or somebody has edited it since."""
    first, _, rest = text.partition("\n")
    return next((origin for origin, mark in _MARKS.items() if first == mark + _digest(rest)), ProfileOrigin.USER)


def _digest(profile: str) -> str:
    return hashlib.sha256(profile.encode()).hexdigest()
