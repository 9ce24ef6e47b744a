from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libtmux
import pytest
from wake_bridge_adapters.screens import Reading, Screen, classify, holds_only, load_profiles, recognise

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import Look, PrivateTmux

PROFILES = load_profiles()
PROFILE = PROFILES["fake"]
DIGEST = '[WAKE] 1 event for @neo:\n- 1 new message (latest: "請看 🚀" from @ada)\nWake: 01K3Z5Q8X9ABCDEFGHJKMNPQRS'


def _screen(look: Look) -> Screen:
    x, y = look.cursor
    return Screen.parse(
        look.ansi,
        width=look.width,
        height=look.height,
        cursor_x=x,
        cursor_y=y,
        cursor_visible=look.cursor_visible,
        title=look.title,
        flags=look.flags,
    )


def _read(look: Look) -> Reading:
    return classify(_screen(look), PROFILE)


@pytest.fixture
def harness(tmp_path: Path) -> FakeHarness:
    return FakeHarness(tmp_path)


@pytest.fixture
def pane(tmux: PrivateTmux, harness: FakeHarness) -> Iterator[libtmux.Pane]:
    pane = tmux.new_pane(harness.command())
    harness.state()
    tmux.waits_until(pane, lambda look: _read(look).state == "idle", what="an idle composer")
    yield pane
    assert not harness.events("shell"), "nothing may ever be run in a shell"


def _press(tmux: PrivateTmux, pane: libtmux.Pane, *keys: str) -> None:
    tmux.run("send-keys", "-t", str(pane.pane_id), *keys)


def _type(tmux: PrivateTmux, pane: libtmux.Pane, text: str) -> None:
    tmux.run("send-keys", "-t", str(pane.pane_id), "-l", "--", text)


@pytest.mark.parametrize(
    ("mode", "text", "state", "composer"),
    [
        ("idle", "", "idle", "placeholder"),
        ("busy", "", "active", "placeholder"),
        ("busy", "typed meanwhile", "userTyping", "draft"),
        ("streaming", "", "active", "placeholder"),
        ("approval", "", "waitingOnApproval", "absent"),
        ("menu", "", "unknown", "absent"),
        ("draft", "half a thought", "userTyping", "draft"),
        ("ghost", "run the tests", "idle", "placeholder"),
        ("vim-normal", "", "unknown", "placeholder"),
        ("shell", "", "userTyping", "draft"),
    ],
)
def test_each_mode_is_what_its_profile_says_it_is(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane, mode: str, text: str, state: str, composer: str
) -> None:
    """The fake harness plays every state; only idle, and idle behind a ghost, look idle."""
    harness.shows("draft", "something else")
    tmux.waits_until(pane, lambda look: _read(look).composer == "draft")

    harness.shows(mode, text)

    tmux.waits_until(pane, lambda look: (_read(look).state, _read(look).composer) == (state, composer), what=mode)
    assert harness.bytes_received() == b""


def test_a_paste_lands_framed_and_one_enter_submits_it_once(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane
) -> None:
    """Raw mode, bracketed paste, every byte recorded, one submit."""
    tmux.paste(pane, DIGEST)
    tmux.waits_until(pane, lambda look: holds_only(_screen(look), PROFILE, DIGEST), what="the digest")
    assert harness.submits() == []

    _press(tmux, pane, "Enter")
    harness.waits_for("submit")
    shown = tmux.waits_until(pane, lambda look: _read(look).state == "idle", what="the empty composer")

    assert harness.submits() == [DIGEST]
    assert harness.bytes_received() == b"\x1b[200~" + DIGEST.encode() + b"\x1b[201~\r"
    assert "01K3Z5Q8X9ABCDEFGHJKMNPQRS" in shown.text


