"""Screens that differ from a captured one in everything but what keeps it from being idle.

`kept_for` says which cells, which title, those are for one piece of evidence; `mutated` changes the rest: rows shifted,
transcripts that quote prompts, placeholders, whole composers and approval words, colours dropped, widths cut, hostile titles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from wake_bridge_adapters.screens import Profile, Screen
from wake_bridge_adapters.screens.classify import seen
from wake_bridge_adapters.screens.composer import Composer, find_composer
from wake_bridge_adapters.screens.profile import Sign
from wake_bridge_adapters.screens.screen import EMPTY_ROW, PLAIN, Row

from tests.screens.corpus import PROFILES, Captured, corpus
from wake_bridge.domain.presence import Evidence, PresenceState

NARROWEST = 30
AROUND_CURSOR = 3
"""Rows on either side of a cursor that stands in no composer."""

TITLES = (
    "",
    "✳ Claude Code",
    "proj",
    "▪ fake",
    "◇  Ready (proj)",
    "Mock title | proj",
    "OpenCode",
    "OC | done",
    "Kilo CLI | idle",
    "π - proj",
    "Qwen - proj",
    "Vibe",
    "Kimi Code",
    "GitHub Copilot",
    "Cline",
    "gptme - ⌨️ waiting for input - x",
    "esc to interrupt ⠋ ◐ ✋",
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a mutation must leave alone: rows from the top, and how the title begins (None: all of it may change).

    What is seen in the first row, in the middle of one or at the right edge does not move there: `is_pinned`.
    """

    rows: range
    title: str | None
    is_pinned: bool = False


def kept_for(screen: Screen, profile: Profile, evidence: Evidence) -> Kept:
    """The cells, or the title, that this one piece of evidence was seen in."""
    if evidence.region == "title":
        is_missing = evidence.saw == "missing"
        return Kept(range(0), screen.title if is_missing else evidence.saw.removesuffix("…"))
    named = [one for one in (*profile.rules, *profile.idle) if one.name == evidence.rule]
    sign = next((one for one in named if one.region == evidence.region), None)
    is_pinned = sign is not None and (sign.region in {"pill", "scrollbar"} or sign.regex.startswith(r"\A"))
    return Kept(_rows_for(screen, profile, evidence, sign), None, is_pinned)


def _rows_for(screen: Screen, profile: Profile, evidence: Evidence, sign: Sign | None) -> range:
    composer = find_composer(screen, profile.composer)
    end = screen.last_text_row + 1
    match evidence.region:
        case "flags":
            return range(0)
        case "cursor" if composer is None:
            return range(0)
        case "last":
            return range(end - 1, end)
        case "cursor-row":
            return range(screen.cursor_y, screen.cursor_y + 1)
        case "above" | "pill" | "scrollbar" if composer is not None and sign is not None:
            first = 0 if evidence.saw == "missing" else _nearest(sign, screen, composer, composer.first)
            return range(first, end)
        case "bottom" if sign is not None:
            return range(_nearest(sign, screen, None, end), end)
    if composer is not None:
        return range(composer.first, end)
    return range(max(0, screen.cursor_y - AROUND_CURSOR), max(end, screen.cursor_y + 1))


def _nearest(sign: Sign, screen: Screen, composer: Composer | None, end: int) -> int:
    """The lowest row from which on the sign is still seen with nothing above it."""
    for first in range(end - 1, 0, -1):
        blanked = replace(screen, rows=(EMPTY_ROW,) * first + screen.rows[first:])
        if seen(sign, blanked, composer) is not None:
            return first
    return 0


def mutated(screen: Screen, kept: Kept, random: Random) -> Screen:
    """The screen after one to four changes that leave `kept` alone."""
    for change in random.choices(CHANGES, k=random.randint(1, 4)):
        screen, kept = change(screen, kept, random)
    return screen


def _pushed_down(screen: Screen, kept: Kept, random: Random) -> tuple[Screen, Kept]:
    """A taller pane: what was there moves down, quotes come above."""
    if kept.is_pinned:
        return screen, kept
    count = random.randint(1, 8)
    rows = (*_quotes(random, count), *screen.rows)
    taller = replace(screen, rows=rows, height=screen.height + count, cursor_y=screen.cursor_y + count)
    return taller, replace(kept, rows=range(kept.rows.start + count, kept.rows.stop + count) if kept.rows else range(0))


