from __future__ import annotations

import time
from pathlib import Path

import libtmux
import pytest

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux, Typist


@pytest.fixture
def harness(tmp_path: Path) -> FakeHarness:
    return FakeHarness(tmp_path)


def _start(tmux: PrivateTmux, harness: FakeHarness, *options: str) -> libtmux.Pane:
    pane = tmux.new_pane(harness.command(*options))
    harness.state()
    return pane


def _enter(tmux: PrivateTmux, pane: libtmux.Pane) -> None:
    tmux.run("send-keys", "-t", str(pane.pane_id), "Enter")


def test_the_first_enters_are_swallowed_when_told_so(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """Swallowed Enter."""
    pane = _start(tmux, harness, "--swallow-enter", "2")
    tmux.paste(pane, "hello")

    for _ in range(3):
        _enter(tmux, pane)

    harness.waits_for("submit")
    assert len(harness.events("swallowed")) == 2
    assert harness.submits() == ["hello"]


def test_a_slow_paste_is_shown_later_and_an_enter_behind_it_waits_its_turn(
    tmux: PrivateTmux, harness: FakeHarness
) -> None:
    """Slow paste."""
    pane = _start(tmux, harness, "--paste-delay", "400")
    tmux.paste(pane, "hello")
    _enter(tmux, pane)

    harness.waits_for("submit")
    arrived, handled = harness.events("bytes")[0]["at"], harness.events("paste")[0]["at"]
    assert handled - arrived >= 400
    assert harness.submits() == ["hello"]


def test_keys_are_shown_only_after_the_echo_delay(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """A key sent but not yet echoed leaves the cursor where it was."""
    pane = _start(tmux, harness, "--echo-delay", "500")
    before = tmux.look(pane)

    tmux.run("send-keys", "-t", str(pane.pane_id), "x")
    tmux.waits_until(pane, lambda look: look.cursor == (before.cursor[0] + 1, before.cursor[1]), what="the echo")

    assert time.time() * 1000 - harness.events("bytes")[0]["at"] >= 500


def test_a_dialog_can_come_up_right_after_a_paste(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """A composer that vanished means that a dialog came up."""
    pane = _start(tmux, harness, "--dialog-after-paste")

    tmux.paste(pane, "hello")

    tmux.waits_until(pane, lambda look: "Allow this command?" in look.text)
    assert harness.state()["mode"] == "approval"
    harness.shows("idle", keep=True)
    tmux.waits_until(pane, lambda look: "➤ hello" in look.text, what="the staged text again")


def test_long_pastes_fold_into_a_chip_and_are_submitted_whole(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """Some harnesses fold pastes; what is submitted is the text."""
    pane = _start(tmux, harness, "--chip-lines", "3")

    tmux.paste(pane, "one\ntwo\nthree")
    tmux.waits_until(pane, lambda look: "➤ [Pasted text #1 +2 lines]" in look.text)
    _enter(tmux, pane)

    harness.waits_for("submit")
    assert harness.submits() == ["one\ntwo\nthree"]


def test_after_a_submit_it_is_busy_and_runs_what_it_was_told_to(
    tmux: PrivateTmux, harness: FakeHarness, tmp_path: Path
) -> None:
    """Two agents that answer each other are played by a command that runs on every submit."""
    note = tmp_path / "note"
    pane = _start(
        tmux,
        harness,
        "--reply-after",
        "300",
        "--on-submit",
        f'printf %s "$WAKE_BRIDGE_TEST_FAKE_TEXT" > {note}; echo done',
    )

    tmux.paste(pane, "first $(line)\nsecond")
    _enter(tmux, pane)
    tmux.waits_until(pane, lambda look: "esc to interrupt" in look.text, what="busy")
    harness.waits_for("answered")

    assert note.read_text() == "first $(line)\nsecond"
    (ran,) = harness.events("on-submit")
    assert (ran["status"], ran["output"]) == (0, "done\n")
    assert ran["at"] - harness.events("submit")[0]["at"] >= 300
    assert harness.state()["mode"] == "idle"


def test_a_wake_makes_it_read_its_inbox(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """The digest is a doorbell; the agent then reads its mail, and nothing but a wake makes it do so."""
    pane = _start(tmux, harness, "--inbox-command", "echo mail for you")

    tmux.paste(pane, "hello")
    _enter(tmux, pane)
    harness.waits_for("answered")
    assert harness.events("inbox") == []
    tmux.paste(pane, "[WAKE] 1 event for @neo:")
    _enter(tmux, pane)

    assert harness.waits_for("inbox")[0]["output"] == "mail for you\n"
    tmux.waits_until(pane, lambda look: "● mail for you" in look.text)


def test_knobs_turn_while_it_runs(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """Modes and knobs are switched by the test while the program runs."""
    pane = _start(tmux, harness)
    harness.turn(swallow_enter=1)
    tmux.paste(pane, "hello")

    _enter(tmux, pane)

    harness.waits_for("swallowed")
    assert harness.submits() == []


def test_a_typist_at_a_real_client_types_into_the_pane(tmux: PrivateTmux, harness: FakeHarness) -> None:
    """A scripted typist presses keys on an attached client, at times of the test's choosing."""
    pane = _start(tmux, harness)
    typist = tmux.attach()
    typist.waits_until_shown()

    began = time.time()
    pressed = typist.types_at([(0.0, "ab"), (0.2, "c")])

    tmux.waits_until(pane, lambda look: "➤ abc" in look.text)
    # the first key may be late, and the second one is not for that
    assert pressed[1] - began >= 0.2
    assert harness.bytes_received() == b"abc"
    assert tmux.run("list-clients", "-F", "#{client_pid}").split() == [str(typist.pid)]


def test_the_private_server_and_its_clients_are_gone_afterwards(
    tmux_program: str,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """Own socket, and nothing is left running."""
    with PrivateTmux() as tmux:
        harness = FakeHarness(tmp_path)
        _start(tmux, harness)
        typist: Typist = tmux.attach()
        typist.waits_until_shown()
        assert tmux.server_pid > 0
        assert tmux.socket_path == Path(tmux.run("display-message", "-p", "#{socket_path}").strip())

    assert tmux.server_pid == 0
    assert not tmux.socket_path.exists()
    assert typist.process.poll() is not None
    harness.waits_for("exited")
