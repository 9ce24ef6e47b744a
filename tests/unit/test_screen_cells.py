from __future__ import annotations

import pytest
from wake_bridge_adapters.screens.screen import PLAIN, Row, Screen, Style, after_sgr, text_width


def _screen(ansi: str, width: int = 20, height: int = 5) -> Screen:
    return Screen.parse(ansi, width=width, height=height, cursor_x=0, cursor_y=0, cursor_visible=True)


def test_a_style_runs_on_across_row_ends() -> None:
    """SGR state runs across rows in `capture-pane -e`; a parser that resets per row mis-colours boxes."""
    screen = _screen("\x1b[38;5;246mgrey\nstill grey\x1b[39m plain")

    assert [style.fg for _, style in screen.row(1).styles(0, 5)] == ["246"] * 5
    assert next(iter(screen.row(1).styles(11)))[1] == PLAIN


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("", PLAIN),
        ("0;2", Style(dim=True)),
        ("1;38;5;208", Style(bold=True, fg="208")),
        ("38;2;80;80;80", Style(fg="#505050")),
        ("38:2::1:2:255", Style(fg="#0102ff")),
        ("31;102", Style(fg="1", bg="10")),
        ("94;47", Style(fg="12", bg="7")),
        ("7;4:3", Style(reverse=True, underline=True)),
        ("58;5;1", PLAIN),
        ("99;x", PLAIN),
    ],
)
def test_every_form_of_colour_is_understood(parameters: str, style: Style) -> None:
    """Placeholder and draft are told apart by style, whichever way the terminal spells it."""
    assert after_sgr(PLAIN, parameters) == style


def test_switching_off_leaves_the_rest_on() -> None:
    """`22` ends dim and bold, `39` the colour alone."""
    style = after_sgr(after_sgr(PLAIN, "1;2;7;33"), "22")

    assert style == Style(reverse=True, fg="3")
    assert after_sgr(style, "39;27") == PLAIN


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("請看", 4),
        ("🚀👍", 4),
        ("cafe\u0301", 4),
        ("⚠\ufe0f", 1),
        ("👨\u200d👩\u200d👧", 2),
        ("👍🏽", 4),
        ("a\u200bb", 2),
        ("a\xadb", 3),
        ("\u1112\u1161\u11ab", 2),
        ("❯\xa0", 2),
        ("ｱＡ", 3),
    ],
)
def test_characters_are_as_wide_as_tmux_makes_them(text: str, width: int) -> None:
    """Columns must match `cursor_x`; the widths were measured in tmux 3.3a."""
    assert text_width(text) == width
    assert Row(((text, PLAIN),)).columns[-1] == width


def test_a_position_in_columns_finds_its_character_behind_wide_ones() -> None:
    """Regions are cut by column, not by character."""
    row = Row((("請看 abc", PLAIN),))

    assert row.from_column(5) == "abc"
    assert row.end == 8


def test_blanks_that_tmux_dropped_still_stand_at_a_row_end() -> None:
    """`› ` with nothing behind it is captured as `›`."""
    assert Row((("›", PLAIN),)).starts_at(0, "› ")
    assert not Row((("›", PLAIN),)).starts_at(0, "›\xa0")
    assert not Row((("›x", PLAIN),)).starts_at(0, "› ")


def test_a_software_cursor_is_found_even_when_its_blank_was_dropped() -> None:
    """Where a harness draws its own cursor, the reversed cell is the one that counts."""
    screen = _screen("> \x1b[7m \x1b[0mplaceholder\n❯\xa0\x1b[7m\n\x1b[0mplain\nab\x1b[7mc\x1b[0md")

    assert [screen.row(number).last_reversed() for number in range(4)] == [2, 2, None, 2]


def test_links_and_line_drawing_are_no_text() -> None:
    """`capture-pane -e` also prints hyperlinks and the alternate character set."""
    screen = _screen("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ \x0eqqx\x0f!")

    assert screen.row(0).text == "link ──│!"


def test_rows_below_the_last_text_are_empty() -> None:
    """Captures drop empty rows at the end; the cursor may stand in one."""
    screen = _screen("one\n\ntwo", height=24)

    assert screen.last_text_row == 2
    assert screen.is_blank(23)
    assert not screen.row(23).text