def test_the_log_tells_every_byte_with_its_time_and_what_it_met(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane
) -> None:
    """It is the oracle for "0 keys", "one submit" and "draft byte-identical"."""
    _type(tmux, pane, "half ")
    tmux.waits_until(pane, lambda look: _read(look).composer_text == "half")
    _type(tmux, pane, "a thought")
    tmux.waits_until(pane, lambda look: _read(look).composer_text == "half a thought")

    records = harness.events("bytes")

    assert harness.bytes_received() == b"half a thought"
    assert records[-1]["composer"].startswith("half")
    assert [record["at"] for record in records] == sorted(record["at"] for record in records)
    assert {record["mode"] for record in records} == {"idle"}


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["abc", "BSpace", "d"], "abd"),
        (["abc", "Home", "x"], "xabc"),
        (["abc", "Left", "Left", "x"], "axbc"),
        (["abc", "Left", "Left", "Right", "x"], "abxc"),
        (["abc", "Home", "DC", "End", "x"], "bcx"),
        (["one two", "C-w", "x"], "one x"),
        (["abc", "C-u", "x"], "x"),
        (["abc", "C-a", "C-k", "x"], "x"),
        (["one", "C-j", "two", "Up", "x"], "onex\ntwo"),
        (["one", "C-j", "two", "Up", "Home", "Down", "x"], "one\nxtwo"),
        (["ä請🚀", "BSpace"], "ä請"),
    ],
)
def test_a_person_can_edit_as_in_a_real_composer(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane, keys: list[str], text: str
) -> None:
    """Scripted typists need a composer that behaves."""
    for key in keys:
        _press(tmux, pane, key)
    tmux.waits_until(pane, lambda look: _read(look).composer_text == text, what=repr(text))

    assert harness.state()["composer"] == text


def test_enter_on_an_approval_approves_and_is_told(tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane) -> None:
    """Enter on an approval approves in eight harnesses; the oracle for "answered a dialog"."""
    harness.shows("draft", "kept")
    harness.shows("approval", keep=True)
    tmux.paste(pane, DIGEST)
    harness.waits_for("ignored-paste")
    assert not harness.events("approved")

    _press(tmux, pane, "Enter")

    assert harness.waits_for("approved")[0]["by"] == "enter"
    assert harness.state()["composer"] == "kept"
    assert harness.submits() == []


@pytest.mark.parametrize(
    ("key", "event"), [("y", "approved"), ("1", "approved"), ("n", "rejected"), ("Escape", "rejected")]
)
def test_letters_answer_an_approval_at_once(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane, key: str, event: str
) -> None:
    """Why no key may be sent where a dialog may be."""
    harness.shows("approval")

    _press(tmux, pane, key)

    harness.waits_for(event)
    tmux.waits_until(pane, lambda look: _read(look).composer != "absent")


def test_a_menu_takes_the_keys_and_tells_what_was_chosen(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane
) -> None:
    """It plays a choice menu."""
    harness.shows("menu")

    _press(tmux, pane, "Down", "Enter")

    assert harness.waits_for("chosen")[0]["option"] == "Careful"


def test_typing_and_pasting_replace_a_ghost_and_tab_takes_it_over(
    tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane
) -> None:
    """A ghost suggestion is no draft until somebody takes it over."""
    harness.shows("ghost", "run the tests")
    _press(tmux, pane, "Enter")
    harness.waits_for("empty-enter")
    tmux.paste(pane, "ours")
    tmux.waits_until(pane, lambda look: holds_only(_screen(look), PROFILE, "ours"))

    harness.shows("ghost", "run the tests")
    _press(tmux, pane, "Tab")

    tmux.waits_until(
        pane, lambda look: _read(look).composer_text == "run the tests" and _read(look).composer == "draft"
    )


def test_an_exclamation_mark_at_the_start_goes_to_shell_mode(tmux: PrivateTmux, pane: libtmux.Pane) -> None:
    """A leading `!` runs a shell in six harnesses; here it only shows that it would."""
    tmux.paste(pane, "!rm -rf build")
    tmux.waits_until(pane, lambda look: _read(look).rule == "shell-mode")

    assert not holds_only(_screen(tmux.look(pane)), PROFILE, "!rm -rf build")
    _press(tmux, pane, "C-c")


def test_in_vim_normal_mode_letters_are_commands(tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane) -> None:
    """Vim normal mode is never idle."""
    harness.shows("vim-normal")

    _type(tmux, pane, "x")
    assert harness.waits_for("vim-command")[0]["text"] == "x"
    _type(tmux, pane, "i")
    harness.waits_for("vim-command", count=2)
    _type(tmux, pane, "text")

    tmux.waits_until(pane, lambda look: _read(look).composer_text == "text")


