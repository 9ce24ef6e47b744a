from __future__ import annotations

import json
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from wake_bridge.domain import text as text_module
from wake_bridge.domain.text import harmless, name
from wake_bridge.testing.hostile import HAZARDS, LONG, hostile_subjects

NEVER_SHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
INVISIBLE = {*"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"} | {
    chr(code) for code in (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))
}

hazards = st.one_of(st.sampled_from(HAZARDS), st.characters(exclude_categories=()), st.text(max_size=5))
hostile = st.lists(hazards, max_size=60).map("".join)
limits = st.integers(min_value=1, max_value=250)


def offences(text: str) -> set[str]:
    """What of the text a terminal, a composer or an unsuspecting reader would not take for plain words."""
    return {one for one in text if unicodedata.category(one) in NEVER_SHOWN or one in INVISIBLE or one == "@"} | {
        end for end in ("[200~", "[201~", "  ") if end in text
    }


def check(text: str, shown: str, limit: int) -> None:
    assert not offences(shown), ascii(text)
    assert len(shown) <= limit
    assert shown == unicodedata.normalize("NFC", shown)
    assert shown == shown.strip()
    assert not shown or not unicodedata.category(shown[0]).startswith("M")
    assert harmless(shown, limit) == shown
    shown.encode()


@settings(max_examples=400)
@given(hostile, limits)
def test_whatever_comes_in_one_harmless_line_comes_out(text: str, limit: int) -> None:
    """No control character survives; bounded, NFC, trimmed, idempotent."""
    check(text, harmless(text, limit), limit)


@given(
    st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), max_size=150).filter(lambda text: "@" not in text)
)
def test_visible_words_are_not_touched(text: str) -> None:
    """Harmless text is the NFC of what was written, nothing less, unless it begins with what joins on to the text before it."""
    plain = unicodedata.normalize("NFC", text)
    if not offences(plain) and not (plain and text_module._joins_on(plain[0])):
        assert harmless(plain) == plain


@given(hostile, st.booleans())
def test_no_name_carries_an_at_sign_that_is_not_an_identity(login: str, known: bool) -> None:
    """A name is an identity of the graph, or harmless text."""
    shown = name(login, known=known)
    if shown != login or not known:
        assert not offences(shown)


def test_ten_thousand_hostile_subjects_become_harmless_lines() -> None:
    """All hostile subjects through the pure renderer leave 0 control characters."""
    count = 0
    for subject in hostile_subjects(10_000, seed=2):
        check(subject, harmless(subject), 200)
        count += 1
    assert count == 10_000


def test_hostile_subjects_repeat_by_seed_and_reach_100_kilobytes() -> None:
    """A trial can be repeated; every hazard comes alone once; JSON escapes carry all of them."""
    first = list(hostile_subjects(2_000, seed=7))
    assert first == list(hostile_subjects(2_000, seed=7))
    assert first != list(hostile_subjects(2_000, seed=8))
    assert tuple(first[: len(HAZARDS)]) == HAZARDS
    assert max(map(len, first)) >= LONG
    assert json.loads(json.dumps(first[:150])) == [
        one.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") for one in first[:150]
    ]
