from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import Profile, Reading, Screen, classify, load_profiles, read_capture
from wake_bridge_adapters.screens.profile_file import checked

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import PresenceState

CAPTURES = Path(__file__).parents[1] / "screens" / "captures"

FRAMED = """
name = "framed"
recognise = { commands = "framed" }
composer = { glyph = "> ", frame = "rules" }
"""
BOXED = """
name = "boxed"
recognise = { commands = "boxed" }
[composer]
glyph = "┃  "
column = [2, 3]
frame = "box"
border = "┃"
padding = 1
label_rows = 1
[composer.placeholder]
patterns = ['Ask anything… ".*"']
style = { fg = "8" }
[[rules]]
name = "shell-mode"
state = "userTyping"
region = "label"
contains = "Shell"
"""
LINE = """
name = "line"
recognise = { commands = "line" }
[composer]
glyph = ["> ", "diff> "]
column = 0
frame = "none"
cursor_visible = true
[[idle]]
name = "prompt-is-last"
region = "below"
regex = '\\A\\s*\\Z'
[[rules]]
name = "answering"
state = "active"
region = "cursor"
contains = "hidden"
[[rules]]
name = "question"
state = "waitingOnApproval"
region = "last"
regex = '\\(Y\\)es/\\(N\\)o.*: ?$'
"""
OWN_CURSOR = """
name = "owncursor"
recognise = { commands = "owncursor" }
[composer]
glyph = "> "
frame = "rules"
anchor = "reversed"
[composer.placeholder]
strings = "  Type your message or @path/to/file"
style = { fg = "103" }
required = true
[[rules]]
name = "spinner"
state = "active"
region = "above"
rows = 3
contains = "esc to cancel)"
[[rules]]
name = "greeting"
state = "unknown"
region = "above"
contains = "welcome"
not = "returning"
"""


def _profile(toml: str) -> Profile:
    return checked(tomllib.loads(toml))


def _screen(ansi: str, cursor: tuple[int, int], *, visible: bool = True, title: str = "", width: int = 40) -> Screen:
    return Screen.parse(
        ansi, width=width, height=12, cursor_x=cursor[0], cursor_y=cursor[1], cursor_visible=visible, title=title
    )


RULE = "─" * 40


@pytest.mark.parametrize(
    ("ansi", "cursor", "composer"),
    [
        (f"old\n{RULE}\n> \n{RULE}\nfoot", (2, 2), "empty"),
        (f"old\n──── a name {RULE[:27]}─\n> \n{RULE}\nfoot", (2, 2), "empty"),
        (f"old\n{RULE}\n> text\n{RULE}\nfoot", (6, 2), "draft"),
        (f"old\n{RULE}\n> \n  text below\n{RULE}\nfoot", (2, 2), "draft"),
        (f"old\n{RULE}\n> \n{RULE}\nfoot", (4, 2), "draft"),
        (f"{RULE}\n> \n{RULE}\n 1. Yes\nfoot", (1, 3), "absent"),
        (f"{RULE}\n❯ 1. Yes\n{RULE}\nfoot", (2, 1), "absent"),
        (f"{RULE}\nquestion?\n> 1. Yes\n{RULE}", (2, 2), "absent"),
        (f"old\n{RULE[:20]}\n> \n{RULE[:20]}", (2, 2), "absent"),
        ("old\n> \nfoot", (2, 1), "absent"),
    ],
)
def test_a_composer_between_rules_is_found_from_the_cursor(ansi: str, cursor: tuple[int, int], composer: str) -> None:
    """Glyph and frame decide, the whole box must be blank, and the cursor must be in it."""
    assert classify(_screen(ansi, cursor), _profile(FRAMED)).composer == composer


@pytest.mark.parametrize(
    ("rows", "cursor", "composer", "state"),
    [
        (["", "", "", "Build · Model"], (5, 2), "empty", PresenceState.IDLE),
        (["", '\x1b[38;5;8mAsk anything… "Fix it"\x1b[39m', "", "Build · Model"], (5, 2), "placeholder", "idle"),
        (["", 'Ask anything… "Fix it"', "", "Build · Model"], (5, 2), "draft", "userTyping"),
        (["", "", "late", "", "Build · Model"], (5, 2), "draft", "userTyping"),
        (["", "", "", "Shell"], (5, 2), "empty", "userTyping"),
    ],
)
def test_a_composer_with_a_border_at_its_left_ends_before_its_label(
    rows: list[str], cursor: tuple[int, int], composer: str, state: str
) -> None:
    """Frames are data; a box has padding above and a label below its text."""
    ansi = "answer\n" + "\n".join(f"  ┃  {row}".rstrip() for row in rows) + "\n  ╹▀▀▀▀"

    reading = classify(_screen(ansi, cursor), _profile(BOXED))

    assert (reading.composer, reading.state) == (composer, state)


