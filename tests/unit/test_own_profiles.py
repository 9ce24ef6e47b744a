from __future__ import annotations

import stat
from pathlib import Path

import pytest

from wake_bridge.config.own_profiles import write_profile
from wake_bridge.config.settings import load_settings
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_are_made_for_the_owner_alone_and_the_file_too(tmp_path: Path) -> None:
    """`screens trust`: made directories are 0700, the file 0600, and no draft is left beside it."""
    directory = tmp_path / "config" / "wake-bridge" / "screens"

    path = write_profile(directory, "codex", 'name = "codex"\n')

    assert [_mode(one) for one in (directory, directory.parent, directory.parent.parent)] == [0o700] * 3
    assert _mode(path) == 0o600
    assert list(directory.iterdir()) == [path]
    assert path.read_text().splitlines()[1:] == ['name = "codex"']


def test_a_file_of_our_own_is_replaced(tmp_path: Path) -> None:
    """`screens trust` twice: the second lesson stands on the first."""
    write_profile(tmp_path, "codex", "first\n")

    assert write_profile(tmp_path, "codex", "second\n").read_text().endswith("\nsecond\n")


@pytest.mark.parametrize("change", ["by hand", "edited", "a link", "a link to nothing", "no text"])
def test_what_a_person_wrote_is_never_replaced(tmp_path: Path, change: str) -> None:
    """`screens trust` refuses to overwrite a file that is not as it wrote it, and says how to go on."""
    path = tmp_path / "codex.toml"
    if change == "edited":
        write_profile(tmp_path, "codex", "ours\n")
        path.write_text(path.read_text() + "# mine\n")
    elif change.startswith("a link"):
        mine = write_profile(tmp_path / "dotfiles", "codex", "ours\n")
        path.symlink_to(mine if change == "a link" else tmp_path / "nowhere")
    else:
        path.write_bytes(b"\xff\xfe" if change == "no text" else b'name = "codex"\n')
    before = path.read_bytes() if path.exists() else b""

    with pytest.raises(RefusedForSafety, match=r"codex\.toml") as refused:
        write_profile(tmp_path, "codex", "theirs\n")

    assert "--print" in refused.value.hint
    assert (path.read_bytes() if path.exists() else b"") == before


def test_a_place_that_cannot_be_written_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """What failed, where, and what to do."""
    (tmp_path / "file").write_text("")

    with pytest.raises(OperationFailed, match="cannot be written") as failed:
        write_profile(tmp_path / "file" / "screens", "codex", "text")

    assert failed.value.hint


def test_own_profiles_lie_beside_the_configuration_unless_it_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the config directory overrides or adds; that directory need not exist, a named one must."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    usual = load_settings(None, {}).own_screens
    assert usual.parts[-2:] == ("wake-bridge", "screens")
    assert tmp_path in usual.parents
    assert load_settings(None, {}).screens_directory is None

    usual.mkdir(parents=True)
    assert load_settings(None, {}).screens_directory == usual

    named = load_settings(None, {"WAKE_BRIDGE_SCREENS_DIRECTORY": str(tmp_path / "named")})
    assert (named.screens_directory, named.own_screens) == (tmp_path / "named", tmp_path / "named")
