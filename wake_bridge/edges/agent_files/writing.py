"""The changes are made, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.edges.agent_files.change import FileChange
from wake_bridge.edges.agent_files.on_disk import content_of, make_directories, replace_content
from wake_bridge.edges.agent_files.record import read_files_record, recorded, write_files_record


def apply(changes: Sequence[FileChange], state_dir: Path) -> None:
    """Write the changes, and the record by which they are taken back.

    Every file is looked at again first. If one of them cannot be written, those before it get their content back.

    Args:
        changes: what `plan_files` found.
        state_dir: where the record is kept.

    Raises:
        OperationFailed: a file has changed since it was looked at, or the file system refuses.
    """
    earlier = read_files_record(state_dir)
    for change in changes:
        if content_of(change.path) != change.before:
            raise OperationFailed(
                "somebody changed the file meanwhile", str(change.path), hint="look again; nothing was changed"
            )
    # the record first: after a crash it may name what was not written, never miss what was
    write_files_record(state_dir, recorded(changes, _missing_directories(changes), earlier))
    done: list[FileChange] = []
    made: list[Path] = []
    try:
        for change in (one for one in changes if one.changes):
            made += make_directories(change.path.parent)
            replace_content(change.path, change.after)
            done.append(change)
    except OperationFailed:
        _undo(done, made)
        write_files_record(state_dir, earlier)
        raise


def _missing_directories(changes: Sequence[FileChange]) -> list[Path]:
    """Those that the changes need and that are not there, outermost first."""
    needed = {place for change in changes if change.changes for place in change.path.parents}
    return sorted((place for place in needed if not place.exists()), key=lambda place: len(place.parts))


def _undo(done: Sequence[FileChange], made: Sequence[Path]) -> None:
    for change in done:
        if change.before is None:
            change.path.unlink()
        else:
            replace_content(change.path, change.before)
    for directory in reversed(made):
        directory.rmdir()
