"""Takes personal text out of a captured screen: paths, names, mail addresses, URLs and tokens; each cell keeps its width.

A profile's own words stay. So the screen reads as it did, or whoever asks is told how it reads now.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from wake_bridge_adapters.screens.profile import Profile
from wake_bridge_adapters.screens.screen import character_width, plain_sequences, text_width

_KINDS: Final[Mapping[str, re.Pattern[str]]] = {
    "URL": re.compile(r"\b[a-z][a-z0-9+]*://[^\s│┃|)\]>\"']+", re.IGNORECASE),
    "mail address": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "path": re.compile(
        r"(?<![\w/])(?:~/[^\s│┃:,;)\]\"'`]*"  # below somebody's home
        r"|(?:\.{1,2})?/[\w.@+~-]+(?:/[\w.@+~-]*)+"  # /two/parts at least: /help is a command
        r"|[\w.@+-]+(?:/[\w.@+-]+)*/[\w.@+-]*[\w-]\.[A-Za-z]\w{0,7}\b"  # src/name.py
        r"|[A-Za-z]:\\[^\s│┃]+)"
    ),
    "token": re.compile(
        r"\b(?:sk|pk|ghp|gho|ghs|ghu|glpat|xox[a-z]|AKIA|AIza|eyJ|whsec|hf|npm)[-_A-Za-z0-9.]{6,}"
        r"|(?<=key=)\S+|(?<=token=)\S+|(?<=password=)\S+|(?<=secret=)\S+"
        r"|(?<=Bearer )\S+|(?<=Basic )\S+"
        r"|(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}(?![\w-])",
    ),
}

_FRAME: Final = " │┃|▌▐╎┆"
_NEAR_THE_EDGE: Final = 6
"""Cells that a program may leave free at the end of a row whose text goes on in the next one."""

_SHORTEST_NAME: Final = 3
"""Cells."""


class Personal:
    """Replaces personal text.

    Args:
        profile: whose own words stay; None where no program is known.
        words: names besides, such as the user's, the host's and the directory's; those of fewer than three cells are
            left, for they would be found everywhere.
        width: cells of a row, to find what goes on in the next one.

    `replaced` counts what was replaced so far, by kind.
    """

    def __init__(self, profile: Profile | None, words: Iterable[str], width: int) -> None:
        wanted = sorted({one for one in words if text_width(one) >= _SHORTEST_NAME}, key=len, reverse=True)
        self._names = [re.compile(rf"(?<![^\W_]){re.escape(one)}(?![^\W_])", re.IGNORECASE) for one in wanted]
        self._own = _own_words(profile) if profile else None
        self._width = width
        self.replaced: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """The same text without what is personal; any number of rows, without escape sequences."""
        characters = list(text)
        for kind, spans in self._found(text):
            for indices in spans:
                self.replaced[kind] += 1
                for index in indices:
                    characters[index] = _blind(text[index])
        return "".join(characters)

    def ansi(self, ansi: str) -> str:
        """The same of what `capture-pane -p -e` printed: colours stay, links are taken out."""
        pieces = plain_sequences(ansi)
        text = iter(self.text("".join(piece for piece in pieces if not piece.startswith("\x1b["))))
        return "".join(piece if piece.startswith("\x1b[") else "".join(next(text) for _ in piece) for piece in pieces)

    def _found(self, text: str) -> Iterator[tuple[str, list[Sequence[int]]]]:
        """What is personal, by kind, each as the indices of its characters; what one kind has, no other counts again."""
        own = {index for match in (self._own.finditer(text) if self._own else ()) for index in range(*match.span())}
        taken: set[int] = set()
        readings = (_as_it_stands(text), _as_it_wraps(text, self._width))
        for kind, patterns in (*((kind, (one,)) for kind, one in _KINDS.items()), ("name", tuple(self._names))):
            spans: list[Sequence[int]] = []
            for flat, at in readings:
                for pattern in patterns:
                    for match in pattern.finditer(flat):
                        indices = [index for index in at[slice(*match.span())] if text[index] != "\n"]
                        if own.isdisjoint(indices) and not taken.issuperset(indices):
                            taken.update(indices)
                            spans.append(indices)
            yield kind, spans


def _own_words(profile: Profile) -> re.Pattern[str] | None:
    """The strings of the profile: placeholders, and what its signs contain."""
    signs = (*profile.rules, *profile.idle, *profile.attention)
    strings = {one.strip() for sign in signs for one in (*sign.contains, *sign.unless)}
    strings |= {one.strip() for one in profile.composer.placeholder.strings}
    wanted = sorted(filter(None, strings), key=len, reverse=True)
    return re.compile("|".join(r"\s+".join(map(re.escape, one.split())) for one in wanted)) if wanted else None


def _as_it_stands(text: str) -> tuple[str, Sequence[int]]:
    return text, range(len(text))


def _as_it_wraps(text: str, width: int) -> tuple[str, Sequence[int]]:
    """The text with each row that reaches the edge and the next one as one, frames and indents between them left out."""
    flat: list[str] = []
    at: list[int] = []
    start = 0
    goes_on = False
    for row in text.split("\n"):
        body = row.rstrip(_FRAME)
        begin = len(row) - len(row.lstrip(_FRAME)) if goes_on else 0
        flat.append(body[begin:])
        at.extend(range(start + begin, start + max(begin, len(body))))
        goes_on = text_width(body) >= width - _NEAR_THE_EDGE
        start += len(row) + 1
        if not goes_on and start <= len(text):
            flat.append("\n")
            at.append(start - 1)
    return "".join(flat), at


def _blind(character: str) -> str:
    """What stands for a character: as wide, and of the same sort."""
    if character.isdigit():
        return "0"
    width = character_width(character)
    if not character.isalpha() or width == 0:
        return character
    return "字" if width > 1 else "x"
