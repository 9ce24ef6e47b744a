"""Where a composer's rows begin and end: between rules, inside a box, or down to the first blank row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from adapters.screens.profile import ComposerShape
from adapters.screens.screen import Screen, text_width

_LABEL_AFTER: Final = 3
"""A rule that carries a label begins with at least this many border characters."""

_DRAWN: Final = re.compile(r"[\u2500-\u257f]")
"""What boxes are drawn with; in a rule's label it is the edge of something that lies over the composer."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows of a frame: `top`–`bottom` inside, `first`–`last` with the frame, and the label's.

    `right` is the first column that no longer belongs to it, None where rows go on to the screen's edge.
    """

    top: int
    bottom: int
    first: int
    last: int
    label: range = range(0)
    right: int | None = None


@dataclass(frozen=True, slots=True)
class Glyph:
    """A prompt as it stands on a row; `start` is the column behind it."""

    text: str
    column: int
    is_shell: bool

    @property
    def start(self) -> int:
        """The column of the first character behind it."""
        return self.column + text_width(self.text)


def extent_of(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> Extent | None:
    """The rows of the composer around `cursor`, or of the last one on the screen where the cursor says nothing."""
    match shape.frame:
        case "rules":
            return _between_rules(screen, shape, cursor)
        case "box":
            return _inside_box(screen, shape, cursor)
        case _:
            return _open_rows(screen, shape, cursor)


def glyph_at(screen: Screen, shape: ComposerShape, number: int) -> Glyph | None:
    """The prompt on that row, if one of the profile's stands there with nothing before it."""
    row = screen.row(number)
    columns = shape.column or (row.columns[len(row.text) - len(row.text.lstrip(" "))],)
    for is_shell, glyphs in ((False, shape.glyph), (True, shape.shell_glyphs)):
        for glyph in glyphs:
            for column in columns:
                if row.starts_at(column, glyph) and not row.text[: row.index_at(column)].strip(" "):
                    return Glyph(glyph, column, is_shell)
    return None


def is_indented(screen: Screen, number: int, start: int, border: str = "") -> bool:
    """Whether nothing but blanks, and the border once, stands before column `start`."""
    row = screen.row(number)
    indent = row.text[: row.index_at(start)]
    return not indent.replace(border, "", 1).strip(" ")


def _between_rules(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> Extent | None:
    if cursor is None:
        lower = next((n for n in range(screen.last_text_row, -1, -1) if _is_rule(screen, n, shape.border)), -1)
        inside = lower - 1
    else:
        inside = cursor[1]
        below = range(inside + 1, len(screen.rows))
        lower = next((n for n in below if _is_rule(screen, n, shape.border)), -1)
    upper = next((n for n in range(inside, -1, -1) if _is_rule(screen, n, shape.border)), -1)
    top = upper + 1 + shape.padding
    bottom = lower - 1 - shape.label_rows
    if upper < 0 or lower < 0 or bottom < top:
        return None
    return Extent(top, bottom, upper, lower, range(bottom + 1, lower))


def _inside_box(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> Extent | None:
    inside = cursor[1] if cursor else screen.last_text_row
    row = screen.row(inside)
    column = text_width(row.text[: len(row.text) - len(row.text.lstrip(" "))])

    def bordered(number: int) -> bool:
        return screen.row(number).starts_at(column, shape.border)

    if not bordered(inside):
        return None
    first = last = inside
    while bordered(first - 1):
        first -= 1
    while bordered(last + 1):
        last += 1
    top = first + shape.padding
    bottom = last - shape.label_rows
    if bottom < top:
        return None
    if not shape.foot:
        return Extent(top, bottom, first, last, range(bottom + 1, last + 1))
    right = _end_of_foot(screen, last + 1, column, shape.foot)
    if right is None:
        return None
    return Extent(top, bottom, first, last + 1, range(bottom + 1, last + 1), right)


def _end_of_foot(screen: Screen, number: int, column: int, foot: str) -> int | None:
    """The column behind the row that closes a box, None if no such row is there."""
    row = screen.row(number)
    if not row.starts_at(column, foot):
        return None
    line = row.from_column(column)
    drawn_on = len(line) - len(foot) - len(line[len(foot) :].lstrip(foot[-1]))
    return column + text_width(line[: len(foot) + drawn_on])


def _open_rows(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> Extent | None:
    """Without a frame text goes from the glyph's row to the first blank one, or to the cursor if that is further down.

    A cursor in the last block of rows below the glyph's is in the footer, not in the composer.
    """
    if cursor is None:
        top = next((n for n in range(screen.last_text_row, -1, -1) if glyph_at(screen, shape, n)), -1)
        bottom = _end_of_block(screen, shape, top)
        return None if top < 0 else Extent(top, bottom, top, bottom)
    at = cursor[1]
    if shape.every_row:
        return _rows_with_glyph(screen, shape, at)
    top = at
    while (found := glyph_at(screen, shape, top)) is None:
        if top == 0 or not is_indented(screen, top, 1):
            return None
        top -= 1
    if not all(is_indented(screen, number, found.start) for number in range(top + 1, at + 1)):
        return None
    bottom = _end_of_block(screen, shape, top)
    if at > bottom:
        bottom = _end_of_block(screen, shape, at)
        if not screen.is_blank(at) and bottom == screen.last_text_row:
            return None
    return Extent(top, bottom, top, bottom)


def _rows_with_glyph(screen: Screen, shape: ComposerShape, at: int) -> Extent | None:
    """The unbroken run of rows with the glyph around row `at`."""
    if glyph_at(screen, shape, at) is None:
        return None
    top = bottom = at
    while top > 0 and glyph_at(screen, shape, top - 1):
        top -= 1
    while bottom < screen.last_text_row and glyph_at(screen, shape, bottom + 1):
        bottom += 1
    return Extent(top, bottom, top, bottom)


def _end_of_block(screen: Screen, shape: ComposerShape, number: int) -> int:
    """The last row before a blank one, or before the foot."""

    def goes_on(row: int) -> bool:
        is_foot = bool(shape.foot) and screen.row(row).text.lstrip(" ").startswith(shape.foot)
        return not screen.is_blank(row) and not is_foot

    while goes_on(number) and goes_on(number + 1):
        number += 1
    return number


def _is_rule(screen: Screen, number: int, border: str) -> bool:
    """Whether a row is a line from margin to equal margin, with or without a label in it."""
    row = screen.row(number)
    text = row.text.strip(" ")
    if len(text) < _LABEL_AFTER or text[0] != border or text[-1] != border:
        return False
    left = len(row.text) - len(row.text.lstrip(" "))
    right = screen.width - row.end
    label = text.strip(border)
    is_plain = not label or (text.startswith(border * _LABEL_AFTER) and not _DRAWN.search(label.replace(border, "")))
    return is_plain and abs(left - right) <= 1
