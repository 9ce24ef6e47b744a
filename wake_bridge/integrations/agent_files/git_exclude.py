"""Keeps new files out of a git repository's status, by the repository's own list (`info/exclude`)."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.values import dataclass
from wake_bridge.integrations.agent_files.record import WrittenFile
from wake_bridge.integrations.agent_files.text_file import HASH, FileChange, Form, content_of, real_place, with_block

_PATIENCE: Final = 10
"""Seconds for git to look up one name."""

_SPECIAL: Final = re.compile(r"[\\*?\[\] ]")


@dataclass(frozen=True, slots=True)
class Untracked:
    """A file of ours that git shows as untracked, or will, in the repository at `root`, whose list is `exclude`."""

    path: Path
    root: Path
    exclude: Path


def untracked_files(changes: Sequence[FileChange], earlier: Sequence[WrittenFile]) -> list[Untracked]:
    """Those that we make, or have made, in a repository that neither has them nor ignores them.

    Args:
        changes: what is to be written.
        earlier: the record of what was written before.
    """
    made = {one.path for one in earlier if one.created}
    ours = [one.path for one in changes if one.before is None or str(one.path) in made]
    return [found for path in ours if (found := _repository_of(path)) and not _is_known(path)]


def plan_excludes(files: Sequence[Untracked]) -> list[FileChange]:
    """What the repositories' lists would become: those files in a block of ours, beside what an earlier run put there.

    Raises:
        OperationFailed: a list cannot be read, or its block cannot be told from the rest.
    """
    lists: dict[Path, list[Untracked]] = defaultdict(list)
    for one in files:
        lists[one.exclude].append(one)
    changes = []
    for exclude, theirs in lists.items():
        before = content_of(exclude)
        lines = dict.fromkeys([*_in_block(before or b""), *(_pattern(one) for one in theirs)])
        after = with_block(before, "\n".join(lines), HASH, exclude)
        changes.append(
            FileChange(exclude, before, after, f"git does not show our files in {theirs[0].root}", Form.BLOCK)
        )
    return changes


def _repository_of(path: Path) -> Untracked | None:
    """The innermost repository around it; one of a work tree has its list where the common directory is."""
    for root in path.parents:
        mark = root / ".git"
        if not mark.exists():
            continue
        try:
            directory = mark if mark.is_dir() else root / mark.read_text().strip().removeprefix("gitdir:").strip()
            common = directory / "commondir"
            if common.is_file():
                directory = directory / common.read_text().strip()
            return Untracked(path, root, real_place(directory / "info" / "exclude")[0])
        except (OSError, UnicodeDecodeError, OperationFailed):
            return None
    return None


def _is_known(path: Path) -> bool:
    """Whether git has the file, or ignores it; where git cannot be asked, it is taken for new."""
    return any(
        _git_says_yes(path, *question) for question in (("ls-files", "--error-unmatch"), ("check-ignore", "--quiet"))
    )


def _git_says_yes(path: Path, *question: str) -> bool:
    there = next(one for one in path.parents if one.is_dir())
    # a repository's own settings must not start a program of its choice
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(there), *question, "--", str(path)]
    try:
        return subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False).returncode == 0  # noqa: S603 - no shell
    except (OSError, subprocess.TimeoutExpired):
        return False


def _pattern(one: Untracked) -> str:
    return "/" + _SPECIAL.sub(r"\\\g<0>", one.path.relative_to(one.root).as_posix())


def _in_block(content: bytes) -> list[str]:
    found = HASH.pattern().search(content)
    return found[0].decode(errors="surrogateescape").splitlines()[1:-1] if found else []
