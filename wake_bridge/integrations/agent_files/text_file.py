"""A person's file: read and replaced whole or not at all, with a marked block of ours in it."""

from __future__ import annotations

import os
import re
import secrets
import stat
from enum import StrEnum
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.domain.values import dataclass
from wake_bridge.system import files as system_files


class Form(StrEnum):
    """How our part stands in the file, and so how it is found again after the person has edited the rest.

    What is ours as a whole goes as a whole, whatever was edited in it: left behind, it would go on working.
    """

    BLOCK = "block"
    JSON = "json"
    WHOLE = "whole"
    HOOKS = "hooks"


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A part of ours in a JSON file: the names down to the array or object, what is ours there, how much was there before."""

    where: tuple[str, ...]
    names: tuple[str, ...]
    kept: int = 0


@dataclass(frozen=True, slots=True)
class FileChange:
    """What is to be written into one file.

    Args:
        path: the file itself, links followed.
        before: its bytes now; None where there is none.
        after: its bytes then.
        what: one clause for the person, such as "instructions for @codex".
        form: how our part is found again.
        where: for JSON the names down to the array or object that holds our part.
        names: for JSON what we want there.
        link: the link the file was reached by, where there is one.
        also: for JSON further parts of the same file.
    """

    path: Path
    before: bytes | None
    after: bytes
    what: str
    form: Form
    where: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    link: Path | None = None
    also: tuple[JsonPart, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


_NEW_FILE: Final = 0o644
_NEW_DIRECTORY: Final = 0o755
_LONGEST: Final = 16 * 1024 * 1024
_NO_CHANGE: Final = "nothing was changed"


def real_place(path: Path) -> tuple[Path, Path | None]:
    """The file itself, and the link it is reached by where there is one.

    Raises:
        OperationFailed: the links form a loop, or lead to nothing.
        RefusedForSafety: they lead to something of another kind: whoever wrote a repository chose them, and an AGENTS.md
            may be a person's `.bashrc`.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as circle:
        raise OperationFailed("the links form a loop", str(path), hint=_NO_CHANGE) from circle
    if path.is_symlink() and not real.exists():
        raise OperationFailed("the link is broken", str(path), hint=f"remove or fix it; {_NO_CHANGE}")
    if real.suffix != path.suffix:
        raise RefusedForSafety(
            "a link points to a file of another kind", f"{path} → {real}", hint=f"remove the link; {_NO_CHANGE}"
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
            f"the file cannot be read ({refusal.strerror})",
            str(path),
            hint=f"give this user read access to it; {_NO_CHANGE}",
        ) from refusal
    if content is None:
        raise OperationFailed("it is not a regular file, or far too long", str(path), hint=_NO_CHANGE)
    return content


def make_directories(directory: Path) -> tuple[Path, ...]:
    """Make a directory and those above it; answers which were made, outermost first.

    Raises:
        OperationFailed: the file system refuses.
    """
    try:
        return system_files.make_directories(directory, _NEW_DIRECTORY)
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
            f"the file cannot be written ({refusal.strerror})", str(path), hint="give this user write access there"
        ) from refusal


BEGIN: Final = "wake-bridge: begin"
END: Final = "wake-bridge: end"


@dataclass(frozen=True, slots=True)
class Marks:
    """The two lines around the block, in the file's own comment style."""

    begin: str
    end: str

    def pattern(self) -> re.Pattern[bytes]:
        """The block, with the end of its last line where there is one."""
        begin, end = (re.escape(line.encode()) for line in (self.begin, self.end))
        return re.compile(rb"^" + begin + rb"[ \t]*\r?\n(?:.*\n)*?" + end + rb"[ \t]*(?:\r?\n|\Z)", re.MULTILINE)

    def count(self, content: bytes) -> int:
        """How many lines of `content` are one of the two."""
        begin, end = (re.escape(line.encode()) for line in (self.begin, self.end))
        return len(re.findall(rb"^(?:" + begin + rb"|" + end + rb")[ \t]*\r?$", content, re.MULTILINE))


MARKDOWN: Final = Marks(f"<!-- {BEGIN} -->", f"<!-- {END} -->")
HASH: Final = Marks(f"# {BEGIN}", f"# {END}")


def marks_of(name: str) -> Marks:
    """The comment style of a file of that name."""
    return MARKDOWN if name.lower().endswith(".md") else HASH


def marks_within(content: bytes, file: Path) -> Marks:
    """The comment style of the marks that stand there; without any that of the file, which a link may call otherwise."""
    return next((marks for marks in (MARKDOWN, HASH) if marks.count(content)), marks_of(file.name))


def with_block(content: bytes | None, text: str, marks: Marks, file: Path) -> bytes:
    """`content` of `file` with the block: replaced where it stands, else at the end after an empty line.

    The file's own line ends are kept. Raises `OperationFailed` where the marks are not one pair.
    """
    eol = b"\r\n" if content and b"\r\n" in content else b"\n"
    block = eol.join(line.encode() for line in (marks.begin, *text.rstrip("\n").split("\n"), marks.end)) + eol
    if not content:
        return block
    found = _the_block(content, marks, file)
    if found:
        return content[: found.start()] + block + content[found.end() :]
    gap = eol if content.endswith(b"\n") else eol + eol
    return content + gap + block


def without_block(content: bytes, file: Path, *, had_end: bool = True) -> bytes:
    """`content` of `file` without the block, and without the empty line that stands before it.

    `had_end` says whether the last line before the block had an end of its own: else it loses it, unless more follows.
    Raises `OperationFailed` where the marks are not one pair.
    """
    found = _the_block(content, marks_within(content, file), file)
    if not found:
        return content
    before, after = content[: found.start()], content[found.end() :]
    for eol in (b"\r\n", b"\n"):
        if before.endswith(eol + eol):
            rest = before.removesuffix(eol)
            return rest + after if had_end or after else rest.removesuffix(eol)
    return before + after


def _the_block(content: bytes, marks: Marks, file: Path) -> re.Match[bytes] | None:
    found = list(marks.pattern().finditer(content))
    if marks.count(content) == 2 * len(found) <= 2:  # noqa: PLR2004 - one block has two marks
        return found[0] if found else None
    raise OperationFailed(
        f"our part cannot be identified: there must be one line `{marks.begin}` and, below it, one `{marks.end}`",
        str(file),
        hint="put the missing line back, or remove what is ours by hand",
    )