@pytest.mark.parametrize(
    ("ansi", "cursor", "visible", "state"),
    [
        ("> old question\n\nanswer\nfile.txt\ndiff> ", (6, 4), True, "idle"),
        ("> old question\n\nanswer\n> ", (2, 3), True, "idle"),
        ("> old question\n\nanswer so far", (13, 2), False, "active"),
        ("> old question\n\nanswer so far", (13, 2), True, "unknown"),
        ("Run it? (Y)es/(N)o [Yes]: ", (26, 0), True, "waitingOnApproval"),
        ("> half a thought", (16, 0), True, "userTyping"),
        ("> \n /add /drop", (2, 0), True, "userTyping"),
        ("> \n\nmenu below", (2, 0), True, "unknown"),
    ],
)
def test_a_line_editor_is_idle_on_the_last_row_alone(
    ansi: str, cursor: tuple[int, int], visible: bool, state: str
) -> None:
    """Without a frame, glyph, cursor and position must all speak for idle."""
    assert classify(_screen(ansi, cursor, visible=visible), _profile(LINE)).state == state


@pytest.mark.parametrize(
    ("above", "inside", "state"),
    [
        ("", "> \x1b[7m \x1b[0;38;5;103m Type your message or @path/to/file\x1b[0m", "idle"),
        ("", "> \x1b[7mT\x1b[0mype your message or @path/to/file", "userTyping"),
        ("", "> abc\x1b[7m \x1b[0m", "userTyping"),
        ("", ">   \x1b[7m \x1b[0m", "userTyping"),
        (
            "⠸ thinking (7s · esc to\n   cancel)",
            "> \x1b[7m \x1b[0;38;5;103m Type your message or @path/to/file\x1b[0m",
            "active",
        ),
        ("welcome", "> \x1b[7m \x1b[0;38;5;103m Type your message or @path/to/file\x1b[0m", "unknown"),
        ("welcome, returning friend", "> \x1b[7m \x1b[0;38;5;103m Type your message or @path/to/file\x1b[0m", "idle"),
    ],
)
def test_a_harness_that_draws_its_own_cursor_is_read_by_it(above: str, inside: str, state: str) -> None:
    """Where the terminal's cursor is parked elsewhere, the reversed cell counts; wrapped words are found."""
    ansi = f"{above}\n{RULE}\n{inside}\n\x1b[0m{RULE}\nfoot"

    assert classify(_screen(ansi, (0, 11), visible=False), _profile(OWN_CURSOR)).state == state


@pytest.mark.parametrize(
    ("inside", "cursor", "state"),
    [
        ("> \x1b[7m \x1b[0m", (0, 0), "idle"),
        ("> ", (0, 0), "idle"),
        ("> ", (2, 2), "idle"),
        ("> ", (5, 2), "userTyping"),
        (">    \x1b[7m \x1b[0m", (0, 0), "userTyping"),
        ("> text", (0, 0), "userTyping"),
    ],
)
def test_where_the_cursor_may_be_anywhere_the_last_box_is_the_composer(
    inside: str, cursor: tuple[int, int], state: str
) -> None:
    """A cursor parked elsewhere hides blanks, so that a drawn one counts where it shows."""
    ansi = f"{RULE}\n{RULE}\n{inside}\n\n\x1b[0m{RULE}\nfoot"
    toml = FRAMED.replace('frame = "rules"', 'frame = "rules", anchor = "bottom", footer = "foot"')

    assert classify(_screen(ansi, cursor, visible=False), _profile(toml)).state == state


@pytest.mark.parametrize(
    ("flag", "value", "hold"),
    [
        ("pane_in_mode", "1", HoldReason.COPY_MODE),
        ("pane_dead", "1", HoldReason.PANE_DEAD),
        ("pane_input_off", "1", HoldReason.INPUT_OFF),
    ],
)
def test_what_tmux_says_of_the_pane_outranks_its_screen(flag: str, value: str, hold: HoldReason) -> None:
    """Copy mode, a dead pane and switched-off input are vetoes with their own reason."""
    screen = Screen.parse(
        f"{RULE}\n> \n{RULE}", width=40, height=12, cursor_x=2, cursor_y=1, cursor_visible=True, flags={flag: value}
    )

    reading = classify(screen, _profile(FRAMED))

    assert reading.state is PresenceState.UNKNOWN
    assert reading.evidence[0].hold is hold
    assert classify(_screen(f"{RULE}\n> \n{RULE}", (2, 1)), _profile(FRAMED)).state is PresenceState.IDLE


def test_the_more_important_rule_is_named_first() -> None:
    """Rules have a priority; `presence --explain` shows what decided."""
    toml = FRAMED + "".join(
        f'[[rules]]\nname = "{name}"\nstate = "active"\nregion = "title"\ncontains = "x"\npriority = {priority}\n'
        for name, priority in (("low", 0), ("high", 5))
    )

    reading = classify(_screen(f"{RULE}\n> \n{RULE}", (2, 1), title="x"), _profile(toml))

    assert [one.rule for one in reading.evidence] == ["high", "low"]
    assert reading.rule == "high"


