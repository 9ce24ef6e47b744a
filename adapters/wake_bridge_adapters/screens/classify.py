"""Classifies a screen: the state that it shows, with evidence; and finds our own text on it.

A dialog outranks a draft, a draft outranks activity, and what has no composer is unknown. One look never proves idle:
the fusion in the domain wants a second one with an equal fingerprint.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from typing import Final, Literal

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.screens.composer import BLANKS, Composer, find_composer, glyph_styles, text_styles
from wake_bridge_adapters.screens.profile import Paste, Profile, Region, Sign, StyleCondition
from wake_bridge_adapters.screens.screen import Screen, text_width


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
    if sign.region == "glyph" and composer is not None and sign.style is not None:
        styles = glyph_styles(screen, composer)
        return composer.glyph if styles and all(map(sign.style.fits, styles)) else None
    match = _in_rows(sign, screen, composer)
    return match.group() if match is not None else None


def _in_rows(sign: Sign, screen: Screen, composer: Composer | None) -> re.Match[str] | None:
    """The sign in the text of its region."""
    slices = _slices(sign.region, sign.rows, screen, composer)
    if slices is None:
        return None
    text = "\n".join(piece.text for piece in slices)
    if sign.veto is not None and sign.veto.search(text):
        return None
    matches = sign.pattern.finditer(text)
    return next(
        (one for one in matches if sign.style is None or _has_style(sign.style, screen, slices, one.span())), None
    )


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


ComposerState = Literal["empty", "draft", "placeholder", "absent"]

_PLAIN_RUN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ]*[A-Za-z0-9])?")
"""Letters, digits and blanks: what may stand in a condition as it is."""

_SHOWN: Final = 60
"""Characters of the screen that evidence quotes at most."""

_READ: Final = 2000
"""Characters before and behind a sign of the last turn that are read at most."""

_MARK_AT_END: Final = re.compile(r"Wake:(?P<id>[0-9A-HJKMNP-TV-Z]{26})\Z")
"""The last word of every digest (`domain.digest`), without its blanks."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one screen says.

    Attributes:
        evidence: all that was seen, each with the state it speaks for.
        state: the vote of this look taken alone.
        rule: the evidence that decided it.
        composer: what the composer holds; `absent` when there is none where it must be.
        composer_text: the text in it, a placeholder included.
        fingerprint: equal for two screens between which nothing that matters moved.
        footer: the rows below the composer.
        sight: where typing would not move the terminal's cursor, a part of the placeholder: while it stands on the
            screen the composer is still empty, and tmux itself can see that. Empty elsewhere.
    """

    evidence: tuple[Evidence, ...]
    state: PresenceState
    rule: str
    composer: ComposerState
    composer_text: str
    fingerprint: str
    footer: str
    sight: str

    @property
    def obstacles(self) -> tuple[Evidence, ...]:
        """Everything that speaks against a key, but for a draft in the composer, which may be our own text."""
        return tuple(one for one in self.evidence if one.vote is not PresenceState.IDLE and one.rule != DRAFT)


DRAFT: Final = "draft"
"""The evidence for text in the composer that is no placeholder."""


def classify(screen: Screen, profile: Profile, beside: tuple[Evidence, ...] = ()) -> Reading:
    """Read one screen by one profile, with what is known `beside` it. Never raises."""
    composer = find_composer(screen, profile.composer)
    holds = _composer_state(screen, profile, composer)
    evidence = [*beside, *_pane_facts(screen)]
    for rule in profile.ordered_rules:
        saw = seen(rule, screen, composer)
        if saw is not None:
            evidence.append(Evidence(rule.name, rule.state, saw=_shortened(saw), region=rule.region))
    evidence += _composer_evidence(screen, composer, holds)
    if composer is not None and holds in {"empty", "placeholder"}:
        evidence += _missing_signs(screen, profile, composer)
        if not any(one.weighs for one in evidence):
            saw = composer.text or composer.glyph
            evidence.append(Evidence("idle", PresenceState.IDLE, saw=_shortened(saw), region="composer"))
    evidence += _attention_evidence(screen, profile, composer)
    verdict = single_vote(tuple(evidence))
    return Reading(
        evidence=tuple(evidence),
        state=verdict.vote,
        rule=verdict.rule,
        composer=holds,
        composer_text=composer.text if composer else "",
        fingerprint=_fingerprint(screen, profile, composer),
        footer="\n".join(row.text for row in screen.rows[composer.last + 1 :]).strip("\n") if composer else "",
        sight=_sight(screen, composer) if composer is not None and holds == "placeholder" else "",
    )


def _pane_facts(screen: Screen) -> Iterator[Evidence]:
    """What tmux itself says about the pane: each makes everything on the screen worthless."""
    for flag, rule, hold in (
        ("pane_dead", "pane-dead", HoldReason.PANE_DEAD),
        ("pane_in_mode", "copy-mode", HoldReason.COPY_MODE),
        ("pane_input_off", "input-off", HoldReason.INPUT_OFF),
    ):
        value = screen.flags.get(flag, "")
        if value not in {"", "0"}:
            yield Evidence(rule, PresenceState.UNKNOWN, saw=f"{flag}={value}", region="flags", hold=hold)


def _composer_state(screen: Screen, profile: Profile, composer: Composer | None) -> ComposerState:
    if composer is None:
        return "absent"
    placeholder = profile.composer.placeholder
    if composer.is_shell or not composer.cursor_at_start:
        return "draft"
    if composer.is_blank:
        return "draft" if placeholder.required else "empty"
    cells = text_styles(screen, composer)
    if cells and cells[0][1].reverse:  # the program draws its cursor over the first cell
        cells = cells[1:]
    if not all(placeholder.style.fits(style) for _, style in cells):
        return "draft"
    if placeholder.knows(composer.text) or (placeholder.ghost and cells):
        return "placeholder"
    return "draft"


def _attention_evidence(screen: Screen, profile: Profile, composer: Composer | None) -> Iterator[Evidence]:
    """What a person may want to know of the last turn; it weighs nothing."""
    for sign in profile.attention:
        match = _in_rows(sign, screen, composer)
        if match is not None:
            yield Evidence(
                sign.name,
                PresenceState.IDLE,
                saw=_shortened(match.group()),
                region=sign.region,
                weighs=False,
                attention=sign.kind,
                text=match.string[match.start() :][:_READ].rstrip(),
                wake_id=_wake_that_ends(match.string[: match.start()]),
            )


def _wake_that_ends(text: str) -> str:
    """The delivery whose digest is the last that stands in the text; empty where it is none. Rows may be wrapped and framed."""
    match = _MARK_AT_END.search(re.sub(r"[^A-Za-z0-9:]", "", text[-_READ:]))
    return match["id"] if match else ""


_LEAST_WIDTH: Final = 20
_LEAST_HEIGHT: Final = 4
"""Columns and rows below which no harness was seen to show a whole composer: its frame wraps, or is scrolled away."""


def _composer_evidence(screen: Screen, composer: Composer | None, holds: ComposerState) -> Iterator[Evidence]:
    """What the composer itself says; where there is none, the screen's last row tells best what stands in its place."""
    if composer is None:
        last_row = _shortened(screen.row(screen.last_text_row).text)
        saw = f"the last row says {last_row!r}" if last_row else "the screen is empty"
        cause = Cause.NO_COMPOSER if last_row else Cause.EMPTY_SCREEN
        if screen.width < _LEAST_WIDTH or screen.height < _LEAST_HEIGHT:
            cause, saw = Cause.TOO_SMALL, f"the pane has {screen.width}x{screen.height} cells; {saw}"
        yield Evidence("no-composer", PresenceState.UNKNOWN, saw=saw, region="composer", cause=cause)
    elif composer.is_shell:
        yield Evidence("shell-mode", PresenceState.USER_TYPING, saw=composer.glyph, region="glyph")
    elif composer.is_blank and not composer.cursor_is_inside:
        yield Evidence("cursor-elsewhere", PresenceState.UNKNOWN, region="cursor")
    elif holds == "draft":
        saw = _shortened(composer.text) or "blanks"
        yield Evidence(DRAFT, PresenceState.USER_TYPING, saw=saw, region="composer")


