"""Screen profiles that `screens trust` writes: files of our own that never replace one that a person wrote."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.system.files import make_directories, read_own_file, replace_file

_MARK: Final = "# Written by `wake-bridge screens trust`; whoever edits it keeps it. "


def file_of_profile(directory: Path, harness: str) -> Path:
    """Where the profile of a harness goes.

    Raises:
        RefusedForSafety: there is one that a person wrote or edited, or a link to one.
    """
    path = directory / f"{harness}.toml"
    try:
        is_ours = not path.is_symlink() and _is_as_written(read_own_file(path).decode())
    except (FileNotFoundError, NotADirectoryError):
        is_ours = not path.is_symlink()
    except (OSError, UnicodeDecodeError):
        is_ours = False
    if is_ours:
        return path
    raise RefusedForSafety(
        "a profile that a person wrote is not replaced",
        str(path),
        hint="`wake-bridge screens trust PANE --print` shows what is to be added to it",
    )


def write_profile(directory: Path, harness: str, profile: str) -> Path:
    """Write the profile of a harness, whole or not at all; directories that are made are the owner's alone (0700).

    Args:
        directory: of screen profiles.
        harness: its name, and the file's.
        profile: the text.

    Returns:
        The file.

    Raises:
        RefusedForSafety: there is one that a person wrote or edited.
        OperationFailed: the file system refuses.
    """
    path = file_of_profile(directory, harness)
    try:
        make_directories(directory)
        replace_file(path, f"{_MARK}{_digest(profile)}\n{profile}")
    except OSError as refusal:
        raise OperationFailed(
            f"the profile cannot be written ({refusal.strerror})",
            str(path),
            hint="give this user write access there, or name another directory in screens.directory",
        ) from refusal
    return path


def _is_as_written(text: str) -> bool:
    first, _, rest = text.partition("\n")
    return first == _MARK + _digest(rest)


def _digest(profile: str) -> str:
    return hashlib.sha256(profile.encode()).hexdigest()
