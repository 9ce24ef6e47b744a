from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import (
    Screen,
    classify,
    composer_is_empty,
    holds_only,
    load_capture,
    load_profiles,
    mark_in_transcript,
)

CAPTURES = Path(__file__).parents[1] / "screens" / "captures"
PROFILES = load_profiles()
TWO_LINES = "first line of draft\nsecond line"
LONG = (
    '[WAKE] 3 events for @neo-gpt: 2 new messages (latest: "A rather long subject that fills some rows of the composer" '
    "from someone); 1 task transition (latest: Submitted to Working on task MESSAGE:abc), and more words so that it does "
    "not fit into the rows there are, and yet more words, and a few more words until the first row is out of sight, which "
    "takes a while in eighty columns, so here are some more of them, words that is, nothing but words, and then it should "
    "be enough\nAutomated notice, not your user. Read: wake-bridge inbox @neo-gpt --bodies --consume\n"
    "Subscription: WAKE_SUB:xyz (+1)   Window: 31s   Wake: 01K3Z5Q8X9ABCDEFGHJKMNPQRS"
)


def _screen(harness: str, stem: str) -> Screen:
    return load_capture(CAPTURES / harness / f"{stem}.json")


@pytest.mark.parametrize(
    ("harness", "stem", "text"),
    [
        ("claude", "typing-multiline.80x24", TWO_LINES),
        ("claude", "typing-multiline.50x20", TWO_LINES),
        ("claude", "typing-cjk-emoji.80x24", "請看這個檔案 🚀👍 café"),
        ("claude", "typing-single.200x50", "please look at the fi"),
        ("claude", "typing-scrolled.80x24", LONG),
        ("codex", "typing-multiline.50x20", TWO_LINES),
        ("codex", "typing-cjk-emoji.200x50", "請看這個檔案 🚀👍 café"),
        ("fake", "typing-cjk-emoji.50x20", "請看這個檔案 🚀👍 café"),
    ],
)
def test_our_text_alone_in_the_composer_is_known(harness: str, stem: str, text: str) -> None:
    """Our mark in the composer and nothing else, however the harness wraps it."""
    screen = _screen(harness, stem)

    assert holds_only(screen, PROFILES[harness], text)
    assert not composer_is_empty(screen, PROFILES[harness])


@pytest.mark.parametrize(
    "text",
    [
        "irst line of draft\nsecond line",
        "first line of draft",
        "second line",
        "first line of draft\nsecond lines",
        "first line of draft\nsecond line!",
        "",
        " \n",
    ],
)
@pytest.mark.parametrize("harness", ["claude", "codex"])
def test_one_character_more_or_less_is_not_our_text(harness: str, text: str) -> None:
    """Nothing else may stand in the composer, before or behind."""
    assert not holds_only(_screen(harness, "typing-multiline.50x20"), PROFILES[harness], text)


@pytest.mark.parametrize("harness", ["claude", "codex"])
@pytest.mark.parametrize(("right", "down"), [(1, 0), (-1, 0), (0, -1), (-11, 1)])
def test_a_cursor_elsewhere_than_behind_our_text_tells_of_a_person(harness: str, right: int, down: int) -> None:
    """A blank or newline typed behind the text shows in the cursor alone."""
    screen = _screen(harness, "typing-multiline.50x20")
    moved = replace(screen, cursor_x=screen.cursor_x + right, cursor_y=screen.cursor_y + down)

    assert not holds_only(moved, PROFILES[harness], TWO_LINES)


def test_a_text_taller_than_the_composer_is_known_by_its_end_and_by_the_rows_out_of_sight() -> None:
    """Small panes scroll the composer; more rows out of sight than ours takes are not all ours."""
    screen = _screen("claude", "typing-scrolled.80x24")
    claude = PROFILES["claude"]

    assert classify(screen, claude).composer == "draft"
    assert not holds_only(screen, claude, LONG[150:])
    assert not holds_only(screen, claude, LONG + "x")
    assert not holds_only(screen, claude, "x".join(LONG.rsplit("31s", 1)))


def test_a_chip_stands_for_our_paste_only_with_the_right_number_of_lines() -> None:
    """Our mark, or the harness's paste chip."""
    claude = _screen("claude", "typing-pasted-30-lines.80x24")
    fake = _screen("fake", "typing-chip.80x24")
    lines = [f"pasted line {number}" for number in range(30)]

    assert holds_only(claude, PROFILES["claude"], "\n".join(lines))
    assert not holds_only(claude, PROFILES["claude"], "\n".join(lines[:-1]))
    assert holds_only(fake, PROFILES["fake"], "\n".join(lines[:14]))
    assert not holds_only(replace(fake, cursor_x=fake.cursor_x + 1), PROFILES["fake"], "\n".join(lines[:14]))


