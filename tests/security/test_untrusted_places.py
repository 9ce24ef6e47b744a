"""Who could change what decides where keys are typed: such places are refused, with the word that mends them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wake_bridge_adapters.screens.profile_file import BUNDLED

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.system import files
from wake_bridge.system.files import (
    require_own_place,
    why_another_could_add,
    why_another_could_change,
)

NOBODY = 65534
ANOTHER_GROUP = 65534


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    with Sandbox(tmp_path, command=program) as made:
        made.configure()
        screens = made.config_file.parent / "screens"
        screens.mkdir()
        shutil.copy(BUNDLED / "fake.toml", screens / "fake.toml")
        made.run("init")
        made.run("config", "check")
        yield made


def _screens(box: Sandbox) -> Path:
    return box.config_file.parent / "screens"


PLACES: dict[str, tuple[Callable[[Sandbox], Path], int]] = {
    "configuration": (lambda box: box.config_file, 3),
    "directory of the configuration": (lambda box: box.config_file.parent, 3),
    "screens directory": (_screens, 3),
    "screen profile": (lambda box: _screens(box) / "fake.toml", 3),
    "state directory": (lambda box: box.state_dir, 7),
}


@pytest.mark.parametrize("where", PLACES)
def test_what_anyone_may_write_is_refused_and_left_as_it_is(sandbox: Sandbox, where: str) -> None:
    """Exit 3 for configuration and profiles, 7 for the state directory."""
    place, code = PLACES[where]
    path = place(sandbox)
    path.mkdir(parents=True, exist_ok=True) if where == "state directory" else None
    path.chmod(path.stat().st_mode | 0o002)
    before = path.stat().st_mode

    answer = sandbox.run("run", "--once", expect=code)

    assert "anyone may write" in answer.stderr
    assert f"{'chmod go-w' if code == 7 else 'chmod o-w'}" in answer.stderr
    assert str(path) in answer.stderr
    assert path.stat().st_mode == before
    path.chmod(before & ~0o022)
    sandbox.run("run", "--once")


@pytest.mark.parametrize("where", PLACES)
def test_what_a_whole_group_may_write_is_refused_unless_the_group_is_the_persons_own(
    sandbox: Sandbox, where: str
) -> None:
    """A group called as the user, without another member, is no other user."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to a group that he is no member of")
    place, code = PLACES[where]
    path = place(sandbox)
    path.mkdir(parents=True, exist_ok=True) if where == "state directory" else None
    path.chmod(path.stat().st_mode | 0o020)
    sandbox.run("run", "--once")  # root's own group

    path.chmod(path.stat().st_mode | 0o020)
    os.chown(path, -1, ANOTHER_GROUP)
    answer = sandbox.run("run", "--once", expect=code)

    assert "a whole group may write" in answer.stderr


@pytest.mark.parametrize("where", PLACES)
def test_what_belongs_to_another_user_is_refused(sandbox: Sandbox, where: str) -> None:
    """Its owner can write it whenever he wants."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    place, code = PLACES[where]
    path = place(sandbox)
    path.mkdir(parents=True, exist_ok=True) if where == "state directory" else None
    os.chown(path, NOBODY, -1)

    answer = sandbox.run("run", "--once", expect=code)

    assert "belongs to another user" in answer.stderr


def test_a_directory_like_tmp_protects_files_but_not_a_list_of_them(tmp_path: Path) -> None:
    """A sticky directory: nobody can replace our file, but anyone can add a profile, or plant what we open later."""
    tmp_path.chmod(0o1777)
    mine = tmp_path / "config.toml"
    mine.touch(mode=0o600)

    assert why_another_could_change(mine) == ""
    assert "anyone may write" in why_another_could_add(tmp_path)
    with pytest.raises(RefusedForSafety, match="others can write"):
        require_own_place(tmp_path)


def test_a_link_is_judged_by_both_of_its_ends(tmp_path: Path) -> None:
    """A configuration kept elsewhere: whoever can write that directory can replace the file."""
    elsewhere = tmp_path / "dotfiles"
    elsewhere.mkdir()
    (elsewhere / "config.toml").touch(mode=0o600)
    link = tmp_path / "config.toml"
    link.symlink_to(elsewhere / "config.toml")
    assert why_another_could_change(link) == ""

    elsewhere.chmod(0o777)

    assert str(elsewhere) in why_another_could_change(link)


def test_a_users_own_group_is_told_by_its_name_and_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule in one place, without root: the group's name and members are turned instead."""
    tmp_path.chmod(0o770)
    monkeypatch.setattr(files, "_is_own_group", lambda _: True)
    assert why_another_could_add(tmp_path) == ""
    monkeypatch.setattr(files, "_is_own_group", lambda _: False)
    assert "a whole group" in why_another_could_add(tmp_path)


def test_a_reload_refuses_a_profile_that_anyone_may_write_and_keeps_the_old(sandbox: Sandbox) -> None:
    """A bad file keeps the old one, also where it is bad by who can write it."""
    daemon = sandbox.daemon()
    (_screens(sandbox) / "fake.toml").chmod(0o666)

    daemon.reload()

    (refused,) = daemon.waits_for_log("config_refused")
    assert "anyone may write" in refused["problems"][0]
    assert daemon.process.poll() is None
