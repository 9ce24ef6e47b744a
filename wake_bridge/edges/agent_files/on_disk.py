"""Reading and replacing a person's file: whole or not at all, with its mode, through no link unseen."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed

_NEW_FILE: Final = 0o644
_NO_CHANGE: Final = "nothing was changed"


def real_place(path: Path) -> tuple[Path, Path | None]:
    """The file itself, and the link it is reached by where there is one.

    Raises:
        OperationFailed: the links go round in a circle, or lead to nothing.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as circle:
        raise OperationFailed("the links go round in a circle", str(path), hint=_NO_CHANGE) from circle
    if path.is_symlink() and not real.exists():
        raise OperationFailed("a link that leads to nothing", str(path), hint=f"remove or mend it; {_NO_CHANGE}")
    return real, (path if path.is_symlink() else None)


def content_of(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none.

    Raises:
        OperationFailed: it is there, but cannot be read, or is no file.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as refusal:
        raise OperationFailed(
            f"the file cannot be read ({refusal.strerror})", str(path), hint=f"let this user read it; {_NO_CHANGE}"
        ) from refusal


def make_directories(directory: Path) -> tuple[Path, ...]:
    """Make a directory and those above it; answers which were made, outermost first.

    Raises:
        OperationFailed: the file system refuses.
    """
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise OperationFailed(f"the directory cannot be made ({refusal.strerror})", str(directory)) from refusal
    return tuple(reversed(missing))


def replace_content(path: Path, content: bytes) -> None:
    """Let the file have this content, at once; its mode stays.

    Raises:
        OperationFailed: the file system refuses.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            draft.chmod(mode)
        draft.replace(path)
    except OSError as refusal:
        draft.unlink(missing_ok=True)
        raise OperationFailed(
            f"the file cannot be written ({refusal.strerror})", str(path), hint="let this user write there"
        ) from refusal
