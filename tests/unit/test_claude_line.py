"""A digest on one line: what Claude Code makes an event of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from wake_bridge_adapters.claude_code.attempt import LONGEST, one_line

MARK = "01JZ8Q5T3VXKM2N4P6R8SAVCWD"
READ = "Automated notice, not your user. Read: wake-bridge inbox @agent --bodies --consume"


def digest(body: str = "- 1 new message") -> str:
    return f"[WAKE] 1 event for @agent:\n{body}\n{READ}\nSubscription: WAKE_SUB:1   Window: 0s   Wake: {MARK}"


def test_lines_become_one_and_nothing_is_lost() -> None:
    """A line is an event of its own: two would be two."""
    assert one_line(digest(), MARK) == digest().replace("\n", "   ")


def test_what_is_too_long_keeps_its_beginning_how_to_read_it_and_the_mark() -> None:
    """Measured: the harness cuts a line after 500 UTF-16 units, and with it the mark at its end."""
    line = one_line(digest("- " + "word " * 200), MARK)

    assert len(line) <= LONGEST
    assert line.startswith("[WAKE] 1 event for @agent:   - word")
    assert READ in line
    assert line.endswith(MARK)


def test_astral_letters_count_twice() -> None:
    """Measured: 250 rockets are whole, 251 are cut."""
    line = one_line(digest("- " + "🚀" * 400), MARK)

    assert len(line.encode("utf-16-le")) // 2 <= LONGEST
    assert line.endswith(MARK)


@given(st.text(max_size=2000))
def test_whatever_the_text_it_is_one_harmless_line_with_the_mark(text: str) -> None:
    """Nothing in a digest can end the line, move a cursor or push the mark out."""
    line = one_line(text, MARK)

    assert line.isprintable()
    assert line.splitlines() == [line]
    assert len(line.encode("utf-16-le", "replace")) // 2 <= LONGEST
    assert line.count(MARK) == 1 or text.count(MARK) > 1
