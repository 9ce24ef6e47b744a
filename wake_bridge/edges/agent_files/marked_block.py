"""A block of ours in a text file of somebody else's: between two marks, found again whatever is around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed

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
        f"our part cannot be told from the rest: there must be one line `{marks.begin}` and, below it, one `{marks.end}`",
        str(file),
        hint="put the missing line back, or remove what is ours by hand",
    )
