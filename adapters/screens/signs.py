"""Looking for a profile's signs in the regions around a composer."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.screens.composer import Composer, glyph_styles
from adapters.screens.rules import Region, Sign, StyleCondition
from adapters.screens.screen import Screen


@dataclass(frozen=True, slots=True)
class _Slice:
    """Part of one row: its characters from index `start`."""

    row: int
    start: int
    text: str


def seen(sign: Sign, screen: Screen, composer: Composer | None) -> str | None:
    """What of the screen shows this sign, or None where it is not to be seen.

    A sign in a region that does not exist (the composer is missing, or for `bottom` is there) is not seen.
    """
    if sign.region == "title":
        return _in_text(sign, screen.title.strip())
    if sign.region == "cursor":
        return _in_text(sign, "visible" if screen.cursor_visible else "hidden")
    if sign.region == "scrollbar":
        return _on_scrollbar(sign, screen, composer)
    slices = _slices(sign.region, sign.rows, screen, composer)
    if slices is None:
        return None
    text = "\n".join(piece.text for piece in slices)
    if sign.veto is not None and sign.veto.search(text):
        return None
    if sign.region == "glyph" and composer is not None and sign.style is not None:
        styles = glyph_styles(screen, composer)
        return composer.glyph if styles and all(map(sign.style.fits, styles)) else None
    for match in sign.pattern.finditer(text):
        if sign.style is None or _has_style(sign.style, screen, slices, match.span()):
            return match.group()
    return None


def _in_text(sign: Sign, text: str) -> str | None:
    if sign.veto is not None and sign.veto.search(text):
        return None
    match = sign.pattern.search(text)
    return match.group() if match else None


def _on_scrollbar(sign: Sign, screen: Screen, composer: Composer | None) -> str | None:
    """As for any region; but a blank is a cell like any other here."""
    if composer is None:
        return None
    cells = [screen.row(n).cell(screen.width - 1) for n in range(max(0, composer.first - sign.rows), composer.first)]
    text = "".join(character for character, _ in cells)
    if sign.veto is not None and sign.veto.search(text):
        return None
    for match in sign.pattern.finditer(text):
        styles = [style for _, style in cells[match.start() : match.end()]]
        if sign.style is None or all(map(sign.style.fits, styles)):
            return match.group().strip() or "a blank"
    return None


def _slices(region: Region, rows: int, screen: Screen, composer: Composer | None) -> list[_Slice] | None:
    if region == "bottom":
        end = screen.last_text_row + 1
        return None if composer else _whole_rows(screen, range(max(0, end - rows), end))
    if region == "last":
        return _whole_rows(screen, range(screen.last_text_row, screen.last_text_row + 1))
    if region == "cursor-row":
        return _whole_rows(screen, range(screen.cursor_y, screen.cursor_y + 1))
    if composer is None:
        return None
    match region:
        case "above":
            return _whole_rows(screen, range(max(0, composer.first - rows), composer.first))
        case "pill":
            above = range(max(0, composer.first - rows), composer.first)
            labels = ((number, label) for number in above for label in screen.row(number).labels(screen.width))
            return [_Slice(number, start, text) for number, (start, text) in labels]
        case "below":
            below = composer.last + 1
            return _whole_rows(screen, range(below, min(below + rows, screen.last_text_row + 1)))
        case "label":
            return _whole_rows(screen, composer.label)
        case "glyph":
            start = screen.row(composer.top).index_at(composer.glyph_column)
            return [_Slice(composer.top, start, composer.glyph)]
        case _:
            return [_inside(screen, composer, number) for number in range(composer.top, composer.bottom + 1)]


def _inside(screen: Screen, composer: Composer, number: int) -> _Slice:
    """What of a composer's row lies behind the glyph and before the box's right edge."""
    row = screen.row(number)
    start = row.index_at(composer.start)
    stop = len(row.text) if composer.right is None else row.index_at(composer.right)
    return _Slice(number, start, row.text[start:stop])


def _whole_rows(screen: Screen, numbers: range) -> list[_Slice]:
    return [_Slice(number, 0, screen.row(number).text) for number in numbers if number >= 0]


def _has_style(condition: StyleCondition, screen: Screen, slices: list[_Slice], span: tuple[int, int]) -> bool:
    """Whether every cell of the match looks as demanded; blanks and the cell under a drawn cursor are let off."""
    at = 0
    for piece in slices:
        first, stop = max(span[0] - at, 0), min(span[1] - at, len(piece.text))
        at += len(piece.text) + 1
        if first >= stop:
            continue
        cells = screen.row(piece.row).styles(piece.start + first, piece.start + stop)
        shown = [style for character, style in cells if not character.isspace()]
        if not all(condition.fits(style) or (style.reverse and condition.reverse is None) for style in shown):
            return False
    return True
