"""Judging one's own text on the screen: is it all that the composer holds, has it left, does the mark show."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from wake_bridge_adapters.screens.classify import classify, seen
from wake_bridge_adapters.screens.composer import BLANKS, Composer, find_composer
from wake_bridge_adapters.screens.profile import Paste, Profile
from wake_bridge_adapters.screens.screen import Screen, text_width

_NOT_TEXT: Final = re.compile(r"[\s\u200b\u2500-\u259f]+")
"""White space, and what frames are drawn with: a harness wraps and frames text as it likes."""

_NOT_OF_A_MARK: Final = re.compile(r"[^0-9A-Z]+")
"""What may stand where a mark is wrapped: frames, white space, a prompt before every row."""

_MAY_WIDEN: Final = "\ufe0f"
"""Some terminals give two columns to what this selector follows; tmux 3.3 one."""

_WRAP_SLACK: Final = 3
"""A row this many columns short of the screen's edge may be full: harnesses keep a margin."""


def composer_is_empty(screen: Screen, profile: Profile) -> bool:
    """Whether the composer is there and holds nothing that was typed or pasted."""
    return classify(screen, profile).composer in {"empty", "placeholder"}


def holds_only(screen: Screen, profile: Profile, text: str) -> bool:
    """Whether the composer holds exactly `text`, or the chip of such a paste, and the cursor stands right behind it.

    Compared without white space, since harnesses wrap; a blank or newline typed behind the text shows in the cursor.
    Where the composer is too small for the text, the rows in sight must be its end and the rows out of sight no more
    than the rest of it takes. Says nothing about dialogs or activity: ask `classify(...).obstacles` for those. False
    for empty text.
    """
    composer = find_composer(screen, profile.composer)
    if composer is None or composer.is_shell or not text.strip():
        return False
    is_chip = _is_chip_of(composer.text, profile.paste, text)
    if not _cursor_behind_text(screen, composer, int(is_chip and profile.paste.blank_behind_chip)):
        return False
    if composer.hidden_rows:
        return _is_end_of(composer, screen.width, text)
    return is_chip or _bare(composer.text) == _bare(text)


def holds_part(held: str, text: str) -> bool:
    """Whether what a composer holds is a piece of `text`: all that a small or narrow one may show of it."""
    return bool(_bare(held)) and _bare(held) in _bare(text)


def mark_in_transcript(screen: Screen, profile: Profile, mark: str) -> bool:
    """Whether `mark` shows above the composer, be it wrapped.

    On a screen without a composer it may show anywhere, but only where a rule says what took the composer's place:
    otherwise the mark could stand in a composer that was not recognised.
    """
    composer = find_composer(screen, profile.composer)
    if composer is None and all(seen(rule, screen, None) is None for rule in profile.rules):
        return False
    above = screen.rows[: composer.first] if composer else screen.rows
    return bool(mark) and mark in _NOT_OF_A_MARK.sub("", "".join(row.text for row in above))


def _bare(text: str) -> str:
    return _NOT_TEXT.sub("", text)


def _is_end_of(composer: Composer, width: int, text: str) -> bool:
    visible, whole = _bare(composer.text), _bare(text)
    if not visible or not whole.endswith(visible):
        return False
    if composer.hidden_rows < 0:
        return True
    hidden = _without_end(text, len(visible))
    inner = width - composer.start - 1
    rows = [math.ceil(max(text_width(line), 1) / inner) for line in hidden.splitlines()]
    return composer.hidden_rows <= sum(rows) + len(rows)  # words that do not fit leave rows short


def _without_end(text: str, count: int) -> str:
    """`text` without its last `count` characters that are not blank."""
    kept = text
    while count > 0 and kept:
        count -= bool(_bare(kept[-1]))
        kept = kept[:-1]
    return kept


def _is_chip_of(shown: str, paste: Paste, text: str) -> bool:
    if not paste.chip:
        return False
    chip = re.fullmatch(paste.chip, " ".join(shown.split()))
    if chip is None:
        return False
    lines = text.count("\n")
    expected = {"more": lines, "lines": lines + 1, "characters": len(text)}
    groups = {name: found for name, found in chip.groupdict().items() if found}
    if not _bare(text).startswith(_bare(groups.pop("start", ""))):
        return False
    return all(expected.get(name) == int(count) for name, count in groups.items())


def _cursor_behind_text(screen: Screen, composer: Composer, blanks_behind: int) -> bool:
    """Whether the cursor stands right behind the text, or behind the blank that some harnesses put after a chip.

    Behind wide characters a drawn one will do: Gemini places the terminal's by widths of its own.
    """
    if composer.cursor is None:
        return True
    filled = [number for number, line in _numbered(composer) if line.strip(BLANKS)]
    if not filled:
        return False
    row = screen.row(filled[-1])
    line = composer.lines[filled[-1] - composer.top].rstrip(BLANKS)
    end = row.columns[row.text.rindex(line) + len(line)]
    slack = row.text.count(_MAY_WIDEN) + blanks_behind

    def is_behind(x: int, y: int) -> bool:
        if y == filled[-1]:
            return end <= x <= end + slack or x == min(end, screen.width - 1)
        return y == filled[-1] + 1 and x == composer.start and end >= screen.width - _WRAP_SLACK

    if is_behind(*composer.cursor):
        return True
    drawn = row.last_reversed()
    return drawn is not None and text_width(line) != len(line) and is_behind(drawn, filled[-1])


def _numbered(composer: Composer) -> Iterable[tuple[int, str]]:
    return enumerate(composer.lines, composer.top)