def _missing_signs(screen: Screen, profile: Profile, composer: Composer) -> Iterator[Evidence]:
    """What idle needs and this screen does not show."""
    condition = profile.composer.glyph_style
    if not all(condition.fits(style) for style in glyph_styles(screen, composer)):
        yield Evidence("glyph-style", PresenceState.UNKNOWN, saw=composer.glyph, region="glyph")
    for sign in profile.idle:
        if seen(sign, screen, composer) is None:
            yield Evidence(sign.name, PresenceState.UNKNOWN, saw="missing", region=sign.region)


def _fingerprint(screen: Screen, profile: Profile, composer: Composer | None) -> str:
    parts = [screen.title, f"{screen.cursor_x},{screen.cursor_y},{screen.cursor_visible},{composer is None}"]
    if composer is None:
        parts += [row.text for row in screen.rows]
    else:
        parts += composer.lines
        if not profile.composer.above_may_move:
            parts += [row.text for row in screen.rows[: composer.first]]
    return hashlib.blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _sight(screen: Screen, composer: Composer) -> str:
    """The longest plain run of the placeholder's first row, unless the terminal's cursor is the one that counts."""
    if composer.cursor == (screen.cursor_x, screen.cursor_y):
        return ""
    return max(_PLAIN_RUN.findall(composer.lines[0]), key=len, default="")


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else flat[: _SHOWN - 1] + "…"


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
    filled = [number for number, line in enumerate(composer.lines, composer.top) if line.strip(BLANKS)]
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
