"""Names are compared whole, in our own process; tmux would match prefixes and patterns."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, chdir, closing
from pathlib import Path

import pytest
from wake_bridge_adapters.tmux.command import Separators
from wake_bridge_adapters.tmux.panes import Pane, panes_claimed_by, panes_named
from wake_bridge_adapters.tmux.sightings import claim_commands, own_sockets


def pane(session: str, window: int, index: int, pane_id: str, *, window_name: str = "", identity: str = "") -> Pane:
    return Pane(
        {
            "session_name": session,
            "session_id": f"${session}",
            "window_index": str(window),
            "window_name": window_name,
            "pane_index": str(index),
            "pane_id": pane_id,
            "@wake_identity": identity,
        },
        str(window),
    )


PANES = [
    pane("bill", 0, 0, "%1", window_name="editor"),
    pane("bill-2", 0, 0, "%2", window_name="bill"),
    pane("agents", 1, 0, "%3", window_name="codex"),
    pane("agents", 1, 1, "%4", window_name="codex"),
    pane("agents", 2, 0, "%5", window_name="v1.0"),
    pane("agents", 3, 0, "%6", window_name="a*"),
    pane("copy", 7, 0, "%1", window_name="editor"),
]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("bill", ["%1"]),
        ("=bill", ["%1"]),
        ("bill:", ["%1"]),
        ("bil", []),
        ("b*", []),
        ("codex", []),
        ("editor", []),
        ("agents:codex", ["%3", "%4"]),
        ("agents:cod", []),
        ("agents:1", ["%3", "%4"]),
        ("agents:1.1", ["%4"]),
        ("=agents:1.0", ["%3"]),
        ("agents:v1.0", ["%5"]),
        ("agents:v1.0.0", ["%5"]),
        ("agents:v*", []),
        ("agents:a*", ["%6"]),
        ("agents:1.9", []),
        ("agents:codex.1", ["%4"]),
        ("%3", ["%3"]),
        ("%33", []),
        ("copy:7.0", ["%1"]),
        ("", []),
        (":1.0", []),
        ("agents:.0", []),
    ],
)
def test_a_target_means_exactly_the_panes_of_that_name(target: str, found: list[str]) -> None:
    """Names as session:window.pane, exact; a window's name in another session never counts."""
    assert [one.pane_id for one in panes_named(PANES, target)] == found


def test_a_pane_that_two_sessions_show_is_one_pane() -> None:
    """A target is (socket, pane), however many sessions link its window."""
    assert [one.label for one in panes_named(PANES, "%1")] == ["bill:0.0"]


def test_an_identity_is_claimed_by_whole_words() -> None:
    """The live `@wake_identity` option of exactly one pane."""
    panes = [pane("a", 0, 0, "%1", identity="@neo-gpt"), pane("b", 0, 0, "%2", identity="@neo-gpt-2 @neo")]

    assert [one.pane_id for one in panes_claimed_by(panes, "@neo-gpt")] == ["%1"]
    assert [one.pane_id for one in panes_claimed_by(panes, "@neo")] == ["%2"]
    assert panes_claimed_by(panes, "@ne") == []


def test_claiming_a_pane_takes_the_claim_off_every_other_and_leaves_its_sharers() -> None:
    """One target at a time per identity; two identities may share a pane."""
    panes = [
        pane("a", 0, 0, "%1", identity="@one"),
        pane("b", 0, 0, "%2", identity="@one @two"),
        pane("c", 0, 0, "%3", identity="@three"),
    ]

    assert claim_commands(panes, "%3", "@one") == [
        ["set-option", "-p", "-u", "-t", "%1", "@wake_identity"],
        ["set-option", "-p", "-t", "%2", "@wake_identity", "@two"],
        ["set-option", "-p", "-t", "%3", "@wake_identity", "@three @one"],
    ]


def test_no_value_can_pass_for_a_separator() -> None:
    """Titles and options are other people's text; separators are made anew for every call."""
    names = ("pane_id", "pane_title")
    first, second = Separators(), Separators()
    printed = f"%1{first.between_fields}a\n~0~{second.between_fields}b\n{first.between_records}\n"

    assert first != second
    assert first.records(printed, names) == [{"pane_id": "%1", "pane_title": f"a\n~0~{second.between_fields}b\n"}]
    assert first.records(f"%1{first.between_records}", names) == []


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("my.app", ["%7"]),
        ("=my.app:", ["%7"]),
        ("my.app:0", ["%7"]),
        ("my.app:main.0", ["%7"]),
        ("my_app", ["%7"]),
        ("bill.0", []),
        ("my:app", []),
    ],
)
def test_a_session_is_found_by_the_name_that_it_was_to_have(target: str, found: list[str]) -> None:
    """Tmux writes `_` for a dot, which is in no session's name; a colon can stand before a window, too."""
    others = [pane("my_app", 0, 0, "%7", window_name="main"), pane("bill_0", 0, 0, "%8")]
    panes = [*PANES, *others]
    assert [one.pane_id for one in panes_named(panes, target)] == found


def test_of_the_sockets_in_the_directory_only_those_are_asked_where_somebody_listens(tmp_path: Path) -> None:
    """What ended servers left behind would cost a start of tmux each."""
    directory = tmp_path / f"tmux-{os.getuid()}"
    directory.mkdir()
    with ExitStack() as listening, chdir(directory):
        for name in ("default", "left", "lives"):
            server = listening.enter_context(closing(socket.socket(socket.AF_UNIX)))
            server.bind(name)
            if name == "lives":
                server.listen()
        found = own_sockets(str(directory / "default"), {"TMUX_TMPDIR": str(tmp_path)})
    assert found == [str(directory / "lives")]
