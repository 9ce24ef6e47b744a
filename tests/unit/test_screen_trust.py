from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import (
    Profile,
    Screen,
    classify,
    load_profile,
    load_profiles,
    override_for,
    profile_text,
)
from wake_bridge_adapters.screens.profile_file import checked, profile_type
from wake_bridge_adapters.screens.screen import PLAIN, Row, Style

from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.presence import PresenceState

PROFILES = load_profiles()
IDLE = PresenceState.IDLE
TOML = """
name = "mine"
versions = "1.2.0"
[recognise]
commands = "mine"
[composer]
glyph = "> "
column = 0
glyph_style = { bold = true }
frame = "none"
cursor_visible = true
[composer.placeholder]
strings = "Ask anything"
style = { dim = true }
required = true
[[idle]]
name = "at-rest"
region = "title"
regex = '^rest'
[[rules]]
name = "working"
state = "active"
region = "below"
contains = "esc to stop"
"""
BOLD, DIM, GREY = Style(bold=True), Style(dim=True), Style(fg="244")


def _profile(toml: str = TOML) -> Profile:
    return checked(tomllib.loads(toml))


def _screen(*runs: tuple[str, Style], title: str = "rest", below: str = "", cursor_x: int = 2) -> Screen:
    rows = (Row((("an answer", PLAIN),)), Row(()), Row(tuple(runs)), Row(()), Row(((below, PLAIN),)))
    return Screen(rows, width=60, height=8, cursor_x=cursor_x, cursor_y=2, cursor_visible=True, title=title)


def _learnt(screen: Screen, profile: Profile, version: str = "") -> Profile:
    return _profile(override_for(screen, profile, version))


def test_a_new_placeholder_is_learnt_in_the_style_it_has() -> None:
    """`screens trust`: the observed placeholder is written as an override profile."""
    new = _screen(("> ", BOLD), ("What shall we build?", DIM))
    typed = _screen(("> ", BOLD), ("What shall we build?", PLAIN))

    learnt = _learnt(new, _profile(), "1.3.0")

    assert classify(new, _profile()).state is PresenceState.USER_TYPING
    assert classify(new, learnt).state is IDLE
    assert classify(typed, learnt).state is PresenceState.USER_TYPING
    assert classify(_screen(("> ", BOLD), ("Ask anything", DIM)), learnt).state is IDLE
    assert learnt.versions == ("1.2.0", "1.3.0")


def test_a_placeholder_of_another_colour_takes_the_style_with_it() -> None:
    """`screens trust`: what tells a placeholder from a draft is its style; the observed one counts from now on."""
    learnt = _learnt(_screen(("> ", BOLD), ("Ask anything", GREY)), _profile())

    assert learnt.composer.placeholder.style.fg == ("244",)
    assert classify(_screen(("> ", BOLD), ("Ask anything", PLAIN)), learnt).state is PresenceState.USER_TYPING


def test_a_new_prompt_and_its_look_are_learnt() -> None:
    """`screens trust`: the observed glyphs are written as an override profile."""
    new = _screen(("» ", Style(fg="2")), ("Ask anything", DIM))

    learnt = _learnt(new, _profile())

    assert classify(new, _profile()).composer == "absent"
    assert learnt.composer.glyph == ("> ", "» ")
    assert learnt.composer.glyph_style.fg == ("2",)
    assert classify(new, learnt).state is IDLE


def test_a_prompt_without_a_placeholder_is_learnt_where_one_was_required() -> None:
    """`screens trust`: a person says that this composer is empty."""
    bare = _screen(("> ", BOLD))

    assert classify(bare, _profile()).state is PresenceState.USER_TYPING
    assert classify(bare, _learnt(bare, _profile())).state is IDLE


@pytest.mark.parametrize(
    ("screen", "why"),
    [
        (_screen(("> ", BOLD), ("New words", DIM), below="esc to stop"), "working saw 'esc to stop' in below"),
        (_screen(("> ", BOLD), ("New words", DIM), title="busy"), "at-rest saw 'missing' in title"),
        (_screen(("> ", BOLD), ("half a thought", PLAIN), cursor_x=9), "draft saw 'half a thought'"),
        (_screen(cursor_x=0), "no composer is visible"),
        (replace(_screen(("> ", BOLD), ("New", DIM)), flags={"pane_in_mode": "1"}), "copy-mode"),
    ],
)
def test_what_else_speaks_against_idle_is_never_unlearnt(screen: Screen, why: str) -> None:
    """`screens trust` learns prompt and placeholder; busy signs, dialogs and the signs that idle needs stay."""
    with pytest.raises(RefusedForSafety, match="cannot be trusted") as caught:
        override_for(screen, _profile())

    assert why in str(caught.value)
    assert caught.value.hint


def test_a_ghost_without_a_style_of_its_own_is_no_ghost_any_more() -> None:
    """A ghost differs from a draft by its style alone; in plain text only the exact words are trusted."""
    profile = _profile(TOML.replace("required = true", "ghost = true"))

    learnt = _learnt(_screen(("> ", BOLD), ("Try this", PLAIN)), profile)

    assert not learnt.composer.placeholder.ghost
    assert classify(_screen(("> ", BOLD), ("Try that", PLAIN)), learnt).state is PresenceState.USER_TYPING


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_survives_being_written_down(tmp_path: Path, name: str) -> None:
    """`screens trust` writes a whole profile: a file of the same name replaces the bundled one."""
    file = tmp_path / f"{name}.toml"
    file.write_text(profile_text(PROFILES[name]), encoding="utf-8")

    assert load_profile(file) == PROFILES[name]


def test_strings_of_every_kind_survive_being_written_down(tmp_path: Path) -> None:
    """A placeholder may hold quotes, backslashes and control characters."""
    strings = ("it's", 'say "x"', "back\\slash", "it's a \\ and \"", "tab\tand\x7f", "❯\u00a0", "")
    file = tmp_path / "mine.toml"
    table = profile_type().dump_python(_profile(), by_alias=True)
    table["composer"]["placeholder"] |= {"strings": strings, "patterns": ("a'b\\d",)}

    file.write_text(profile_text(checked(table)), encoding="utf-8")

    assert load_profile(file).composer.placeholder.strings == strings
    assert load_profile(file).composer.placeholder.patterns == ("a'b\\d",)
