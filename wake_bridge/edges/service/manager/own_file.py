"""A file of ours in a directory of somebody else's: never one that we did not write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.edges.configuration.paths import make_directories
from wake_bridge.edges.own_files import begin_draft, read_own_file

_NEW_FILE: Final = 0o644
_NEW_DIRECTORY: Final = 0o755


def replace_ours(file: Path, text: str, signature: str, *, force: bool) -> bool:
    """Write the file, as a whole or not at all; answers whether it changed.

    Args:
        file: where; its directory is made if absent.
        text: the new content.
        signature: in every such file of ours.
        force: replace somebody else's as well.

    Raises:
        RefusedForSafety: the file is somebody else's.
        OperationFailed: the file system refuses.
    """
    try:
        before = _content(file)
        if before == text:
            return False
        if before is not None and not force:
            _require_ours(before, signature, file)
        make_directories(file.parent, _NEW_DIRECTORY)
        draft = file.with_name(f".{file.name}.new")
        with os.fdopen(begin_draft(draft, _NEW_FILE), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError as refusal:
        raise _refused("written", refusal, file) from refusal
    return True


def remove_ours(file: Path, signature: str, *, force: bool) -> Callable[[], None]:
    """Judge now whether the file may be removed; the answer removes it.

    Raises:
        RefusedForSafety: the file is somebody else's.
        OperationFailed: the file system refuses.
    """
    try:
        before = _content(file)
    except OSError as refusal:
        raise _refused("read", refusal, file) from refusal
    if before is not None and not force:
        _require_ours(before, signature, file)

    def remove() -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as refusal:
            raise _refused("removed", refusal, file) from refusal

    return remove


def _content(file: Path) -> str | None:
    try:
        return read_own_file(file).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _require_ours(content: str, signature: str, file: Path) -> None:
    if signature not in content:
        raise RefusedForSafety(
            "the service file was not written by `wake-bridge service install`",
            str(file),
            hint="move it away, or say --force",
        )


def _refused(what: str, refusal: OSError, file: Path) -> OperationFailed:
    return OperationFailed(
        f"the service file cannot be {what} ({refusal.strerror})", str(file), hint="let this user write there"
    )
