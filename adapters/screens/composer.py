"""Finding the composer on a screen: from the cursor outward, by glyph and frame, never by searching for words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from adapters.screens.profile import ComposerShape
from adapters.screens.screen import Screen, text_width
from adapters.screens.style import Style

BLANKS: Final = " \u200b"
"""What an empty composer may hold: dropped blanks, and the zero-width space that Ink programs put behind their cursor."""

_LABEL_AFTER: Final = 3
"""A rule that carries a label begins with at least this many border characters."""


@dataclass(frozen=True, slots=True)
class Composer:
    """Where the composer is and what stands in it.

    Rows count from the screen's top. `top`–`bottom` hold text, `first`–`last` the frame as well; `start` is the
    column of the first character behind the glyph. `cursor` is (column, row) of the cursor that counts, None where a
    harness shows none. `hidden_rows` is how many rows of the text are scrolled out of sight, -1 for "some".
    """

    glyph: str
    glyph_column: int
    is_shell: bool
    start: int
    top: int
    bottom: int
    first: int
    last: int
    label: range
    cursor: tuple[int, int] | None
    lines: tuple[str, ...]
    hidden_rows: int = 0

    @property
    def text(self) -> str:
        """What stands in it, without the glyph, the frame and blanks at row ends."""
        return "\n".join(line.rstrip(BLANKS) for line in self.lines).strip("\n")

    @property
    def is_blank(self) -> bool:
        """Whether no character that can be seen stands in it."""
        return not any(line.strip(BLANKS) for line in self.lines)

    @property
    def cursor_at_start(self) -> bool:
        """Whether the cursor stands where the first character would go."""
        if self.hidden_rows:
            return False
        return self.cursor is None or self.cursor == (self.start, self.top)


@dataclass(frozen=True, slots=True)
class _Extent:
    """Rows of a frame: `top`–`bottom` inside, `first`–`last` with the frame, and the label's."""

    top: int
    bottom: int
    first: int
    last: int
    label: range = range(0)


def find_composer(screen: Screen, shape: ComposerShape) -> Composer | None:
    """The composer, or None when the screen shows none where the cursor says it must be."""
    if shape.cursor_visible not in {None, screen.cursor_visible}:
        return None
    cursor = _cursor(screen, shape)
    if cursor is None and shape.anchor != "bottom":
        return None
    match shape.frame:
        case "rules":
            extent = _between_rules(screen, shape, cursor)
        case "box":
            extent = _inside_box(screen, shape, cursor)
        case _:
            extent = _open_rows(screen, shape, cursor)
    if extent is None:
        return None
    if shape.anchor == "bottom":
        cursor = _cursor_within(screen, extent)
    first_line, hidden_rows = _without_scroll_mark(screen, shape, extent)
    found = _glyph_at(screen, shape, extent.top)
    if found is None and hidden_rows and shape.frame == "rules":
        found = shape.glyph[0], next(iter(shape.column), 0), False  # the glyph itself is scrolled out of sight
    if found is None:
        return None
    glyph, column, is_shell = found
    start = column + text_width(glyph)
    border = shape.border if shape.frame == "box" else ""
    return Composer(
        glyph=glyph,
        glyph_column=column,
        is_shell=is_shell,
        start=start,
        top=extent.top,
        bottom=extent.bottom,
        first=extent.first,
        last=extent.last,
        label=extent.label,
        cursor=cursor,
        hidden_rows=hidden_rows,
        lines=(
            first_line[screen.row(extent.top).index_at(start) :].rstrip(BLANKS).removesuffix(border),
            *(_further_line(screen, row, start, border) for row in range(extent.top + 1, extent.bottom + 1)),
        ),
    )


def glyph_styles(screen: Screen, composer: Composer) -> list[Style]:
    """How the glyph's cells look, its blanks left out."""
    row = screen.row(composer.top)
    start = row.index_at(composer.glyph_column)
    cells = row.styles(start, start + len(composer.glyph))
    return [style for character, style in cells if not character.isspace()]


