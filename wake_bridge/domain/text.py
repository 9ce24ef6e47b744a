"""Makes text from the graph harmless, once, before an agent sees it.

A terminal, a composer and a completion popup all act on characters nobody sees: what leaves here is what a reader sees,
on one line, and nothing besides.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from wake_bridge.domain.names import is_identity

SUBJECT_LIMIT: Final = 200
"""Characters of a subject that are shown."""

ID_LIMIT: Final = 64
"""Characters of an id that are shown; those of the memory core have 45."""

NAME_LIMIT: Final = 65
"""Characters of a name: as many as an identity may have."""

_ELLIPSIS: Final = "…"
WIDE_AT: Final = "＠"
"""Stands for an `@` that would mean something to a harness."""


_LOOKED_AT: Final = 64
"""Characters of raw text that are looked at for each one shown: 100 kB of hidden ones must not cost time."""

_COMPOSED_FROM: Final = 4
"""More characters than NFC ever makes one of, so that a cut before it leaves enough for the cut after it."""

_CELL_BYTES: Final = 20
"""UTF-8 bytes of one character with its marks: what tmux keeps of one; the rest it drops, and the text is not what it was."""

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor moves, both ends of a paste; also one that was cut off
    r"|\x9b20[01]~"  # the ends of a paste behind the one-character CSI
    r"|\x1b[\]PX^_][^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with all they carry
    r"|\x1b[ -/]+[0-~]"  # character sets
)
_PASTE_ENDS: Final = re.compile(r"\[20[01]~")
_SPACES: Final = re.compile(r" {2,}")
_SELECTOR_RUNS: Final = re.compile("([\ufe0e\ufe0f])[\ufe0e\ufe0f]+")

_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))
)
"""Characters that count as letters or marks and are never drawn; U+FE0E and U+FE0F choose how an emoji looks."""

_JOINING_LETTERS: Final = frozenset("\u0e33\u0eb3\uff9e\uff9f" + "".join(map(chr, range(0x1F3FB, 0x1F400))))
"""What belongs to the character before it without being a mark: Thai and Lao AM, kana voicing, skin tones."""

_JAMO: Final = (
    ("\u1100", "\u115f", "L"),
    ("\ua960", "\ua97c", "L"),
    ("\u1160", "\u11a7", "V"),
    ("\ud7b0", "\ud7c6", "V"),
    ("\u11a8", "\u11ff", "F"),
    ("\ud7cb", "\ud7fb", "F"),
)
_HANGUL_JOINS: Final = frozenset({"LL", "LV", "LS", "LT", "SV", "SF", "VV", "VF", "TF", "FF"})
"""Rules GB6 to GB8 of UAX #29, in the letters of `_hangul`."""


def harmless(text: str, limit: int = SUBJECT_LIMIT) -> str:
    """Make free text safe to type, on one line.

    NFC. Whole control sequences, control, bidi, zero-width, tag, private and unassigned characters go; line breaks, tabs,
    NUL and runs of blanks become one space; a lone surrogate becomes U+FFFD, `@` becomes `＠`; marks beyond what a
    terminal keeps of one character go. What is longer than `limit` characters (at least 1) is cut between two graphemes and ends in `…`. Idempotent; never raises; takes no
    longer for 100 kB than for 13.
    """
    seen = _one_line(text[: limit * _LOOKED_AT])
    cut_short = len(text) > limit * _LOOKED_AT or len(seen) > limit * _COMPOSED_FROM
    composed = _as_kept(unicodedata.normalize("NFC", seen[: limit * _COMPOSED_FROM]))
    if len(composed) <= limit and not cut_short:
        return composed
    end = min(limit - 1, len(composed))
    while end > 0 and _is_inside_grapheme(composed, end):
        end -= 1
    return composed[:end].rstrip(" ") + _ELLIPSIS


_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that would steer a terminal or turn a line around, or cannot be written; tab and newline are fine."""


def without_controls(text: str) -> str:
    """`text` as a person may be shown it on a terminal or a page, whoever wrote it."""
    return _CONTROLS.sub("�", text)


def name(login: str, *, known: bool) -> str:
    """A name as it is shown: `@login` only for an AgentIdentity that the graph knows.

    Any other keeps no `@`: to two harnesses `@path` means that the file is read into the turn.
    """
    return login if known and is_identity(login) else harmless(login, NAME_LIMIT)


def _one_line(text: str) -> str:
    """Only what is seen, blanks as single spaces, nothing that would join on to what is written before it."""
    text = _SEQUENCES.sub("", text)
    if not (text.isascii() and text.isprintable()):
        text = _SELECTOR_RUNS.sub(r"\1", "".join(map(_as_seen, text)))
    # a space, not nothing: the two halves of a paste end around a whole one must not meet
    text = _PASTE_ENDS.sub(" ", text).replace("@", WIDE_AT)
    start = 0
    while start < len(text) and (text[start] == " " or _joins_on(text[start])):
        start += 1
    return _SPACES.sub(" ", text[start:]).rstrip(" ")


def _as_seen(character: str) -> str:
    """The character, what stands for it, or nothing.

    Python's `isprintable` is false for exactly what Unicode files under Other (control, format, surrogate, private,
    unassigned) and Separator, the plain space excepted.
    """
    if character.isprintable():
        return "" if character in _UNSEEN else character
    if character.isspace() or character == "\0":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if "\ud800" <= character <= "\udfff" else ""


def _as_kept(text: str) -> str:
    """Without the marks that a terminal would drop."""
    if text.isascii():
        return text
    kept: list[str] = []
    room = 0
    for character in text:
        takes = len(character.encode())
        is_mark = unicodedata.category(character).startswith("M")
        if not is_mark:
            room = _CELL_BYTES
        elif takes > room:
            continue
        room -= takes
        kept.append(character)
    return "".join(kept)


def _joins_on(character: str) -> bool:
    """Whether it is drawn together with the character before it."""
    return unicodedata.category(character).startswith("M") or character in _JOINING_LETTERS


def _is_inside_grapheme(text: str, index: int) -> bool:
    """Whether a cut before `text[index]` would part what is read as one character.

    An approximation of UAX #29 without tables: marks, skin tones, flags and Hangul; zero-width joiners are gone by now.
    """
    if index >= len(text):
        return False
    before, after = text[index - 1], text[index]
    if _joins_on(after) or _hangul(before) + _hangul(after) in _HANGUL_JOINS:
        return True
    return _is_flag_half(after) and _flag_halves_before(text, index) % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, index: int) -> int:
    start = index
    while start > 0 and _is_flag_half(text[start - 1]):
        start -= 1
    return index - start


def _hangul(character: str) -> str:
    """L, V, F: a leading, vowel or final jamo; S, T: a syllable without or with a final; empty for all else."""
    for first, last, kind in _JAMO:
        if first <= character <= last:
            return kind
    if "\uac00" <= character <= "\ud7a3":
        return "T" if (ord(character) - 0xAC00) % 28 else "S"
    return ""
