"""Sockets, versions and texts, before any tmux is asked."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from wake_bridge_adapters.tmux.captures import is_new_enough
from wake_bridge_adapters.tmux.command import default_socket, joined, socket_path, target_socket, why_not_ours
from wake_bridge_adapters.tmux.stage import why_unfit

ULID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def test_a_socket_is_always_named_by_its_path(tmp_path: Path) -> None:
    """A target is (socket, pane); -L names lie where tmux itself puts them."""
    environment = {"TMUX_TMPDIR": str(tmp_path), "TMUX": "/somewhere/else,1,2"}
    directory = os.path.realpath(tmp_path / f"tmux-{os.getuid()}")

    assert socket_path("work", environment) == f"{directory}/work"
    assert default_socket("work", "", environment) == f"{directory}/work"
    assert default_socket("work", "/run/t.sock", environment) == "/run/t.sock"
    assert default_socket("", "", environment) == "/somewhere/else"
    assert default_socket("", "", {"TMUX_TMPDIR": str(tmp_path)}) == f"{directory}/default"
    assert target_socket("other", environment) == f"{directory}/other"
    assert target_socket("/run/t.sock", environment) == "/run/t.sock"


def test_only_sockets_of_our_own_user_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own uid's sockets only."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        plain = tmp_path / "plain"
        plain.touch()

        assert why_not_ours(str(path)) == ""
        assert "no socket" in why_not_ours(str(plain))
        assert "no tmux server" in why_not_ours(str(tmp_path / "none"))
        monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
        assert "another user" in why_not_ours(str(path))


@pytest.mark.parametrize(
    ("version", "well"),
    [
        ("tmux 3.3a", True),
        ("tmux 3.2", True),
        ("tmux 3.1c", False),
        ("tmux 2.9", False),
        ("tmux next-3.6", True),
        ("tmux 3.10", True),
        ("tmux master", None),
    ],
)
def test_tmux_before_3_2_is_too_old(version: str, *, well: bool | None) -> None:
    """Tmux ≥ 3.2."""
    assert is_new_enough(version) is well


def test_a_word_that_ends_in_a_semicolon_does_not_end_its_command() -> None:
    """Tmux takes a trailing `;` of an argument for the end of the command."""
    assert joined([["a", "x;"], ["b"]]) == ["a", r"x\;", ";", "b"]


@pytest.mark.parametrize(
    "text",
    [f"[WAKE] \x1b[201~\r {ULID}", f"a\tb {ULID}", f"a\r{ULID}", f"\x9b201~ {ULID}", f"\ud800 {ULID}", f"\0{ULID}"],
)
def test_a_text_with_control_characters_is_never_pasted(text: str) -> None:
    """Tmux before 3.7 passes an end-of-paste sequence on, and what follows it would be keys."""
    assert "control character" in why_unfit(text, ULID)


def test_a_text_without_its_mark_is_never_pasted() -> None:
    """The mark is what submission is proven by."""
    assert "mark" in why_unfit("[WAKE] no mark", ULID)
    assert "ULID" in why_unfit("x", "not a ulid")
    assert why_unfit(f"[WAKE] ＠漢 é\nWake: {ULID}", ULID) == ""
