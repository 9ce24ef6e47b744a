"""A digest as the one line that a monitor may print: each line is an event of its own, and a long one is cut."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 500
"""UTF-16 units of a line; the harness cuts what is longer and says `...(truncated)` (measured on 2.1.332)."""

GAP: Final = "   "
_CUT: Final = "…"


def one_line(text: str, mark: str) -> str:
    """The digest on one line, with its mark whatever else must go.

    Lines are joined by a gap. What is too long loses its end before the last line, which has the mark, and the line
    before that, which says how to read the mail.
    """
    lines = [cleaned for line in text.splitlines() if (cleaned := _printable(line))]
    if not any(mark in line for line in lines):
        lines.append(f"Wake: {mark}")
    whole = GAP.join(lines)
    if _units(whole) <= LONGEST:
        return whole
    for kept in (2, 1):
        head, tail = GAP.join(lines[:-kept]), GAP.join(lines[-kept:])
        room = LONGEST - _units(tail) - _units(_CUT + GAP)
        if head and mark in tail and room >= LONGEST // 4:
            return f"{_first(head, room)}{_CUT}{GAP}{tail}"
    trailer = f"Wake: {mark}"
    return f"{_first(whole, LONGEST - _units(_CUT + GAP + trailer))}{_CUT}{GAP}{trailer}"


def _printable(line: str) -> str:
    """Without anything that could end the line or move a cursor, and without blanks around it."""
    return "".join(letter if letter.isprintable() else " " for letter in line).strip()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


def _first(text: str, units: int) -> str:
    """As much of the beginning as fits."""
    return text.encode("utf-16-le", "replace")[: 2 * units].decode("utf-16-le", "ignore").rstrip()
