"""A block of ours in a text file of somebody else's: between two marks, found again whatever is around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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


MARKDOWN: Final = Marks(f"<!-- {BEGIN} -->", f"<!-- {END} -->")
HASH: Final = Marks(f"# {BEGIN}", f"# {END}")


def marks_of(name: str) -> Marks:
    """The comment style of a file of that name."""
    return MARKDOWN if name.lower().endswith(".md") else HASH


def with_block(content: bytes | None, text: str, marks: Marks) -> bytes:
    """`content` with the block: replaced where it stands, else at the end after an empty line.

    The file's own line ends are kept.
    """
    eol = b"\r\n" if content and b"\r\n" in content else b"\n"
    block = eol.join(line.encode() for line in (marks.begin, *text.rstrip("\n").split("\n"), marks.end)) + eol
    if not content:
        return block
    found = marks.pattern().search(content)
    if found:
        return content[: found.start()] + block + content[found.end() :]
    gap = eol if content.endswith(b"\n") else eol + eol
    return content + gap + block


def without_block(content: bytes, marks: Marks) -> bytes:
    """`content` without the block, and without the empty line that stands before it."""
    found = marks.pattern().search(content)
    if not found:
        return content
    before, after = content[: found.start()], content[found.end() :]
    for eol in (b"\r\n", b"\n"):
        if before.endswith(eol + eol):
            return before.removesuffix(eol) + after
    return before + after
