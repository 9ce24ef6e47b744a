"""What was written is taken back: to the byte where nobody touched the file since, else our part alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.edges.agent_files.on_disk import content_of, replace_content
from wake_bridge.edges.agent_files.record import WrittenFile, read_files_record, write_files_record


@dataclass(frozen=True, slots=True)
class Removal:
    """One file as it is and as it will be without us; `after` is None where it goes.

    `trouble` says why our part cannot be taken out; the file then stays as it is.
    """

    entry: WrittenFile
    before: bytes | None
    after: bytes | None
    trouble: str = ""

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.entry.path)

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after and not self.trouble


def plan_removal(files: Sequence[WrittenFile]) -> list[Removal]:
    """What taking everything back would do; nothing is written."""
    return [_removal(entry) for entry in files]


def remove(state_dir: Path, of: Callable[[WrittenFile], bool] = lambda _: True) -> list[Removal]:
    """Take back what the record names, and what is done out of the record.

    Args:
        state_dir: where the record is kept.
        of: which of the files are meant; all of them where nothing is said.

    Files that cannot be mended are left, stay in the record, and are in the answer with their trouble.

    Raises:
        OperationFailed: the record cannot be read or written.
    """
    files = read_files_record(state_dir)
    removals = [_carry_out(removal) for removal in plan_removal([one for one in files if of(one)])]
    left = {removal.entry.path for removal in removals if removal.trouble}
    write_files_record(state_dir, [one for one in files if not of(one) or one.path in left])
    return removals


def _removal(entry: WrittenFile) -> Removal:
    try:
        before = content_of(Path(entry.path))
        return Removal(entry, before, None if before is None else entry.original(before))
    except OperationFailed as trouble:
        return Removal(entry, b"", b"", f"{trouble.what}; {trouble.hint}" if trouble.hint else trouble.what)


def _carry_out(removal: Removal) -> Removal:
    try:
        if removal.changes and removal.after is None:
            removal.path.unlink(missing_ok=True)
        elif removal.changes and removal.after is not None:
            replace_content(removal.path, removal.after)
    except (OperationFailed, OSError) as trouble:
        return Removal(removal.entry, removal.before, removal.before, str(trouble))
    if not removal.trouble:
        _leave_directories(removal.entry)
    return removal


def _leave_directories(entry: WrittenFile) -> None:
    """Directories made for the file go when nothing else is in them."""
    for directory in reversed(entry.directories):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
