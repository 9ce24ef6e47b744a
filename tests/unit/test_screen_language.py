from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import Profile, Screen, classify, recognise
from wake_bridge_adapters.screens.composer import find_composer
from wake_bridge_adapters.screens.profile_file import checked
from wake_bridge_adapters.screens.screen import PLAIN, Row, Style

from wake_bridge.domain.presence import PresenceState

PAGE = Path(__file__).parents[2] / "docs" / "profiles.md"
RULE = "─" * 40
IDLE = PresenceState.IDLE

BOXED = """
name = "boxed"
recognise = { commands = "boxed" }
composer = { glyph = "┃ ", frame = "box", border = "┃", foot = "╹▀", label_rows = 1 }
"""
EVERY = """
name = "every"
recognise = { commands = "every" }
composer = { glyph = ["> ", "ask> "], column = 0, frame = "none", every_row = true }
"""
BOTTOM = """
name = "bottom"
recognise = { commands = "bottom" }
[composer]
glyph = " > "
column = 0
frame = "none"
foot = "▀"
anchor = "bottom"
footer = '[^│]*'
[composer.placeholder]
strings = "  Say it"
style = { fg_not = "231" }
required = true
"""
RULES_BELOW = """
name = "below"
recognise = { commands = "below" }
composer = { glyph = "> ", frame = "rules", anchor = "bottom", footer = "foot", hidden_cursor_counts = false }
"""


def _profile(toml: str) -> Profile:
    return checked(tomllib.loads(toml))


def _screen(text: str, cursor: tuple[int, int] = (0, 0), *, visible: bool = True, title: str = "") -> Screen:
    return Screen.parse(
        text, width=40, height=14, cursor_x=cursor[0], cursor_y=cursor[1], cursor_visible=visible, title=title
    )


