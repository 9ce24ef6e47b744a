"""Finding the composer on a screen: from the cursor outward, by glyph and frame, never by searching for words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from adapters.screens.frames import Extent, Glyph, extent_of, glyph_at, is_indented
from adapters.screens.profile import ComposerShape
from adapters.screens.screen import Screen
from adapters.screens.style import Style

BLANKS: Final = " \u200b"
"""What an empty composer may hold: dropped blanks, and the zero-width space that Ink programs put behind their cursor."""


@dataclass(frozen=True, slots=True)
class Composer:
    """Where the composer is and what stands in it.

    Rows count from the screen's top. `top`–`bottom` hold text, `first`–`last` the frame as well; `start` is the
    column of the first character behind the glyph, `right` the column behind the box, None where there is none.
    `cursor` is (column, row) of the cursor that counts, None where a harness shows none. `hidden_rows` is how many
    rows of the text are scrolled out of sight, -1 for "some".
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
    right: int | None
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
    def cursor_is_inside(self) -> bool:
        """Whether the cursor stands on a row of text; beside it, the screen was caught in the middle of a redraw."""
        return self.cursor is None or self.top <= self.cursor[1] <= self.bottom

    @property
    def cursor_at_start(self) -> bool:
        """Whether the cursor stands where the first character would go."""
        if self.hidden_rows:
            return False
        return self.cursor is None or self.cursor == (self.start, self.top)


def find_composer(screen: Screen, shape: ComposerShape) -> Composer | None:
    """The composer, or None when the screen shows none where the cursor says it must be."""
    if shape.cursor_visible not in {None, screen.cursor_visible}:
        return None
    cursor = _cursor(screen, shape)
    if cursor is None and shape.anchor != "bottom":
        return None
    extent = extent_of(screen, shape, None if shape.anchor == "bottom" else cursor)
    if extent is None:
        return None
    if shape.anchor == "bottom":
        if not re.fullmatch(shape.footer, _text_below(screen, extent)) or _keys_go_elsewhere(screen, extent):
            return None
        cursor = _cursor_within(screen, extent)
    if not (screen.cursor_visible or shape.hidden_cursor_counts):
        cursor = None
    first_line, hidden_rows = _without_scroll_mark(screen, shape, extent)
    glyph = glyph_at(screen, shape, extent.top)
    if glyph is None and hidden_rows and shape.frame == "rules":
        glyph = Glyph(shape.glyph[0], next(iter(shape.column), 0), is_shell=False)  # scrolled out of sight itself
    if glyph is None:
        return None
    lines = tuple(_lines(screen, shape, extent, glyph, first_line))
    filled = max((number for number, line in enumerate(lines, 1) if line.strip(BLANKS)), default=0)
    if shape.scrolls_from and filled >= shape.scrolls_from:
        hidden_rows = hidden_rows or -1
    return Composer(
        glyph=glyph.text,
        glyph_column=glyph.column,
        is_shell=glyph.is_shell,
        start=glyph.start,
        top=extent.top,
        bottom=extent.bottom,
        first=extent.first,
        last=extent.last,
        label=extent.label,
        right=extent.right,
        cursor=cursor,
        hidden_rows=hidden_rows,
        lines=lines,
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
        stop = None if composer.right is None else row.index_at(composer.right)
        cells.extend(cell for cell in row.styles(row.index_at(composer.start), stop) if cell[0].strip(BLANKS))
    return cells


def _cursor(screen: Screen, shape: ComposerShape) -> tuple[int, int] | None:
    if shape.anchor == "reversed":
        return _last_reversed(screen, range(screen.last_text_row, -1, -1))
    return screen.cursor_x, screen.cursor_y


def _cursor_within(screen: Screen, extent: Extent) -> tuple[int, int] | None:
    """The terminal's cursor or a drawn one, whichever stands between the frame's rows; a blinking one may be neither."""
    if extent.top <= screen.cursor_y <= extent.bottom:
        return screen.cursor_x, screen.cursor_y
    return _last_reversed(screen, range(extent.bottom, extent.top - 1, -1))


def _keys_go_elsewhere(screen: Screen, extent: Extent) -> bool:
    """Whether a cursor shows outside: a shell's, whose dead agent is still on the screen, or that of another field."""
    return screen.cursor_visible and not extent.top <= screen.cursor_y <= extent.bottom


def _text_below(screen: Screen, extent: Extent) -> str:
    """The rows below a composer, without blank ones at their end."""
    return "\n".join(row.text.rstrip() for row in screen.rows[extent.last + 1 : screen.last_text_row + 1])


def _last_reversed(screen: Screen, numbers: Iterable[int]) -> tuple[int, int] | None:
    for number in numbers:
        column = screen.row(number).last_reversed()
        if column is not None:
            return column, number
    return None


def _without_scroll_mark(screen: Screen, shape: ComposerShape, extent: Extent) -> tuple[str, int]:
    """The first row's text, and how many rows above it are out of sight; -1 where the mark does not count them."""
    text = _cut(screen, extent.top, extent.right)
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


def _lines(screen: Screen, shape: ComposerShape, extent: Extent, glyph: Glyph, first_line: str) -> Iterator[str]:
    """The text of each row, without glyph and border; all of a row that does not keep the indent."""
    border = shape.border if shape.frame == "box" else ""
    yield first_line[screen.row(extent.top).index_at(glyph.start) :].rstrip(BLANKS).removesuffix(border)
    for number in range(extent.top + 1, extent.bottom + 1):
        text = _cut(screen, number, extent.right)
        if shape.every_row or is_indented(screen, number, glyph.start, border):
            text = text[screen.row(number).index_at(glyph.start) :]
        yield text.rstrip(BLANKS).removesuffix(border)


def _cut(screen: Screen, number: int, right: int | None) -> str:
    row = screen.row(number)
    return row.text if right is None else row.text[: row.index_at(right)]
