"""One look at a pane: the output of `capture-pane -p -e` and the formats beside it, as rows of cells.

SGR state runs on across row ends in such a capture, so that all rows are read in one go; columns are only counted for
the rows that somebody asks about.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Self

from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """The look of a cell as tmux reports it.

    Colours are `default`, a palette index `0`–`255`, or `#rrggbb`.
    """

    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    fg: str = "default"
    bg: str = "default"


PLAIN: Final = Style()

_FOREGROUND: Final = 38
_BACKGROUND: Final = 48
_UNDERLINE: Final = 4
_UNDERLINE_COLOUR: Final = 58

_ON: Final[dict[int, dict[str, Any]]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    39: {"fg": "default"},
    49: {"bg": "default"},
}


@lru_cache(maxsize=4096)
def after_sgr(style: Style, parameters: str) -> Style:
    """The style that holds after `ESC [ parameters m`. Unknown parameters change nothing."""
    codes = iter(parameters.split(";"))
    for code in codes:
        number, *parts = code.split(":")
        value = int(number) if number.isdigit() else 0
        if value == 0:
            style = PLAIN
        elif value in {_FOREGROUND, _BACKGROUND, _UNDERLINE_COLOUR}:
            colour = _extended_colour(iter([part for part in parts if part]) if parts else codes)
            if value != _UNDERLINE_COLOUR:
                style = replace(style, fg=colour) if value == _FOREGROUND else replace(style, bg=colour)
        elif parts and value == _UNDERLINE:
            style = replace(style, underline=parts[0] != "0")
        elif value in _ON:
            style = replace(style, **_ON[value])
        else:
            style = _basic_colour(style, value)
    return style


def _extended_colour(codes: Iterator[str]) -> str:
    """The colour after a 38, 48 or 58: `5;n` or `2;r;g;b`."""
    kind = next(codes, "")
    if kind == "5":
        return next(codes, "default")
    if kind == "2":
        channels = [next(codes, "0") for _ in range(3)]
        return "#" + "".join(f"{int(channel) if channel.isdigit() else 0:02x}" for channel in channels)
    return "default"


def _basic_colour(style: Style, value: int) -> Style:
    """The sixteen classic colours as palette indices."""
    colour = value % 10
    if value in range(30, 38):
        return replace(style, fg=str(colour))
    if value in range(90, 98):
        return replace(style, fg=str(colour + 8))
    if value in range(40, 48):
        return replace(style, bg=str(colour))
    if value in range(100, 108):
        return replace(style, bg=str(colour + 8))
    return style


_SEQUENCE: Final = re.compile(r"\x1b\[([0-9;:]*)m")
_HYPERLINK: Final = re.compile(r"\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
_LINE_DRAWING: Final = re.compile(r"\x0e([^\x0f]*)\x0f?")
_DRAWN: Final = str.maketrans("jklmnqtuvwx", "┘┐┌└┼─├┤┴┬│")
_JOINER: Final = "\u200d"
_HANGUL_MEDIAL_AND_FINAL: Final = range(0x1160, 0x1200)
_SOFT_HYPHEN: Final = "\xad"


@lru_cache(maxsize=4096)
def character_width(character: str) -> int:
    """How many columns tmux gives a character: 0 for what combines with the one before, 2 for wide ones.

    A variation selector widens nothing: tmux 3.3a keeps `⚠️` in one column.
    """
    if character != _SOFT_HYPHEN and unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    if ord(character) in _HANGUL_MEDIAL_AND_FINAL:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"F", "W"} else 1


def text_width(text: str) -> int:
    """How many columns `text` takes; what follows a zero-width joiner takes none."""
    if text.isascii():
        return len(text)
    total = 0
    previous = ""
    for character in text:
        if previous != _JOINER:
            total += character_width(character)
        previous = character
    return total


def _without_links(ansi: str) -> str:
    """The capture with its hyperlinks taken out and its line drawing as characters."""
    if "\x1b]" in ansi:
        ansi = _HYPERLINK.sub("", ansi)
    if "\x0e" in ansi:
        ansi = _LINE_DRAWING.sub(lambda drawn: drawn.group(1).translate(_DRAWN), ansi)
    return ansi


def plain_sequences(ansi: str) -> list[str]:
    """The capture in pieces: texts, and between them the sequences that style them; no piece is empty."""
    return [piece for piece in re.split(rf"({_SEQUENCE.pattern.replace('(', '(?:')})", _without_links(ansi)) if piece]


@dataclass(frozen=True)
class Row:
    """One row: runs of equally styled text from column 0.

    tmux drops blanks at a row's end, but not the change of style before them: `tail` is that style, and all that is
    left of a software cursor behind the last character.
    """

    runs: tuple[tuple[str, Style], ...]
    tail: Style | None = None

    @cached_property
    def text(self) -> str:
        """The characters."""
        return "".join(run for run, _ in self.runs)

    @cached_property
    def columns(self) -> list[int]:
        """The column of each character, and last the column after them all."""
        if self.text.isascii():
            return list(range(len(self.text) + 1))
        columns = [0]
        previous = ""
        for character in self.text:
            columns.append(columns[-1] + (0 if previous == _JOINER else character_width(character)))
            previous = character
        return columns

    @property
    def end(self) -> int:
        """The column after the last character that is not blank."""
        return self.columns[len(self.text.rstrip(" "))]

    def index_at(self, column: int) -> int:
        """The index of the first character at or after `column`; the row's length when there is none."""
        if self.text.isascii():
            return min(column, len(self.text))
        for index, at in enumerate(self.columns):
            if at >= column:
                return index
        return len(self.text)

    def from_column(self, column: int) -> str:
        """The characters at and after `column`."""
        return self.text[self.index_at(column) :]

    def starts_at(self, column: int, wanted: str) -> bool:
        """Whether `wanted` stands at `column`; dropped trailing blanks count as blanks."""
        there = self.from_column(column)
        return there.startswith(wanted) or (len(there) < len(wanted) and there.ljust(len(wanted)) == wanted)

    def styles(self, start: int = 0, stop: int | None = None) -> Iterable[tuple[str, Style]]:
        """Each character of `text[start:stop]` with its style."""
        stop = len(self.text) if stop is None else stop
        index = 0
        for run, style in self.runs:
            for character in run:
                if start <= index < stop:
                    yield character, style
                index += 1

    def cell(self, column: int) -> tuple[str, Style]:
        """The character in `column` and its style; a blank where tmux dropped it."""
        if column >= self.columns[-1]:
            return " ", self.tail or PLAIN
        index = self.index_at(column)
        return next(iter(self.styles(index, index + 1)), (" ", PLAIN))

    def labels(self, width: int) -> Iterable[tuple[int, str]]:
        """Runs on a background of their own, a blank at each end, in the middle of `width` columns: index and text."""
        index = 0
        beside = ""
        for run, style in self.runs:
            if index and run.startswith(" ") and style.bg not in {"default", beside}:
                left = self.columns[index]
                right = width - left - text_width(run.rstrip(" ")) - 1
                if abs(left - right) <= 1:
                    yield index, run
            index += len(run)
            beside = style.bg

    def last_reversed(self) -> int | None:
        """The column of the last reversed cell: where a program draws its own cursor."""
        found = None
        index = 0
        for run, style in self.runs:
            if style.reverse and run:
                found = index + len(run.rstrip("\u200b")) - 1
            index += len(run)
        if self.tail is not None and self.tail.reverse:
            return self.columns[-1]
        return None if found is None else self.columns[found]


