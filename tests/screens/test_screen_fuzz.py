from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from wake_bridge_adapters.screens import Screen, classify
from wake_bridge_adapters.screens.composer import find_composer
from wake_bridge_adapters.screens.screen import Row

from tests.screens.corpus import HARNESSES, PROFILES, Captured, captures_of, corpus
from tests.screens.mutations import TITLES, kept_for, mutated
from wake_bridge.domain.presence import PresenceState

QUICK, FULL = 10, 340
AT_LEAST = 200_000
TITLES_OF_EACH = 3
NEAREST = 18
"""Rows above a composer that idle screens keep: signs that a program is at work stand there."""


@cache
def not_idle() -> list[Captured]:
    """The screens that no change may make idle."""
    return [one for one in corpus() if one.must_not_be_idle]


def _became_idle(one: Captured, trials: int) -> tuple[Counter[str], list[str]]:
    """How many mutations were tried for each kept evidence, and which of them look idle."""
    screen, profile = one.capture.screen, PROFILES[one.capture.harness]
    blocking = [found for found in classify(screen, profile).evidence if found.vote is not PresenceState.IDLE]
    tried: Counter[str] = Counter()
    wrong = []
    for number in range(trials):
        kept = blocking[number % len(blocking)]
        mutant = mutated(screen, kept_for(screen, profile, kept), Random(f"{one.name} {number}"))
        tried[kept.rule] += 1
        if classify(mutant, profile).state is PresenceState.IDLE:
            wrong.append(f"{one.name} mutation {number} keeping {kept.rule}")
    return tried, wrong


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_blocks_goes_on_blocking_whatever_else_changes(
    harness: str, record_property: Callable[[str, object], None]
) -> None:
    """Any veto wins; transcripts quote prompts and approval words, titles carry a user's text."""
    screens = [one for one in captures_of(harness) if one.must_not_be_idle]

    assert screens
    assert [wrong for one in screens for wrong in _became_idle(one, QUICK)[1]] == []
    record_property("trials", len(screens))


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_two_hundred_thousand_mutations_of_the_screens_that_are_not_idle_stay_so(
    record_property: Callable[[str, object], None],
) -> None:
    """Presence one can trust: from every non-idle capture hundreds of mutations, 0 become idle."""
    kept: Counter[str] = Counter()
    wrong: list[str] = []
    for one in not_idle():
        tried, bad = _became_idle(one, FULL)
        kept += tried
        wrong += bad

    record_property("trials", kept.total())
    print(f"\n{kept.total()} mutations of {len(not_idle())} screens, {len(wrong)} became idle; kept alone:")
    print("\n".join(f"  {rule:<32}{count:>7}" for rule, count in kept.most_common()))
    assert wrong == []
    assert kept.total() >= AT_LEAST


@pytest.mark.parametrize("harness", HARNESSES)
def test_words_quoted_in_the_transcript_do_not_stop_a_wake(
    harness: str, record_property: Callable[[str, object], None]
) -> None:
    """Regions are found from the cursor outward; the transcript is none of them."""
    below_a_transcript = [one for one in captures_of(harness) if one.must_be_idle and one.capture.screen.cursor_y > 2]

    assert below_a_transcript
    for one in below_a_transcript:
        screen, profile = one.capture.screen, PROFILES[one.capture.harness]
        random = Random(one.name)
        states = {classify(_quoted(screen, one, random), profile).state for _ in range(QUICK)}
        assert states == {PresenceState.IDLE}, one.name
    record_property("trials", len(below_a_transcript))


def _quoted(screen: Screen, one: Captured, random: Random) -> Screen:
    """A taller pane whose upper rows quote what blocks elsewhere, indented as every harness indents an answer."""
    count = random.randint(1, 10)
    composer = find_composer(screen, PROFILES[one.capture.harness].composer)
    first = max(0, (composer.first if composer else 0) - NEAREST)
    shift = count - first
    return replace(
        screen,
        rows=(*(_answer(random) for _ in range(count)), *screen.rows[first:]),
        height=screen.height + shift,
        cursor_y=screen.cursor_y + shift if screen.cursor_y >= first else screen.cursor_y,
    )


def _answer(random: Random) -> Row:
    quoted = random.choice(not_idle()).capture.screen
    row = random.choice([row for row in quoted.rows if row.text.strip()])
    return Row((("     ", row.runs[0][1]), *row.runs))


def test_a_title_alone_never_makes_a_busy_screen_idle() -> None:
    """A title proves nothing where a rule beside the composer says that a turn runs."""
    seen = 0
    for one in not_idle():
        screen, profile = one.capture.screen, PROFILES[one.capture.harness]
        beside = [found for found in classify(screen, profile).evidence if found.region != "title"]
        for title in Random(one.name).sample(TITLES, TITLES_OF_EACH) if beside else ():
            assert classify(replace(screen, title=title), profile).state is not PresenceState.IDLE, (one.name, title)
            seen += 1
    assert seen > 1000
