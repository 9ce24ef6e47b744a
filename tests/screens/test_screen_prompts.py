"""What an agent leaves behind when it dies is no agent: a shell's prompt stands in each captured idle screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import pytest
from wake_bridge_adapters.screens import Screen, classify
from wake_bridge_adapters.screens.screen import PLAIN, Row, Style, character_width

from tests.screens.corpus import HARNESSES, PROFILES, Captured, captures_of, corpus
from wake_bridge.domain.presence import PresenceState

PROMPTS = ("$ ", "# ", "% ", "> ", "❯ ", "› ", ">>> ", "me@box:~/proj$ ", "➜  proj git:(main) ✗ ", "~/proj main\n❯ ")
"""Of bash, dash, zsh, fish, Python, and what people set up; some are what a harness draws before its own composer."""

LAST_WORDS = (
    "",
    "\n",
    "Killed\n",
    "^C\n",
    "[1]+  Stopped                 agent\n",
    "Segmentation fault (core dumped)\n",
)
"""What the terminal or the shell prints first."""


def printed(screen: Screen, text: str) -> Screen:
    """The screen after a program printed plain text where the cursor stands."""
    rows = [_cells(screen.row(number), screen.width) for number in range(screen.height)]
    x, y = screen.cursor_x, screen.cursor_y
    for character in text:
        if character == "\n" or x + character_width(character) > screen.width:
            x, y = 0, y + 1
        if y == screen.height:
            rows, y = [*rows[1:], [(" ", PLAIN)] * screen.width], y - 1
        if character != "\n":
            rows[y][x] = (character, PLAIN)
            x += 1
    drawn = tuple(Row(_runs(row)) for row in rows)
    return replace(screen, rows=drawn, cursor_x=x, cursor_y=y, cursor_visible=True)


def _cells(row: Row, width: int) -> list[tuple[str, Style]]:
    """A cell for each column; a character of two columns is followed by an empty one."""
    cells = [
        cell
        for run, style in row.runs
        for character in run
        for cell in [(character, style), *[("", style)] * (character_width(character) - 1)]
        if character_width(character)
    ]
    return [*cells, *[(" ", PLAIN)] * (width - len(cells))]


def _runs(cells: list[tuple[str, Style]]) -> tuple[tuple[str, Style], ...]:
    runs = [("".join(text for text, _ in same), style) for style, same in groupby(cells, lambda cell: cell[1])]
    while runs and runs[-1][1] == PLAIN and not runs[-1][0].strip():
        runs.pop()
    return tuple(
        (text.rstrip() if number + 1 == len(runs) else text, style) for number, (text, style) in enumerate(runs)
    )


CASES = [last_word + prompt for last_word in LAST_WORDS for prompt in PROMPTS]
QUICK = 3
"""Of them for each screen, other ones for each."""


def still_idle(one: Captured, cases: list[str]) -> list[str]:
    """Those after which the screen is taken for idle; as it was captured it must be."""
    screen, profile = one.capture.screen, PROFILES[one.capture.harness]
    assert classify(screen, profile).state is PresenceState.IDLE
    return [
        f"{one.name}: {case!r}"
        for case in cases
        if classify(printed(screen, case), profile).state is PresenceState.IDLE
    ]


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_prompt_in_a_screen_that_was_left_idle_is_never_idle(harness: str) -> None:
    """Behind some carriers the screen alone tells that a shell has the terminal."""
    idle = [one for one in captures_of(harness) if one.must_be_idle]

    chosen = [[CASES[(number * QUICK + step) % len(CASES)] for step in range(QUICK)] for number in range(len(idle))]
    assert [wrong for one, cases in zip(idle, chosen, strict=True) for wrong in still_idle(one, cases)] == []


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_no_prompt_in_any_screen_that_was_left_idle_is_idle(record_property: Callable[[str, object], None]) -> None:
    """The same with all of them."""
    idle = [one for one in corpus() if one.must_be_idle]

    assert [wrong for one in idle for wrong in still_idle(one, CASES)] == []
    record_property("trials", len(idle) * len(CASES))


def test_what_is_printed_stands_where_the_cursor_was() -> None:
    """So the prompt is what makes the difference, not the drawing of it."""
    screen = next(one.capture.screen for one in corpus() if one.must_be_idle and one.capture.harness == "claude")

    assert printed(screen, "") == replace(screen, rows=printed(screen, "").rows, cursor_visible=True)
    assert [row.text.rstrip() for row in printed(screen, "").rows] == [
        screen.row(number).text.rstrip() for number in range(screen.height)
    ]
    after = printed(screen, "Killed\n$ ")
    assert after.row(after.cursor_y).text.startswith("$ ")
