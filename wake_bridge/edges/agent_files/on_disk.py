"""Reading and replacing a person's file: whole or not at all, with its mode, through no link unseen."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.edges.configuration import paths

_NEW_FILE: Final = 0o644
_NEW_DIRECTORY: Final = 0o755
_LONGEST: Final = 16 * 1024 * 1024
_NO_CHANGE: Final = "nothing was changed"


def real_place(path: Path) -> tuple[Path, Path | None]:
    """The file itself, and the link it is reached by where there is one.

    Raises:
        OperationFailed: the links go round in a circle, or lead to nothing.
        RefusedForSafety: they lead to something of another kind: whoever wrote a repository chose them, and an AGENTS.md
            may be a person's `.bashrc`.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as circle:
        raise OperationFailed("the links go round in a circle", str(path), hint=_NO_CHANGE) from circle
    if path.is_symlink() and not real.exists():
        raise OperationFailed("a link that leads to nothing", str(path), hint=f"remove or mend it; {_NO_CHANGE}")
    if real.suffix != path.suffix:
        raise RefusedForSafety(
            "a link leads to a file of another kind", f"{path} → {real}", hint=f"remove the link; {_NO_CHANGE}"
        )
    return real, (path if path.is_symlink() else None)


def content_of(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none.

    Raises:
        OperationFailed: it is there, but cannot be read, or is no file.
    """
    try:
        # a pipe in its place must not keep us waiting
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a descriptor
            found = os.fstat(file.fileno())
            content = file.read() if stat.S_ISREG(found.st_mode) and found.st_size <= _LONGEST else None
    except FileNotFoundError:
        return None
    except OSError as refusal:
        raise OperationFailed(
            f"the file cannot be read ({refusal.strerror})", str(path), hint=f"let this user read it; {_NO_CHANGE}"
        ) from refusal
    if content is None:
        raise OperationFailed("it is no regular file, or far too long", str(path), hint=_NO_CHANGE)
    return content


def make_directories(directory: Path) -> tuple[Path, ...]:
    """Make a directory and those above it; answers which were made, outermost first.

    Raises:
        OperationFailed: the file system refuses.
    """
    try:
        return paths.make_directories(directory, _NEW_DIRECTORY)
    except OSError as refusal:
        raise OperationFailed(f"the directory cannot be made ({refusal.strerror})", str(directory)) from refusal


def replace_content(path: Path, content: bytes, new_mode: int = _NEW_FILE) -> None:
    """Let the file have this content, at once; its mode stays, and a new one gets `new_mode`.

    Raises:
        OperationFailed: the file system refuses.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, new_mode), "wb") as stream:
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
