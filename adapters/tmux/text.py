"""What a text must be to be pasted (DESIGN §4 makes it harmless; here it is only checked once more)."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ULID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def why_unfit(text: str, mark: str) -> str:
    """Why the text may not be pasted; empty if it may.

    tmux before 3.7 hands ESC and the end-of-paste sequence through: what stands behind them would be keys.
    """
    if not _ULID.fullmatch(mark):
        return f"the mark is no ULID: {mark!r}"
    if mark not in text:
        return "the text does not hold its mark"
    for character in text:
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cs"}:
            return f"the text holds the control character U+{ord(character):04X}"
    return ""
