"""Finds the composer on a screen: from the cursor outward, by glyph and frame, never by searching for words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.screens.profile import ComposerShape
from wake_bridge_adapters.screens.screen import Screen, Style, text_width

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
    inside = cursor[1] if cursor else _above_last_foot(screen, shape.foot)
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


def _above_last_foot(screen: Screen, foot: str) -> int:
    """The row above the lowest one that closes a box, -1 if there is none."""
    rows = range(screen.last_text_row, 0, -1)
    return next((n - 1 for n in rows if screen.row(n).text.lstrip(" ").startswith(foot)), -1)


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
