from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import load_profiles
from wake_bridge_adapters.screens.profile import Placeholder
from wake_bridge_adapters.screens.profile_file import BUNDLED, checked, profile_type, unchecked

from tests.harness import gap
from wake_bridge.domain.errors import ConfigurationInvalid

SMALL = """
name = "mine"
[recognise]
commands = "mine"
[composer]
glyph = "$ "
frame = "none"
[[rules]]
name = "spinner"
state = "active"
region = "title"
regex = "^[*] "
"""


def test_a_profile_of_ten_lines_is_enough_and_is_added(tmp_path: Path) -> None:
    """A file in the config directory overrides or adds."""
    (tmp_path / "mine.toml").write_text(SMALL)

    profiles = load_profiles(str(tmp_path))

    assert profiles["mine"].composer.glyph == ("$ ",)
    assert profiles["mine"].paste.max_lines == 10
    assert {"claude", "codex", "fake"} <= set(profiles)


def test_a_file_of_the_same_name_replaces_the_bundled_profile(tmp_path: Path) -> None:
    """A file in the config directory overrides or adds."""
    (tmp_path / "codex.toml").write_text(SMALL.replace('"mine"', '"codex"'))

    assert load_profiles(str(tmp_path))["codex"].composer.glyph == ("$ ",)
    assert load_profiles()["codex"].composer.glyph == ("› ",)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("regex", "rgex"), 'rules[0] "spinner".rgex: Extra inputs are not permitted'),
        (('"^[*] "', '"^[* "'), 'rules[0] "spinner".regex: is no regular expression'),
        (('"title"', '"everywhere"'), 'rules[0] "spinner".region: Input should be'),
        (('"active"', '"idle"'), 'rules[0] "spinner".state: Input should be'),
        (('frame = "none"', 'frame = "none"\nwidth = 3'), "composer.width: Extra inputs are not permitted"),
        (('commands = "mine"', ""), "recognise: needs one of `commands`, `packages`, `modules`"),
        (('regex = "^[*] "', ""), 'rules[0] "spinner": needs one of `contains`, `regex`, `style`, `not`'),
        (('regex = "^[*] "', 'regex = "x"\nstyle = { dim = true }'), 'rules[0] "spinner": a title has no `style`'),
        (('name = "mine"', 'name = "other"'), "name: is 'other', but the file is called mine.toml"),
        (("[composer]", "[composer"), "Expected ']'"),
    ],
)
def test_a_mistake_names_file_rule_and_field(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    """A mistake is shown with file, key path and what to do; a user's profile fails loudly, never silently."""
    file = tmp_path / "mine.toml"
    file.write_text(SMALL.replace(*change, 1))

    with pytest.raises(ConfigurationInvalid) as caught:
        load_profiles(str(tmp_path))

    (problem,) = caught.value.problems
    assert problem.startswith(f"{file}: ")
    assert complaint in problem
    assert caught.value.hint


def test_all_mistakes_of_all_files_are_shown_at_once(tmp_path: Path) -> None:
    """All mistakes are shown at once."""
    (tmp_path / "mine.toml").write_text(SMALL.replace("regex", "rgex").replace('"active"', '"busy"'))
    (tmp_path / "yours.toml").write_text("name = 3\n")

    with pytest.raises(ConfigurationInvalid) as caught:
        load_profiles(str(tmp_path))

    named = [problem.split(":", 1)[0] for problem in caught.value.problems]
    assert named.count(str(tmp_path / "mine.toml")) == 2
    assert named.count(str(tmp_path / "yours.toml")) == 3


@pytest.mark.parametrize("file", sorted(BUNDLED.glob("*.toml")), ids=lambda file: file.stem)
def test_a_bundled_profile_needs_no_check(file: Path) -> None:
    """They are read without pydantic, which finds nothing wrong with them and makes the same; types count as well."""
    table = tomllib.loads(file.read_text(encoding="utf-8"))

    assert repr(unchecked(table)) == repr(checked(table))
    assert profile_type().dump_python(unchecked(table), mode="json", by_alias=True) == profile_type().dump_python(
        checked(table), mode="json", by_alias=True
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ('name = "mine"', 'name = "mine"\npaste = 3'),
            "paste: Input should be a valid dictionary or instance of Paste",
        ),
        (
            ('region = "title"', 'region = "title"\nrows = 0'),
            'rules[0] "spinner".rows: Input should be greater than or equal to 1',
        ),
        (
            ('region = "title"', 'region = "title"\nunless = "x"'),
            'rules[0] "spinner".unless: Extra inputs are not permitted',
        ),
        (
            ('frame = "none"', 'frame = "none"\nborder = "ab"'),
            "composer.border: String should have at most 1 character",
        ),
        (('name = "mine"', 'name = "Mine"'), "name: String should match pattern '^[a-z][a-z0-9_-]*$'"),
    ],
)
def test_what_is_no_table_or_beyond_its_limits_is_told_as_ever(
    tmp_path: Path, change: tuple[str, str], complaint: str
) -> None:
    """The words are pydantic's own, of models: what a dataclass is nobody has to know."""
    (tmp_path / "mine.toml").write_text(SMALL.replace(*change, 1))

    with pytest.raises(ConfigurationInvalid) as caught:
        load_profiles(str(tmp_path))

    assert f"{tmp_path / 'mine.toml'}: {complaint}" in caught.value.problems


def test_a_directory_that_is_missing_is_said(tmp_path: Path) -> None:
    """`screens.directory`: a typo there must not silently leave the user's profiles out."""
    with pytest.raises(ConfigurationInvalid, match="does not exist"):
        load_profiles(str(tmp_path / "nowhere"))


def test_a_ghost_without_a_style_could_be_any_draft_and_is_refused() -> None:
    """A ghost suggestion differs from typed text by style and cursor."""
    with pytest.raises(ValueError, match="`style` is missing"):
        Placeholder(ghost=True)


def test_programs_that_read_a_file_for_an_at_are_shown_none() -> None:
    """`@path` makes some harnesses read that file; seen in Gemini, which took `@me` for README.md."""
    reading = {name for name, profile in load_profiles().items() if profile.paste.at_reads_files}

    assert reading == {"claude", "gemini", "qwen"}


def test_claude_takes_three_lines_and_700_characters_before_it_wraps_a_paste() -> None:
    """Where long pastes arrive wrapped, the compact form has three lines at most."""
    paste = load_profiles()["claude"].paste

    assert (paste.max_lines, paste.max_characters, paste.wraps) == (3, 700, True)
    assert (load_profiles()["codex"].paste.max_lines, load_profiles()["codex"].paste.max_characters) == (10, 1024)


def test_a_gap_is_twice_the_smallest_that_lost_no_enter_of_the_real_program() -> None:
    """Where the counts of `python -m tests.harness.gap` are enough; any other program is given time."""
    counted = json.loads(gap.DATA.read_text(encoding="utf-8"))
    proven = {name: gap.twice_what_lost_none(next(reversed(versions.values()))) for name, versions in counted.items()}

    for name, profile in load_profiles().items():
        wanted = proven.get(name)
        assert profile.paste.gap_ms == wanted or (wanted is None and 300 <= profile.paste.gap_ms <= 500), name
    assert gap.table(counted) == gap.PAGE.read_text(encoding="utf-8").partition(gap.BEGIN)[2].partition(gap.END)[0]
