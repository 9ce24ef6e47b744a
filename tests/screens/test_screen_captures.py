from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import (
    Capture,
    classify,
    classify_capture,
    composer_is_empty,
    dump_capture,
    holds_only,
    read_capture,
)
from wake_bridge_adapters.screens.composer import find_composer

from tests.screens.corpus import BEGIN, CAPTURES, END, HARNESSES, PAGE, PROFILES, captures_of, corpus, table
from wake_bridge.domain.presence import PresenceState

IDLE = PresenceState.IDLE
OF_EACH = pytest.mark.parametrize("harness", HARNESSES)
TYPED = {
    "typing-single": "please look at the fi",
    "typing-multiline": "first line of draft\nsecond line",
    "typing-cjk-emoji": "請看這個檔案 🚀👍 café",
    "unfocused-typing": "some draft",
    "colour-typing": "some draft",
}
LOST_KEYS = {"copilot/typing-multiline.80x24"}
"""The program did not show what was typed while it was starting."""


@OF_EACH
def test_a_captured_screen_is_read_as_it_may_be(harness: str) -> None:
    """Profiles are proven by captured screens, and each says what is acceptable."""
    read = [(one, classify(one.capture.screen, PROFILES[harness])) for one in captures_of(harness)]

    assert {
        one.name: [reading.state, *((found.rule, found.saw) for found in reading.evidence)]
        for one, reading in read
        if reading.state not in one.capture.expect
    } == {}


@OF_EACH
def test_a_screen_never_looks_idle_to_the_profile_of_another_harness(harness: str) -> None:
    """Idle needs every positive sign of its own profile."""
    others = {name: profile for name, profile in PROFILES.items() if name != harness}

    assert [
        (one.name, name)
        for one in captures_of(harness)
        for name, profile in others.items()
        if classify(one.capture.screen, profile).state is IDLE
    ] == []


READING = re.compile(r"(?:colour-)?scrolled|transcript-|history-search|browse-|diff-pager|menu-(?:timeline|sessions)")
SHOWS_NOTHING = {
    "gemini/scrolled-alternate.80x24",
    "opencode/scrolled-to-a-turns-end.80x24",
    *(f"qwen/scrolled{how}.80x24" for how in ("", "-a-little", "-top")),
    "qwen/scrolled.50x20",
    "qwen/scrolled.120x30",
}
"""Nothing on these screens differs from idle ones; docs/harnesses.md says so."""


def test_a_view_of_earlier_rows_is_not_idle() -> None:
    """A scroll, search, transcript or pager view is never idle, with the composer in sight or without."""
    views = [one for one in corpus() if READING.match(one.file.stem)]
    idle = {one.name for one in views if classify_capture(one.capture, PROFILES[one.capture.harness]).state is IDLE}

    assert len(views) >= 60
    assert {one.capture.harness for one in views} >= {"claude", "codex", "copilot", "kilo", "opencode", "vibe"}
    assert idle == SHOWS_NOTHING


def test_idle_is_missed_on_at_most_two_of_a_hundred_idle_screens() -> None:
    """Conservative, but a wake must get through: idle is found where there is nothing else to see."""
    read = Counter(
        classify(one.capture.screen, PROFILES[one.capture.harness]).state for one in corpus() if one.must_be_idle
    )

    assert read.total() >= 160
    assert read[IDLE] >= 0.98 * read.total()


def test_the_page_shows_what_the_captures_give() -> None:
    """Presence one can trust: a table per harness and size; `python -m tests.screens.corpus --write` renews it."""
    print(table())

    page = PAGE.read_text(encoding="utf-8")

    assert page.partition(BEGIN)[2].partition(END)[0] == table()


def test_every_bundled_profile_is_proven_by_captures_of_idle_busy_and_draft_and_dialog() -> None:
    """A meta-test keeps promises covered; a profile without screens proves nothing."""
    asks_nobody = {"pi"}
    for name in PROFILES:
        seen = {one.capture.expect[0] for one in corpus() if one.capture.harness == name and one.capture.expect}
        wanted = {IDLE, PresenceState.ACTIVE, PresenceState.USER_TYPING, PresenceState.WAITING_ON_APPROVAL}
        assert wanted - ({PresenceState.WAITING_ON_APPROVAL} if name in asks_nobody else set()) <= seen, name


def test_a_capture_tells_nothing_of_the_machine_it_was_taken_on() -> None:
    """The corpus is published: home paths are shortened, keys are none."""
    told = re.compile(r"/(?:home|root|Users|work|tmp)/\w|sk-\w{6}|Bearer \w")

    assert [one.name for one in corpus() if told.search(one.file.read_text(encoding="utf-8"))] == []