def _pushed_up(screen: Screen, kept: Kept, random: Random) -> tuple[Screen, Kept]:
    """Rows leave at the top."""
    if kept.is_pinned:
        return screen, kept
    count = random.randint(0, min(kept.rows.start if kept.rows else screen.cursor_y, screen.cursor_y))
    lower = replace(screen, rows=screen.rows[count:], height=screen.height - count, cursor_y=screen.cursor_y - count)
    return lower, replace(kept, rows=range(kept.rows.start - count, kept.rows.stop - count) if kept.rows else range(0))


def _quoting(screen: Screen, kept: Kept, random: Random) -> tuple[Screen, Kept]:
    """Rows of the transcript become quotes, each by chance or a whole composer in one piece."""
    free = kept.rows.start if kept.rows else len(screen.rows)
    rows = list(screen.rows)
    if random.random() < 0.5:
        piece = random.choice(_composers())[:free]
        at = random.randint(0, free - len(piece))
        rows[at : at + len(piece)] = piece
    else:
        for number in range(min(free, len(rows))):
            if random.random() < 0.3:
                rows[number] = _quotes(random, 1)[0]
    return replace(screen, rows=tuple(rows)), kept


def _faded(screen: Screen, kept: Kept, random: Random) -> tuple[Screen, Kept]:
    """Rows lose their colours, all of them or some."""
    share = random.choice((0.3, 1.0))
    rows = tuple(
        row if number in kept.rows or random.random() > share else Row(((row.text, PLAIN),))
        for number, row in enumerate(screen.rows)
    )
    return replace(screen, rows=rows), kept


def _narrowed(screen: Screen, kept: Kept, random: Random) -> tuple[Screen, Kept]:
    """A narrower pane cuts every row, but none of the cells that are kept; rules are as wide as the pane."""
    if kept.is_pinned:
        return screen, kept
    inside = [screen.row(number) for number in kept.rows]
    least = max([NARROWEST, screen.cursor_x + 1, *(row.end for row in inside if not _is_line(row))])
    if least >= screen.width:
        return screen, kept
    width = random.randint(least, screen.width)
    return replace(screen, width=width, rows=tuple(_cut(row, width) for row in screen.rows)), kept


def _retitled(screen: Screen, kept: Kept, random: Random) -> tuple[Screen, Kept]:
    """A hostile title behind the sign that is kept, or instead of a title that says nothing."""
    return replace(screen, title=f"{kept.title or ''}{random.choice(TITLES)}"), kept


CHANGES: tuple[Callable[[Screen, Kept, Random], tuple[Screen, Kept]], ...] = (
    _pushed_down,
    _pushed_up,
    _quoting,
    _quoting,
    _faded,
    _narrowed,
    _retitled,
    _retitled,
)


def _is_line(row: Row) -> bool:
    return len(set(row.text.strip())) == 1


def _cut(row: Row, width: int) -> Row:
    stop = row.index_at(width)
    runs = []
    at = 0
    for text, style in row.runs:
        if at < stop:
            runs.append((text[: stop - at], style))
        at += len(text)
    return Row(tuple(runs), row.tail if stop >= len(row.text) else None)


def _quotes(random: Random, count: int) -> tuple[Row, ...]:
    return tuple(random.choice(_hostile_rows()) for _ in range(count))


@cache
def _composers() -> tuple[Sequence[Row], ...]:
    """The empty composers of all idle screens, frames and labels included, row for row."""
    return tuple(_idle_composers())


def _idle_composers() -> Iterator[Sequence[Row]]:
    for one in corpus():
        if one.must_be_idle:
            screen = one.capture.screen
            composer = find_composer(screen, PROFILES[one.capture.harness].composer)
            if composer is not None:
                yield screen.rows[max(0, composer.first - 1) : screen.last_text_row + 1]


@cache
def _hostile_rows() -> tuple[Row, ...]:
    """Rows that would mean something elsewhere: of composers, of dialogs, of the rows where programs say that they work."""
    dialogs = [row for one in corpus() if _is_dialog(one) for row in one.capture.screen.rows[-14:] if row.text.strip()]
    return (*(row for piece in _composers() for row in piece if row.text.strip()), *dialogs, EMPTY_ROW)


def _is_dialog(one: Captured) -> bool:
    return one.capture.expect[:1] == (PresenceState.WAITING_ON_APPROVAL,)
