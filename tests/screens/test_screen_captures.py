from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.screens import Capture, classify, dump_capture, load_profiles, read_capture
from adapters.screens.composer import find_composer
from wake_bridge.domain.presence import PresenceState

CAPTURES = Path(__file__).parent / "captures"
FILES = sorted(CAPTURES.glob("*/*.json"))
PROFILES = load_profiles()
IDLE = PresenceState.IDLE


def _named(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


@pytest.mark.parametrize("file", FILES, ids=_named)
def test_a_captured_screen_is_read_as_it_may_be(file: Path) -> None:
    """DESIGN §5: profiles are proven by captured screens, and each says what is acceptable."""
    capture = read_capture(file)

    reading = classify(capture.screen, PROFILES[capture.harness])

    assert reading.state in capture.expect, [(one.rule, one.saw) for one in reading.evidence]


@pytest.mark.parametrize("file", FILES, ids=_named)
def test_a_screen_never_looks_idle_to_the_profile_of_another_harness(file: Path) -> None:
    """DESIGN §5: idle needs every positive sign of its own profile."""
    capture = read_capture(file)

    found = {name: classify(capture.screen, profile).state for name, profile in PROFILES.items()}

    assert [name for name, state in found.items() if state is IDLE and name != capture.harness] == []


def test_idle_is_missed_on_at_most_two_of_a_hundred_idle_screens() -> None:
    """DESIGN §5: conservative, but a wake must get through: idle is found where there is nothing else to see."""
    read = Counter[PresenceState]()
    for file in FILES:
        capture = read_capture(file)
        if capture.expect == (IDLE,):
            read[classify(capture.screen, PROFILES[capture.harness]).state] += 1

    print(f"{read[IDLE]} of {read.total()} idle screens found idle")
    assert read.total() >= 45
    assert read[IDLE] >= 0.98 * read.total()


def test_every_bundled_profile_is_proven_by_captures_of_idle_busy_draft_and_dialog() -> None:
    """DESIGN §11: a meta-test keeps promises covered; a profile without screens proves nothing."""
    for name in PROFILES:
        seen = {capture.expect[0] for file in CAPTURES.glob(f"{name}/*.json") if (capture := read_capture(file)).expect}
        assert {IDLE, PresenceState.ACTIVE, PresenceState.USER_TYPING, PresenceState.WAITING_ON_APPROVAL} <= seen, name


@pytest.mark.parametrize("file", [file for file in FILES if file.stem.startswith("typing-cjk-emoji")], ids=_named)
def test_columns_are_counted_as_tmux_counts_them(file: Path) -> None:
    """DESIGN §5: the composer is found from the cursor; wide characters must not shift it."""
    capture = read_capture(file)

    composer = find_composer(capture.screen, PROFILES[capture.harness].composer)

    assert composer is not None
    assert composer.text == "請看這個檔案 🚀👍 café"
    assert capture.screen.row(composer.top).end == capture.screen.cursor_x


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.stem.startswith(("typing-spaces", "typing-cursor-home"))], ids=_named
)
def test_a_draft_that_hides_is_a_draft(file: Path) -> None:
    """DESIGN §5: blanks show in the cursor alone, and a cursor at the start proves nothing about the text behind it."""
    capture = read_capture(file)

    assert classify(capture.screen, PROFILES[capture.harness]).composer == "draft"


def test_a_bare_prompt_is_a_draft_where_an_empty_composer_always_shows_a_placeholder() -> None:
    """DESIGN §5: blanks with the cursor moved to the start leave no other trace than the missing placeholder."""
    spaces = read_capture(CAPTURES / "codex" / "typing-spaces.80x24.json").screen

    reading = classify(replace(spaces, cursor_x=2), PROFILES["codex"])

    assert (reading.composer, reading.state) == ("draft", PresenceState.USER_TYPING)


def test_two_looks_at_an_unchanged_idle_screen_have_one_fingerprint_and_any_movement_above_another() -> None:
    """DESIGN §5: two samples must agree; rows moving above the composer mean that a turn is running."""
    capture = read_capture(CAPTURES / "codex" / "idle-after-turn.80x24.json")
    again = read_capture(CAPTURES / "codex" / "idle-after-turn.80x24.json")
    moved = read_capture(CAPTURES / "codex" / "idle-after-tool.200x50.json")
    profile = PROFILES["codex"]

    first = classify(capture.screen, profile).fingerprint

    assert first
    assert classify(again.screen, profile).fingerprint == first
    assert classify(moved.screen, profile).fingerprint != first


@pytest.mark.parametrize("harness", sorted(PROFILES))
def test_a_capture_file_survives_being_written_and_read(tmp_path: Path, harness: str) -> None:
    """CONTRACT `screens capture` writes what `screens classify` reads."""
    source = next(file for file in FILES if file.parent.name == harness)
    before = read_capture(source)
    ansi = before.screen.rows[0].text

    copy = tmp_path / "copy.json"
    copy.write_text(dump_capture(before, ansi), encoding="utf-8")
    after = read_capture(copy)

    assert isinstance(after, Capture)
    assert (after.harness, after.version, after.state, after.expect) == (
        before.harness,
        before.version,
        before.state,
        before.expect,
    )
    assert after.screen.rows[0].text == ansi
    assert (after.screen.title, after.screen.cursor_x, after.screen.cursor_y) == (
        before.screen.title,
        before.screen.cursor_x,
        before.screen.cursor_y,
    )