def test_a_text_is_known_in_every_composer_and_one_character_more_or_less_is_not() -> None:
    """The staged text is compared with what the composer holds, counted as tmux counts columns."""
    drafts = [one for one in corpus() if one.file.stem.partition(".")[0] in TYPED and one.capture.harness != "fake"]

    assert len(drafts) >= 50
    for one in drafts:
        screen, profile = one.capture.screen, PROFILES[one.capture.harness]
        typed = TYPED[one.file.stem.partition(".")[0]]
        assert holds_only(screen, profile, typed) is (one.name not in LOST_KEYS), one.name
        assert not composer_is_empty(screen, profile), one.name
        for other in (typed[:-1], typed[1:], f"{typed}x", f"x{typed}"):
            assert not holds_only(screen, profile, other), (one.name, other)


def test_a_folded_paste_is_known_by_its_count() -> None:
    """Our mark, or the harness's paste chip; a chip that counts otherwise is another's."""
    lines = [f"pasted line {number}" for number in range(30)]
    folded = [
        one
        for one in corpus()
        if "typing-pasted-30-lines" in one.file.stem
        and (chip := PROFILES[one.capture.harness].paste.chip)
        # some harnesses show some pastes as they are
        and re.search(chip, classify(one.capture.screen, PROFILES[one.capture.harness]).composer_text)
    ]

    assert folded
    for one in folded:
        screen, profile = one.capture.screen, PROFILES[one.capture.harness]
        assert holds_only(screen, profile, "\n".join(lines)), one.name
        assert not holds_only(screen, profile, "\n".join(lines[:-1])), one.name


def test_a_draft_that_hides_is_a_draft() -> None:
    """Blanks show in the cursor alone, and a cursor at the start proves nothing about the text behind it."""
    hiding = ("typing-spaces", "typing-cursor-home", "typing-leading")
    read = {
        one.name: classify(one.capture.screen, PROFILES[one.capture.harness]).composer
        for one in corpus()
        if one.file.stem.startswith(hiding)
    }

    assert read
    assert {name: composer for name, composer in read.items() if composer != "draft"} == {}


def test_a_bare_prompt_is_a_draft_where_an_empty_composer_always_shows_a_placeholder() -> None:
    """Blanks with the cursor moved to the start leave no other trace than the missing placeholder."""
    spaces = read_capture(CAPTURES / "codex" / "typing-spaces.80x24.json").screen

    reading = classify(replace(spaces, cursor_x=2), PROFILES["codex"])

    assert (reading.composer, reading.state) == ("draft", PresenceState.USER_TYPING)


@pytest.mark.parametrize("harness", ["qwen", "pi", "gemini", "vibe"])
def test_a_shell_in_the_foreground_outranks_the_screen_a_dead_agent_left(harness: str) -> None:
    """After a crash the picture stays, and a shell has the terminal."""
    idle = next(one.capture for one in corpus() if one.capture.harness == harness and one.must_be_idle)
    shell = replace(idle, screen=replace(idle.screen, command="bash"), process_tree=("bash Ss+ fg own-session -bash",))
    script = replace(shell, process_tree=("bash S+ fg bash start.sh", "  node S+ fg node /opt/n/bin/agent"))
    profile = PROFILES[harness]

    assert classify_capture(idle, profile).state is IDLE
    assert classify_capture(script, profile).state is IDLE
    assert (classify_capture(shell, profile).state, classify_capture(shell, profile).rule) == ("unknown", "no-agent")


def test_a_cursor_that_shows_outside_of_a_composer_found_from_the_bottom_is_where_keys_go() -> None:
    """The composer is found from the cursor; one that shows elsewhere is a shell's or another field's."""
    capture = read_capture(CAPTURES / "qwen" / "v0.24.4-idle-empty.80x24.json")
    below = replace(capture.screen, cursor_x=6, cursor_y=capture.screen.last_text_row + 1)

    assert find_composer(capture.screen, PROFILES["qwen"].composer) is not None
    assert find_composer(below, PROFILES["qwen"].composer) is None


def test_two_looks_at_an_unchanged_idle_screen_have_one_fingerprint_and_any_movement_above_another() -> None:
    """Two samples must agree; rows moving above the composer mean that a turn is running."""
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
    """`screens capture` writes what `screens classify` reads."""
    before = next(one.capture for one in corpus() if one.capture.harness == harness)
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
