from __future__ import annotations

import time
import unicodedata

import pytest

from wake_bridge.domain.text import harmless, name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", "plain words"),
        ("größer, 修正, ✓, 😀", "größer, 修正, ✓, 😀"),
        (
            '$(touch x) `id` ; #{pane_pid} #(id) ~/.x ${IFS} "quoted" \\',
            '$(touch x) `id` ; #{pane_pid} #(id) ~/.x ${IFS} "quoted" \\',
        ),
        ("e\u0301", "é"),
        ("one\r\ntwo\tthree\0four\x85five\u2028six\u2029seven\x0beight", "one two three four five six seven eight"),
        ("  wide \u00a0\u3000\u2003 gap  ", "wide gap"),
        ("bell\x07 back\x08space del\x7f c1\x80\x9f\x9b", "bell backspace del c1"),
        ("soft\u00adhyphen \u200bzero\u200c \u200dwidth\u2060\ufeff", "softhyphen zero width"),
        ("\u202egnp.exe\u202c \u2066x\u2069 \u200ey\u200f \u061cz", "gnp.exe x y z"),
        ("tags \U000e0001\U000e0068\U000e0069 gone", "tags gone"),
        ("a\U000e0100\U000e0158\ufe00\u034f\u115f\u3164\uffa0b", "ab"),
        ("private \ue000\U00100000 none \ufdd0\uffff\U0001ffff \ufff9x\ufffb", "private none x"),
        ("lone \ud800 and \udfff", "lone \ufffd and \ufffd"),
        ("❤\ufe0f\ufe0e\ufe0f\ufe0f", "❤\ufe0f"),
        ("mail @neo-gpt, read @README.md or a@b", "mail ＠neo-gpt, read ＠README.md or a＠b"),
        ("\u0301\u0302\ufe0f \u0301leading marks", "leading marks"),
        ("\u1fef\u037e", "`;"),
        ("", ""),
        (" \t\u200b\u0301 ", ""),
    ],
)
def test_what_nobody_sees_goes_and_what_is_read_stays(text: str, shown: str) -> None:
    """NFC; controls, bidi, zero-width and separators removed; lone surrogates and `@` replaced."""
    assert harmless(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("before\x1b[201~after", "beforeafter"),
        ("before\x1b[200~after", "beforeafter"),
        ("before\x9b201~after", "beforeafter"),
        ("before[201~after", "before after"),
        ("a\x1b[20\x1b[201~1~b", "a1~b"),
        ("a[20\x1b[m1~b", "a b"),
        ("a[20[201~1~b", "a[20 1~b"),
        ("a\x1b\u200b[20\u200b1~b", "a b"),
        ("a\x1b\x1b[201~b", "ab"),
        ("\x1b[1;31mred\x1b[0m alert\x1b(B", "red alert"),
        ("\x1b]0;title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "text link"),
        ("\x1bPq#0;2;0\x1b\\text", "text"),
        ("\x1b]52;c;never ended", "]52;c;never ended"),
        ("\x1b[31", ""),
        ("\x1bcreset", "creset"),
        ("“smart\x9d quotes\x93", "“smart quotes"),
    ],
)
def test_a_control_sequence_goes_whole_and_leaves_no_paste_end(text: str, shown: str) -> None:
    """Paste-end sequences are removed whole, also when a removal would make a new one meet."""
    assert harmless(text) == shown


def test_200_characters_stay_and_201_are_cut_to_200_with_an_ellipsis() -> None:
    """The subject is cut to 200 characters."""
    assert harmless("x" * 200) == "x" * 200
    assert harmless("x" * 201) == "x" * 199 + "…"
    assert harmless("x" * 198 + " yz") == "x" * 198 + "…"


@pytest.mark.parametrize(
    "grapheme",
    [
        "e\u0323\u0302\u0489",
        "👍🏽",
        "🇩🇪",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "क\u094d",
        "ก\u0e33",
        "ｶ\uff9e",
        "\u1100\ud7b0",
        "\uac00\u11f0",
        "\uac01\u11ff",
        "\u1100\u1100\u1161\u11ff",
    ],
)
def test_a_cut_never_parts_what_is_read_as_one_character(grapheme: str) -> None:
    """Cut on a grapheme: marks, skin tones, flags, keycaps and Hangul stay whole or go whole."""
    whole = unicodedata.normalize("NFC", grapheme)
    for limit in range(1, 40):
        for lead in ("", "x"):
            cut = harmless(lead + whole * 40, limit)
            assert len(cut) <= limit
            kept = cut.removesuffix("…").removeprefix(lead)
            assert kept == whole * (len(kept) // len(whole)), (limit, cut)


def test_marks_that_a_terminal_would_drop_are_dropped_before() -> None:
    """Our text stands alone only if the screen shows what was pasted; tmux keeps 21 bytes of a character."""
    assert (
        harmless("Z" + "\u0300\u0489" * 40 + "q\u0327\u0323") == "Z" + "\u0300\u0489" * 4 + "\u0300" + "q\u0327\u0323"
    )
    assert harmless("Z" + "\u0300\u0489" * 300) == "Z" + "\u0300\u0489" * 4 + "\u0300"


def test_one_grapheme_too_long_to_show_leaves_only_the_ellipsis() -> None:
    """A base under a mark is not cut in its middle."""
    assert harmless("Z\u0489\u0489\u0489 and more", 3) == "…"


def test_what_lies_behind_a_flood_of_hidden_characters_is_not_waited_for() -> None:
    """100 kB is bounded before it is looked at, and the reader is told that there was more."""
    assert harmless("start" + "\u200b" * 100_000 + "end") == "start…"


def test_the_bound_may_cut_a_sequence_but_no_part_of_it_survives() -> None:
    """Wherever the bound falls, neither an escape nor a paste end is left."""
    for lead in range(12_780, 12_810):
        shown = harmless("\u200b" * lead + "\x1b[201~ls\x1b[201~")
        assert shown in {"…", "l…", "ls…", "ls"}, lead


@pytest.mark.parametrize(
    "unit",
    [
        "\x1b]",
        "\x1b[",
        "\x1b[1;",
        "\x1bP",
        "\x1b ",
        "[20",
        "[201~",
        "\u0327\u0301",
        "\ud800",
        "\ufe0f",
        " ",
        "a",
        "\u1100",
        "🇩",
    ],
)
def test_a_hundred_kilobytes_of_anything_are_bounded_before_they_cost(unit: str) -> None:
    """No input makes the cleaning slow (2 ms each; composing 13,000 marks takes 80, composing all of them 5,000)."""
    text = "x" + unit * (100_000 // len(unit))
    started = time.process_time()
    shown = {harmless(text) for _ in range(30)}
    assert time.process_time() - started < 1
    assert {len(one) <= 200 for one in shown} == {True}


@pytest.mark.parametrize(
    ("login", "known", "shown"),
    [
        ("@neo-gpt", True, "@neo-gpt"),
        ("@neo-gpt", False, "＠neo-gpt"),
        ("@README.md", False, "＠README.md"),
        ("@etc/passwd", True, "＠etc/passwd"),
        ("@neo gpt\n", True, "＠neo gpt"),
        ("@" + "x" * 64, True, "@" + "x" * 64),
        ("@" + "x" * 65, True, "＠" + "x" * 63 + "…"),
        ("role:reviewer", True, "role:reviewer"),
        ("@n\u00e9o", True, "＠n\u00e9o"),
    ],
)
def test_only_a_known_identity_keeps_its_at_sign(login: str, known: bool, shown: str) -> None:
    """`@` before any name that is not an AgentIdentity node becomes `＠`."""
    assert name(login, known=known) == shown
