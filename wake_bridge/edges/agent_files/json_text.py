"""JSON with the places of its parts, so that a person's file can be changed in one spot and stay theirs elsewhere.

Comments and trailing commas are understood, as by the harnesses' own readers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ATOM: Final = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_CLOSING: Final = {"{": "}", "[": "]"}


class NotJson(ValueError):
    """The text is not JSON; says where that shows."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(f"{expected} expected in line {text.count(chr(10), 0, position) + 1}")


@dataclass(frozen=True, slots=True)
class Part:
    """An item of an array, or a member of an object with its name; `start` is where its text begins."""

    name: str
    start: int
    piece: Piece

    @property
    def end(self) -> int:
        """Where its text ends."""
        return self.piece.end

    @property
    def says(self) -> str:
        """The member's name, or the item itself where it is a string."""
        return self.name or self.piece.value


@dataclass(frozen=True, slots=True)
class Piece:
    """One value and the place of its text.

    `kind` is `{`, `[`, `"`, or empty for anything else; `value` is what a string says.
    """

    kind: str
    start: int
    end: int
    value: str = ""
    parts: tuple[Part, ...] = ()

    def member(self, name: str) -> Piece | None:
        """The value of that name, in an object that has it."""
        return next((part.piece for part in self.parts if self.kind == "{" and part.name == name), None)


def parse(text: str) -> Piece:
    """The whole text as one value.

    Raises:
        NotJson: it is not.
    """
    piece = _value(text, _blank(text, 0))
    position = _blank(text, piece.end)
    if position != len(text):
        raise NotJson(text, position, "the end")
    return piece


def _blank(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


def _value(text: str, start: int) -> Piece:
    opening = text[start : start + 1]
    if opening and opening in _CLOSING:
        return _container(text, start)
    if opening == '"':
        said, end = _string(text, start)
        return Piece('"', start, end, said)
    found = _ATOM.match(text, start)
    if not found:
        raise NotJson(text, start, "a value")
    return Piece("", start, found.end())


def _string(text: str, start: int) -> tuple[str, int]:
    found = _STRING.match(text, start)
    if not found:
        raise NotJson(text, start, "a string")
    try:
        return str(json.loads(found.group())), found.end()
    except ValueError as broken:
        raise NotJson(text, start, "a string") from broken


def _container(text: str, start: int) -> Piece:
    kind = text[start]
    parts: list[Part] = []
    position, separated = _blank(text, start + 1), True
    while text[position : position + 1] != _CLOSING[kind]:
        if not separated:
            raise NotJson(text, position, "a comma")
        part = _member(text, position) if kind == "{" else Part("", position, _value(text, position))
        if part.name and any(part.name == other.name for other in parts):
            raise NotJson(text, position, f"{part.name!r} only once")
        parts.append(part)
        position = _blank(text, part.end)
        separated = text[position : position + 1] == ","
        if separated:
            position = _blank(text, position + 1)
    return Piece(kind, start, position + 1, "", tuple(parts))


def _member(text: str, start: int) -> Part:
    name, position = _string(text, start)
    position = _blank(text, position)
    if text[position : position + 1] != ":":
        raise NotJson(text, position, "a colon")
    return Part(name, start, _value(text, _blank(text, position + 1)))