def text_styles(screen: Screen, composer: Composer) -> list[tuple[str, Style]]:
    """Each character in the composer that is not blank, with its style, in reading order."""
    cells: list[tuple[str, Style]] = []
    for number in range(composer.top, composer.bottom + 1):
        row = screen.row(number)
        cells.extend(cell for cell in row.styles(row.index_at(composer.start)) if cell[0].strip(BLANKS))
    return cells


def _without_scroll_mark(screen: Screen, shape: ComposerShape, extent: _Extent) -> tuple[str, int]:
    """The first row's text, and how many rows above it are out of sight; -1 where the mark does not count them."""
    text = screen.row(extent.top).text
    if not shape.scrolled:
        return text, 0
    if shape.frame == "rules":
        mark = re.search(shape.scrolled, screen.row(extent.first).text)
    else:
        mark = re.search(f"(?:{shape.scrolled})$", text)
        text = text[: mark.start()] if mark else text
    if mark is None:
        return text, 0
    return text, int(mark.groupdict().get("rows") or -1)


def _cursor(screen: Screen, shape: ComposerShape) -> tuple[int, int] | None:
    if shape.anchor == "cursor":
        return screen.cursor_x, screen.cursor_y
    if shape.anchor == "reversed":
        for number in range(screen.last_text_row, -1, -1):
            column = screen.row(number).last_reversed()
            if column is not None:
                return column, number
    return None


def _cursor_within(screen: Screen, extent: _Extent) -> tuple[int, int] | None:
    """The terminal's cursor or a drawn one, whichever stands between the frame's rows; a blinking one may be neither."""
    if extent.top <= screen.cursor_y <= extent.bottom:
        return screen.cursor_x, screen.cursor_y
    for number in range(extent.bottom, extent.top - 1, -1):
        column = screen.row(number).last_reversed()
        if column is not None:
            return column, number
    return None


def _between_rules(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> _Extent | None:
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
    return _Extent(top, bottom, upper, lower, range(bottom + 1, lower))


def _inside_box(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> _Extent | None:
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
    return _Extent(top, bottom, first, last, range(bottom + 1, last + 1))


def _open_rows(screen: Screen, shape: ComposerShape, cursor: tuple[int, int] | None) -> _Extent | None:
    """Without a frame text goes from the glyph's row to the first blank one, or to the cursor if that is further down.

    A cursor in the last block of rows below the glyph's is in the footer, not in the composer.
    """
    at = cursor[1] if cursor else screen.last_text_row
    top = at
    while (found := _glyph_at(screen, shape, top)) is None:
        if top == 0 or not _is_indented(screen, top, 1):
            return None
        top -= 1
    glyph, column, _ = found
    start = column + text_width(glyph)
    if not all(_is_indented(screen, number, start) for number in range(top + 1, at + 1)):
        return None
    bottom = _end_of_block(screen, top)
    if at > bottom:
        bottom = _end_of_block(screen, at)
        if not screen.is_blank(at) and bottom == screen.last_text_row:
            return None
    return _Extent(top, bottom, top, bottom)


def _end_of_block(screen: Screen, number: int) -> int:
    while not screen.is_blank(number) and not screen.is_blank(number + 1):
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
    return abs(left - right) <= 1 and (text.count(border) == len(text) or text.startswith(border * _LABEL_AFTER))


def _glyph_at(screen: Screen, shape: ComposerShape, number: int) -> tuple[str, int, bool] | None:
    row = screen.row(number)
    columns = shape.column or (row.columns[len(row.text) - len(row.text.lstrip(" "))],)
    for is_shell, glyphs in ((False, shape.glyph), (True, shape.shell_glyphs)):
        for glyph in glyphs:
            for column in columns:
                if row.starts_at(column, glyph) and not row.text[: row.index_at(column)].strip(" "):
                    return glyph, column, is_shell
    return None


def _further_line(screen: Screen, number: int, start: int, border: str) -> str:
    """A row below the glyph's: its text from column `start`, or all of it where it does not keep the indent."""
    row = screen.row(number)
    text = row.from_column(start) if _is_indented(screen, number, start, border) else row.text
    return text.rstrip(BLANKS).removesuffix(border)


def _is_indented(screen: Screen, number: int, start: int, border: str = "") -> bool:
    row = screen.row(number)
    indent = row.text[: row.index_at(start)]
    return not indent.replace(border, "", 1).strip(" ")