def test_dialog_words_count_at_the_bottom_and_only_without_a_composer() -> None:
    """Transcripts quote approval words; never a search of the whole screen."""
    toml = FRAMED + '[[rules]]\nname = "ask"\nstate = "waitingOnApproval"\nregion = "bottom"\ncontains = "Proceed?"\n'

    dialog = classify(_screen("talk\nProceed?\n 1. Yes", (0, 2)), _profile(toml))
    quoted = classify(_screen(f"Proceed?\n{RULE}\n> \n{RULE}\nProceed?", (2, 2)), _profile(toml))

    assert dialog.state is PresenceState.WAITING_ON_APPROVAL
    assert quoted.state is PresenceState.IDLE


def test_evidence_says_which_rule_saw_what_and_where() -> None:
    """`presence --explain`: evidence is source, rule, region, saw, vote."""
    capture = read_capture(CAPTURES / "claude" / "active-streaming.80x24.json")

    evidence = {one.rule: one for one in classify(capture.screen, load_profiles()["claude"]).evidence}

    assert (evidence["title-spinner"].region, evidence["title-spinner"].saw) == ("title", "◐")
    assert evidence["glyph-grey"].vote is PresenceState.ACTIVE
    assert evidence["footer-interrupt"].saw.endswith("esc to interrupt")


@pytest.mark.parametrize(
    ("harness", "stem", "sight"),
    [
        ("qwen", "idle-empty.80x24", "Type your message or"),
        ("qwen", "v0.24.4-idle-empty.80x24", ""),
        ("qwen", "v0.24.4-unfocused-idle.80x24", "Type your message or"),
        ("gemini", "unfocused-idle.80x24", "Type your message or"),
        ("gemini", "idle-empty.80x24", ""),
        ("qwen", "typing-single.80x24", ""),
        ("codex", "idle-empty.80x24", ""),
    ],
)
def test_where_the_terminals_cursor_is_parked_the_placeholder_is_what_a_condition_can_see(
    harness: str, stem: str, sight: str
) -> None:
    """Where a harness parks the real cursor elsewhere, the placeholder's presence by `#{C:…}`."""
    capture = read_capture(CAPTURES / harness / f"{stem}.json")

    assert classify(capture.screen, load_profiles()[harness]).sight == sight


SCROLLING = """
name = "scrolling"
recognise = { commands = "scrolling" }
composer = { glyph = "> ", frame = "rules" }
[[rules]]
name = "scrolled"
state = "unknown"
region = "pill"
regex = '^ Jump to bottom'
[[rules]]
name = "scrolled"
state = "unknown"
region = "scrollbar"
rows = 2
regex = '.'
style = { bg = "0" }
"""


@pytest.mark.parametrize(
    ("row", "is_scrolled"),
    [
        ("\x1b[m           \x1b[48;5;237m Jump to bottom ↓\x1b[m", True),
        ("\x1b[m  words\x1b[m    \x1b[48;5;237m Jump to bottom ↓ \x1b[mwords", True),
        ("\x1b[m            Jump to bottom ↓", False),
        ("\x1b[48;5;237m            Jump to bottom ↓\x1b[m", False),
        ("\x1b[48;5;237m           \x1b[38;5;231m Jump to bottom ↓\x1b[m", False),
        ("\x1b[m     \x1b[48;5;237m Jump to bottom ↓\x1b[m", False),
        ("\x1b[m  I see\x1b[m    \x1b[48;5;237mJump to bottom\x1b[m", False),
    ],
)
def test_a_label_over_the_transcript_holds_and_its_words_in_a_message_do_not(row: str, is_scrolled: bool) -> None:
    """A reader who has scrolled up is not idle; the same words quoted, coloured or not, stop no wake."""
    reading = _read_below(row)

    assert reading.state is (PresenceState.UNKNOWN if is_scrolled else PresenceState.IDLE)
    assert (reading.rule == "scrolled") is is_scrolled


@pytest.mark.parametrize(
    ("cell", "is_scrolled"),
    [
        ("\x1b[40m ", True),
        ("\x1b[40m", True),
        ("\x1b[34;40m▅", True),
        ("\x1b[7;34m ", False),
        ("\x1b[7;34m", False),
        ("", False),
        (" ", False),
    ],
)
def test_a_scroll_bar_whose_thumb_has_not_reached_the_end_holds(cell: str, is_scrolled: bool) -> None:
    """The last column is read as it looks, blanks that tmux has dropped among them."""
    reading = _read_below(f"\x1b[m{'words':<39}{cell}" if cell else "words")

    assert reading.state is (PresenceState.UNKNOWN if is_scrolled else PresenceState.IDLE)


def _read_below(row: str) -> Reading:
    """A screen of 40 columns whose transcript ends with that row, and a blank one."""
    rule = "─" * 40
    ansi = f"words\n{row}\n\x1b[m\n{rule}\n> \n{rule}"
    screen = Screen.parse(ansi, width=40, height=6, cursor_x=2, cursor_y=4, cursor_visible=True)
    return classify(screen, checked(tomllib.loads(SCROLLING)))
