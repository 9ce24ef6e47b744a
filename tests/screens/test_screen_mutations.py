from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.screens import Capture, Screen, classify, load_profiles, read_capture
from adapters.screens.composer import find_composer
from adapters.screens.screen import Row
from adapters.screens.style import PLAIN, Style
from wake_bridge.domain.presence import PresenceState

CAPTURES = Path(__file__).parent / "captures"
PROFILES = load_profiles()
ALL = [(file.stem, read_capture(file)) for file in sorted(CAPTURES.glob("*/*.json"))]
NOT_IDLE = [(stem, capture) for stem, capture in ALL if PresenceState.IDLE not in capture.expect]
IDLE = [(stem, capture) for stem, capture in ALL if capture.expect == (PresenceState.IDLE,)]

DIM = Style(dim=True)
BOLD = Style(bold=True)
QUOTES = (
    Row((("❯\xa0", PLAIN),)),
    Row((("─" * 80, PLAIN),)),
    Row((("❯\xa0Try this", DIM),)),
    Row((("›", BOLD), (" ", PLAIN), ("Ask Codex to do anything", DIM))),
    Row((("➤ ", BOLD), ("Ask the fake agent", DIM))),
    Row(((" Do you want to proceed?", PLAIN),)),
    Row(((" ❯ 1. Yes", PLAIN),)),
    Row((("  Press enter to confirm or esc to cancel", DIM),)),
    Row((("• Working (5s • esc to interrupt)", PLAIN),)),
    Row((("  ⏸ manual mode on · esc to interrupt", PLAIN),)),
    Row((("  ? for shortcuts", PLAIN),)),
    Row(()),
)
TITLES = ("", "✳ Claude Code", "proj", "▪ fake", "◇  Ready (proj)", "Mock title | proj", "done | ✳", "❯")
NEAREST_KEPT = 8


def _quote_above(screen: Screen, random: Random) -> Screen:
    """Old rows at the top make room for rows that quote prompts, placeholders and dialogs."""
    room = screen.last_text_row - 20 if _has_no_composer(screen) else _first_row(screen) - NEAREST_KEPT
    count = min(max(room, 0), 6)
    rows = (*(random.choice(QUOTES) for _ in range(count)), *screen.rows[count:])
    return replace(screen, rows=rows)


def _push_down(screen: Screen, random: Random) -> Screen:
    """The same in a taller pane: everything moves down, quotes come above."""
    count = random.randint(1, 6)
    rows = (*(random.choice(QUOTES) for _ in range(count)), *screen.rows)
    return replace(screen, rows=rows, height=screen.height + count, cursor_y=screen.cursor_y + count)


def _push_up(screen: Screen, random: Random) -> Screen:
    """Rows leave at the top."""
    count = random.randint(0, max(0, min(_first_row(screen), screen.cursor_y) - 1))
    return replace(screen, rows=screen.rows[count:], height=screen.height - count, cursor_y=screen.cursor_y - count)


def _drop_colours(screen: Screen, random: Random) -> Screen:
    """Rows lose their colours, some or all."""
    share = random.random()
    rows = tuple(Row(((row.text, PLAIN),)) if random.random() <= share else row for row in screen.rows)
    return replace(screen, rows=rows)


def _retitle(screen: Screen, random: Random) -> Screen:
    """Another title behind the signs at its start; any other where it says nothing."""
    signs = screen.title[: 25 if screen.title.startswith("[") else 2]
    keeps = classify_by_title(screen)
    return replace(screen, title=(signs if keeps else "") + random.choice(TITLES))


def classify_by_title(screen: Screen) -> bool:
    return screen.title[:1] in "[◐◑" or "\u2800" <= screen.title[:1] <= "\u28ff"


def _has_no_composer(screen: Screen) -> bool:
    return all(find_composer(screen, profile.composer) is None for profile in PROFILES.values())


def _first_row(screen: Screen) -> int:
    found = [composer.first for profile in PROFILES.values() if (composer := find_composer(screen, profile.composer))]
    return min([*found, screen.cursor_y, max(screen.last_text_row - 20, 0) if not found else screen.cursor_y])


MUTATIONS: tuple[Callable[[Screen, Random], Screen], ...] = (
    _quote_above,
    _push_down,
    _push_up,
    _drop_colours,
    _retitle,
)


@settings(max_examples=600, deadline=None)
@given(
    which=st.sampled_from(NOT_IDLE),
    mutations=st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=4),
    random=st.randoms(use_true_random=False),
)
def test_what_blocks_goes_on_blocking_whatever_else_changes(
    which: tuple[str, Capture], mutations: list[Callable[[Screen, Random], Screen]], random: Random
) -> None:
    """DESIGN §5: any veto wins; transcripts quote prompts and approval words, titles carry a user's text."""
    _, capture = which
    screen = capture.screen
    for mutate in mutations:
        screen = mutate(screen, random)

    assert classify(screen, PROFILES[capture.harness]).state is not PresenceState.IDLE


@settings(max_examples=200, deadline=None)
@given(which=st.sampled_from(IDLE), random=st.randoms(use_true_random=False))
def test_words_quoted_in_the_transcript_do_not_stop_a_wake(which: tuple[str, Capture], random: Random) -> None:
    """DESIGN §5: regions are found from the cursor outward; the transcript is none of them."""
    _, capture = which

    screen = _quote_above(_push_down(capture.screen, random), random)

    assert classify(screen, PROFILES[capture.harness]).state is PresenceState.IDLE