EMPTY_ROW: Final = Row(())


@dataclass(frozen=True)
class Screen:
    """A pane at one moment.

    `flags` are tmux formats by name, as many as were asked for; `command` is `pane_current_command`. The cursor is
    where tmux has it, visible or not.
    """

    rows: tuple[Row, ...]
    width: int
    height: int
    cursor_x: int
    cursor_y: int
    cursor_visible: bool
    title: str = ""
    command: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(
        cls,
        ansi: str,
        *,
        width: int,
        height: int,
        cursor_x: int,
        cursor_y: int,
        cursor_visible: bool,
        title: str = "",
        command: str = "",
        flags: Mapping[str, str] | None = None,
    ) -> Self:
        """Read the text of `capture-pane -p -e`. Never raises: what is no SGR sequence is kept as text."""
        ansi = _without_links(ansi)
        style = PLAIN
        rows = []
        for line in ansi.split("\n"):
            pieces = _SEQUENCE.split(line)
            runs = [(pieces[0], style)] if pieces[0] else []
            for parameters, piece in zip(pieces[1::2], pieces[2::2], strict=True):
                style = after_sgr(style, parameters)
                if piece:
                    runs.append((piece, style))
            rows.append(Row(tuple(runs), style if len(pieces) > 1 and not pieces[-1] else None))
        return cls(
            rows=tuple(rows[:height]),
            width=width,
            height=height,
            cursor_x=cursor_x,
            cursor_y=cursor_y,
            cursor_visible=cursor_visible,
            title=title,
            command=command,
            flags=flags or {},
        )

    def row(self, number: int) -> Row:
        """Row `number` from the top; rows below the last one with text are empty."""
        return self.rows[number] if 0 <= number < len(self.rows) else EMPTY_ROW

    def is_blank(self, number: int) -> bool:
        """Whether nothing but blanks stands in that row."""
        return not self.row(number).text.strip(" ")

    @cached_property
    def last_text_row(self) -> int:
        """The number of the last row with text; -1 on an empty screen."""
        return next((number for number in range(len(self.rows) - 1, -1, -1) if not self.is_blank(number)), -1)
