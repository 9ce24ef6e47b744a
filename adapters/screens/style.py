"""How one cell of a terminal looks, and how SGR sequences change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final


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