def test_the_worked_example_of_the_page_does_what_the_page_says() -> None:
    """docs/profiles.md: one worked example, and it works."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    answer = re.search(r"^    (.+?) +← row 9", page, re.MULTILINE)
    working = re.search(r"a row `(.+?)` stands", page)
    assert found is not None
    assert answer is not None
    assert working is not None
    quill = _profile(found[1])
    foot = Row(((" main · 12% context", PLAIN),))
    rule = Row(((RULE, PLAIN),))

    def shown(answer: str, *composer: tuple[str, Style], cursor_x: int = 2) -> Screen:
        rows = (Row(((answer, PLAIN),)), Row(()), rule, Row((("✎ ", PLAIN), *composer)), rule, foot)
        return Screen(rows, width=40, height=8, cursor_x=cursor_x, cursor_y=3, cursor_visible=True)

    words = ("What next?", Style(dim=True))
    dialog = _screen(f"Run it?\n → 1. Yes\n   2. No\n ↑↓ choose · enter confirm\n{RULE}", (1, 1))

    assert len([line for line in found[1].splitlines() if line.strip()]) <= 30
    assert classify(shown(working[1], words), quill).state is PresenceState.ACTIVE
    assert classify(shown(answer[1], words), quill).state is IDLE
    assert classify(shown(" done", ("What next?", PLAIN)), quill).state is PresenceState.USER_TYPING
    assert classify(shown(" done", cursor_x=5), quill).composer == "draft"
    assert classify(dialog, quill).state is PresenceState.WAITING_ON_APPROVAL
    assert recognise(["node", "/x/node_modules/@inkwell/quill/cli.js"], {"quill": quill}) == "quill"


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        (["  ┃ ", "  ┃ Build", "  ╹▀▀▀▀▀▀▀"], "idle"),
        (["  ┃         side note", "  ┃ Build", "  ╹▀▀▀▀▀▀▀"], "idle"),
        (["  ┃ text    side note", "  ┃ Build", "  ╹▀▀▀▀▀▀▀"], "userTyping"),
        (["  ┃ ", "  ┃ Build", ""], "unknown"),
        (["  ┃ ", "  ┃ Build", "╹▀▀▀▀▀▀▀"], "unknown"),
    ],
)
def test_a_box_is_the_composer_only_above_its_foot_and_only_as_wide(rows: list[str], state: str) -> None:
    """Frames are exact; messages and dialogs have the same border, and a sidebar is no draft."""
    reading = classify(_screen("\n".join(["  ┃ an older message", "", *rows]), (4, 2)), _profile(BOXED))

    assert reading.state == state


@pytest.mark.parametrize(
    ("text", "cursor", "held"),
    [
        ("────\n> ", (2, 1), ""),
        ("────\nask> ", (5, 1), ""),
        ("────\n> first\n> ", (2, 2), "first"),
        ("────\n> first\n> second", (8, 2), "first\nsecond"),
        ("────\n> \n> second", (2, 1), "second"),
    ],
)
def test_a_glyph_before_every_row_is_no_text_and_joins_the_rows(text: str, cursor: tuple[int, int], held: str) -> None:
    """The whole box must be blank; a bare prompt below a text is its second row."""
    reading = classify(_screen(text, cursor), _profile(EVERY))

    assert reading.composer_text == held
    assert reading.composer == ("draft" if held else "empty")


@pytest.mark.parametrize(
    ("text", "composer"),
    [
        (" > said before\n\nan answer\n >   Say it\n\nfooter", "placeholder"),
        (" > said before\n\nan answer\n▄▄▄▄\n >   Say it\n▀▀▀▀\nfooter", "placeholder"),
        (" > said before\n\nan answer\n > Say it\n\nfooter", "draft"),
        (" > said before\n\nan answer\n > \n\nfooter", "draft"),
        (" > said before\n\nan answer\n │ Really?", "absent"),
        (" >   Say it\n\nan answer\n │ Really?", "absent"),
    ],
)
def test_the_last_prompt_above_its_footer_is_the_composer_wherever_the_cursor_is(text: str, composer: str) -> None:
    """Without the focus some place no cursor; a prompt above a dialog stands in the transcript."""
    assert classify(_screen(text, (0, 12), visible=False), _profile(BOTTOM)).composer == composer


def test_typed_words_are_a_draft_though_they_are_those_of_the_placeholder() -> None:
    """Exact strings and style: `fg_not` names the colour of typed text, which no theme gives a placeholder."""
    shown = _screen("\x1b[38;5;8m >   Say it", (0, 12), visible=False)
    typed = _screen("\x1b[38;5;231m >   Say it", (0, 12), visible=False)

    assert classify(shown, _profile(BOTTOM)).composer == "placeholder"
    assert classify(typed, _profile(BOTTOM)).composer == "draft"


def test_a_cursor_that_is_hidden_says_nothing_where_the_profile_says_so() -> None:
    """Copilot leaves a hidden cursor at the start, whatever was typed."""
    text = f"{RULE}\n> some draft\n{RULE}\nfoot"
    profile = _profile(RULES_BELOW)

    hidden = find_composer(_screen(text, (2, 1), visible=False), profile.composer)
    shown = find_composer(_screen(text, (12, 1)), profile.composer)

    assert hidden is not None
    assert hidden.cursor is None
    assert shown is not None
    assert shown.cursor == (12, 1)


@pytest.mark.parametrize("across", ["──────│ Settings    │──────", "────── ╭ Settings ╮ ──────"])
def test_a_frame_drawn_across_a_rule_lies_over_the_composer(across: str) -> None:
    """An overlay takes the keys and leaves parts of the composer to be seen."""
    profile = _profile(RULES_BELOW)
    idle = f"{'─' * 26}\n> \n{'─' * 26}\nfoot"
    covered = f"{across}\n> \n{'─' * 26}\nfoot"

    assert classify(replace(_screen(idle, (2, 1)), width=26), profile).state is IDLE
    assert classify(replace(_screen(covered, (2, 1)), width=26), profile).composer == "absent"


def test_a_cursor_beside_the_text_of_an_empty_composer_is_a_redraw_and_no_draft() -> None:
    """Anything unknown holds; but nobody is said to type where a footer has just grown by a row."""
    profile = _profile(BOXED.replace("label_rows = 1", "padding = 1, label_rows = 1"))
    screen = _screen("  ┃ \n  ┃ \n  ┃ Build\n  ╹▀▀▀▀", (4, 0))

    reading = classify(screen, profile)

    assert (reading.state, reading.rule) == (PresenceState.UNKNOWN, "cursor-elsewhere")


@pytest.mark.parametrize(
    ("composer", "complaint"),
    [
        ('glyph = "> ", frame = "box", anchor = "bottom", footer = "x"', "finds a box by its `foot`"),
        ('glyph = "> ", frame = "rules", anchor = "bottom"', "needs a `footer`"),
        ('glyph = "> ", frame = "rules", footer = "x"', "and only it"),
        ('glyph = "> ", frame = "rules", foot = "x"', "has no `foot`"),
        ('glyph = "> ", frame = "rules", every_row = true', "without a frame"),
    ],
)
def test_words_that_do_not_go_together_are_refused(composer: str, complaint: str) -> None:
    """A schema error names what is wrong; a profile that means nothing never runs."""
    with pytest.raises(ValueError, match=complaint):
        _profile(f'name = "x"\nrecognise = {{ commands = "x" }}\ncomposer = {{ {composer} }}')