@pytest.mark.parametrize(("width", "height"), [(50, 20), (30, 12), (200, 50)])
def test_a_long_text_wraps_grows_the_composer_and_scrolls_in_it(
    tmux: PrivateTmux, harness: FakeHarness, width: int, height: int
) -> None:
    """Small panes show only the end of a digest; it must still be known as ours."""
    text = "\n".join([DIGEST, *(f"{number} and some words that need room 請看" for number in range(9)), "the end"])
    pane = tmux.new_pane(harness.command(), width=width, height=height)
    harness.state()

    tmux.paste(pane, text)

    tmux.waits_until(pane, lambda look: holds_only(_screen(look), PROFILE, text), what="the whole text")
    _type(tmux, pane, "x")
    tmux.waits_until(pane, lambda look: not holds_only(_screen(look), PROFILE, text), what="one character more")
    assert harness.state()["composer"] == text + "x"


def test_a_resized_pane_is_drawn_anew(tmux: PrivateTmux, harness: FakeHarness, pane: libtmux.Pane) -> None:
    """It runs in a real pane, which people resize."""
    harness.shows("draft", "half a thought")

    tmux.run("resize-window", "-t", str(pane.pane_id), "-x", "60", "-y", "16")

    look = tmux.waits_until(
        pane, lambda look: look.text.count("─" * 60) == 2 and _read(look).composer_text == "half a thought"
    )
    assert (look.width, look.height) == (60, 16)
    assert harness.events("resized")[-1]["size"] == [60, 16]


def test_after_a_crash_the_shell_has_the_pane_and_the_picture_stays(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """Quitting to the shell leaves `pane_pid` as it was, and a dead program may leave its picture."""
    pane = tmux.new_pane(harness.command_before_shell())
    harness.state()
    before = tmux.waits_until(pane, lambda look: _read(look).state == "idle")
    assert before.flags["pane_current_command"].startswith("python")

    harness.shows("crash")
    # the shell may have the terminal some time before its prompt is on it
    after = tmux.waits_until(
        pane,
        lambda look: look.flags["pane_current_command"] == "sh" and _read(look).state != "idle",
        what="the shell's prompt",
    )

    assert after.flags["pane_pid"] == before.flags["pane_pid"]
    assert "? for shortcuts" in after.text
    assert harness.events("exited")[0]["crashed"] is True


def test_leaving_gives_the_terminal_back(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """The same without the picture."""
    pane = tmux.new_pane(harness.command_before_shell())
    harness.state()

    harness.shows("exit")

    look = tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "sh", what="the shell")
    assert look.flags["alternate_on"] == "0"
    assert "shortcuts" not in look.text


def test_its_process_is_recognised_by_the_module_it_runs(harness: FakeHarness) -> None:
    """The foreground process group's argv must be a known harness."""
    assert recognise(harness.command(), PROFILES) == "fake"


def test_without_a_terminal_it_says_so() -> None:
    """Errors are `error: …` and `hint: …`, never a traceback."""
    answer = subprocess.run(
        [sys.executable, "-m", "wake_bridge.demo.fake_harness"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert answer.returncode == 2
    assert answer.stderr.startswith("error: ")


def test_a_fifo_controls_it_too(tmux: PrivateTmux, tmp_path: Path) -> None:
    """Scriptable from a shell with `echo`."""
    fifo = tmp_path / "control"
    os.mkfifo(fifo)
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "wake_bridge.demo.fake_harness", "--log", str(log), "--control", str(fifo)]
    pane = tmux.new_pane(command)
    tmux.waits_until(pane, lambda look: _read(look).state == "idle")

    fifo.write_text(json.dumps({"mode": "draft", "text": "from a shell"}) + "\n")

    tmux.waits_until(pane, lambda look: _read(look).composer_text == "from a shell")


@pytest.mark.parametrize("message", [{"mode": "dancing"}, {"set": {"speed": 3}}])
def test_what_it_does_not_know_it_refuses(
    harness: FakeHarness,
    pane: libtmux.Pane,  # noqa: ARG001
    message: dict[str, Any],
) -> None:
    """A typo in a test must not pass as a mode that was shown."""
    with pytest.raises(ValueError, match="there is no"):
        harness.control(**message)