@pytest.mark.parametrize(
    ("harness", "stem"),
    [
        ("claude", "bang-mode.80x24"),
        ("claude", "approval-shell.80x24"),
        ("codex", "bang-mode.80x24"),
        ("codex", "approval-shell.80x24"),
        ("fake", "approval.80x24"),
        ("fake", "shell.80x24"),
    ],
)
def test_shell_mode_and_dialogs_hold_nothing_of_ours(harness: str, stem: str) -> None:
    """No `!` glyph, no dialog; a composer that vanished means that a dialog came up."""
    screen = _screen(harness, stem)

    assert not holds_only(screen, PROFILES[harness], "anything")
    assert not composer_is_empty(screen, PROFILES[harness])


def test_the_obstacles_of_a_reading_leave_our_own_draft_out() -> None:
    """A key is sent only when nothing but our own text speaks against it."""
    draft = classify(_screen("claude", "typing-single.80x24"), PROFILES["claude"])
    busy = classify(_screen("claude", "active-typing.80x24"), PROFILES["claude"])
    shell = classify(_screen("claude", "bang-mode.80x24"), PROFILES["claude"])

    assert draft.obstacles == ()
    assert "title-spinner" in {one.rule for one in busy.obstacles}
    assert "shell-mode" in {one.rule for one in shell.obstacles}


def test_a_mark_above_the_composer_is_found_though_wrapped_and_framed() -> None:
    """The mark in the transcript proves that the text has left the composer."""
    rule = "─" * 30
    ansi = f"│ Wake: 01K3Z5Q8X9ABCDEFGHJK │\n│ MNPQRS                     │\n{rule}\n➤ \n{rule}\n ?"
    screen = Screen.parse(ansi, width=30, height=8, cursor_x=2, cursor_y=3, cursor_visible=True)

    assert mark_in_transcript(screen, PROFILES["fake"], "01K3Z5Q8X9ABCDEFGHJKMNPQRS")
    assert not mark_in_transcript(screen, PROFILES["fake"], "01K3Z5Q8X9ABCDEFGHJKMNPQRX")
    assert not mark_in_transcript(screen, PROFILES["fake"], "")


def test_a_mark_is_found_where_the_prompt_stands_before_every_row() -> None:
    """Aider shows what was submitted with its prompt before wrapped rows, too."""
    rule = "─" * 30
    ansi = f"> Wake: 01K3Z5Q8X9ABCDEFGHJKMN\n> PQRS\n\nHello\n{rule}\n> "
    screen = Screen.parse(ansi, width=30, height=8, cursor_x=2, cursor_y=5, cursor_visible=True)

    assert mark_in_transcript(screen, PROFILES["aider"], "01K3Z5Q8X9ABCDEFGHJKMNPQRS")
    assert not mark_in_transcript(screen, PROFILES["aider"], "01K3Z5Q8X9ABCDEFGHJKMNPQRX")


def test_a_mark_in_the_composer_is_no_mark_in_the_transcript() -> None:
    """Text that still stands in the composer was not submitted."""
    screen = _screen("claude", "typing-scrolled.80x24")

    assert not mark_in_transcript(screen, PROFILES["claude"], "01K3Z5Q8X9ABCDEFGHJKMNPQRS")


def test_a_mark_on_a_screen_without_composer_counts_only_where_a_rule_knows_the_screen() -> None:
    """An unknown screen may hide the composer with our text still in it."""
    mark = "01K3Z5Q8X9ABCDEFGHJKMNPQRS"
    dialog = f"➤ Wake: {mark}\n Allow this command?\n ▸ 1. Yes\n enter confirm · esc cancel"
    menu = f"➤ Wake: {mark}\n Select a pace\n ▸ 1. Fast\n enter select · esc back"

    def look(ansi: str) -> Screen:
        return Screen.parse(ansi, width=60, height=8, cursor_x=59, cursor_y=7, cursor_visible=False)

    assert mark_in_transcript(look(dialog), PROFILES["fake"], mark)
    assert not mark_in_transcript(look(menu), PROFILES["fake"], mark)
