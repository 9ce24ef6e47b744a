"""The text in the composer: what a person's editing keys do to it, and how it wraps."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache


@lru_cache(maxsize=4096)
def cell_width(character: str) -> int:
    """Columns of one character: 0 combining, 2 wide, else 1."""
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"F", "W"} else 1


def text_width(text: str) -> int:
    """Columns of a string."""
    return sum(map(cell_width, text))


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A text in rows, and the cursor's row and column in them."""

    rows: tuple[str, ...]
    cursor_row: int
    cursor_column: int


@dataclass(slots=True)
class Editor:
    """A text, a cursor in it, and the pastes that stand folded in it by their chips."""

    text: str = ""
    cursor: int = 0
    chips: dict[str, str] = field(default_factory=dict)

    @property
    def expanded(self) -> str:
        """The text with every chip replaced by what was pasted."""
        text = self.text
        for chip, content in self.chips.items():
            text = text.replace(chip, content, 1)
        return text

    def replace(self, text: str) -> None:
        """Hold this text and nothing else, cursor behind it."""
        self.text, self.cursor = text, len(text)
        self.chips.clear()

    def insert(self, text: str) -> None:
        """Put text in at the cursor."""
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def fold(self, text: str) -> None:
        """Put a chip in that stands for a long paste."""
        chip = f"[Pasted text #{len(self.chips) + 1} +{text.count(chr(10))} lines]"
        self.chips[chip] = text
        self.insert(chip)

    def press(self, key: str) -> bool:
        """Do what an editing key does; False when it is none."""
        start = self.text.rfind("\n", 0, self.cursor) + 1
        stop = self.text.find("\n", self.cursor)
        stop = len(self.text) if stop < 0 else stop
        if key == "newline":
            self.insert("\n")
        elif key in {"backspace", "delete", "kill-to-start", "kill-to-end", "kill-word"}:
            self._cut(*self._range(key, start, stop))
        elif key in {"left", "right", "home", "end", "up", "down"}:
            self.cursor = self._target(key, start, stop)
        else:
            return False
        return True

    def _range(self, key: str, start: int, stop: int) -> tuple[int, int]:
        """What a deleting key takes away from the line `start`–`stop`."""
        kept = self.text[: self.cursor].rstrip()
        word = max(kept.rfind(" "), kept.rfind("\n")) + 1
        return {
            "backspace": (self.cursor - 1, self.cursor),
            "delete": (self.cursor, self.cursor + 1),
            "kill-to-start": (start, self.cursor),
            "kill-to-end": (self.cursor, stop),
            "kill-word": (word, self.cursor),
        }[key]

    def _target(self, key: str, start: int, stop: int) -> int:
        """Where a moving key takes the cursor from the line `start`–`stop`."""
        column = self.cursor - start
        above = self.text.rfind("\n", 0, max(0, start - 1)) + 1
        places = {
            "left": self.cursor - 1,
            "right": self.cursor + 1,
            "home": start,
            "end": stop,
            "up": min(above + column, max(start - 1, 0)),
            "down": stop + 1 + column,
        }
        return max(0, min(places[key], len(self.text)))

    def _cut(self, start: int, stop: int) -> None:
        start, stop = max(0, start), min(len(self.text), stop)
        self.text = self.text[:start] + self.text[stop:]
        self.cursor = start

    def wrapped(self, width: int) -> Wrapped:
        """Rows of at most `width` columns, broken at blanks where there are some."""
        rows: list[str] = []
        cursor = (0, 0)
        at = 0
        for line in self.text.split("\n"):
            for row in _wrap(line, width):
                if at <= self.cursor <= at + len(row):
                    cursor = (len(rows), text_width(row[: self.cursor - at]))
                rows.append(row.rstrip(" "))
                at += len(row)
            at += 1
        if cursor[1] >= width:  # a full row: the next character would start a new one
            cursor = (cursor[0] + 1, 0)
            if cursor[0] == len(rows):
                rows.append("")
        return Wrapped(tuple(rows), *cursor)


def _wrap(line: str, width: int) -> list[str]:
    """The pieces of a line, blanks kept, so that together they are the line."""
    pieces: list[str] = []
    while text_width(line) > width:
        stop = columns = 0
        while columns + cell_width(line[stop]) <= width:
            columns += cell_width(line[stop])
            stop += 1
        blank = line.rfind(" ", 0, stop) + 1
        stop = blank or max(stop, 1)
        pieces.append(line[:stop])
        line = line[stop:]
    return [*pieces, line]
