"""What both service managers need: a file of ours in a directory of somebody else's, and one bounded call to their program."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.system.files import begin_draft, make_directories, read_own_file

PATIENCE: Final = 120
"""Seconds; a start returns only when the daemon says that it is ready, or the manager has given it up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to."""

    status: int
    output: str
    complaint: str

    @property
    def is_well(self) -> bool:
        """Whether it did what was asked."""
        return self.status == 0


class Calls:
    """Runs programs that are found on the `PATH` of `environment`, and in it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def finds(self, program: str) -> bool:
        """Whether there is such a program."""
        return shutil.which(program, path=self.environment.get("PATH")) is not None

    def run(self, program: str, *arguments: str) -> Answer:
        """Run it to its end. One that is missing, or takes longer than `PATIENCE`, is an answer that is not well."""
        path = shutil.which(program, path=self.environment.get("PATH"))
        if path is None:
            return Answer(127, "", f"there is no {program} on PATH")
        try:
            done = subprocess.run(  # noqa: S603 - an argv, never a shell
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=dict(self.environment),
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"{program} did not answer within {PATIENCE} s")
        except OSError as refusal:
            return Answer(126, "", f"{program} cannot be run ({refusal.strerror})")
        complaint = done.stderr.strip().replace("\n", "; ") or f"{program} exited with {done.returncode}"
        return Answer(done.returncode, done.stdout, "" if done.returncode == 0 else complaint)


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
            hint="move it away, or use --force",
        )


def _refused(what: str, refusal: OSError, file: Path) -> OperationFailed:
    return OperationFailed(
        f"the service file cannot be {what} ({refusal.strerror})", str(file), hint="give this user write access there"
    )
