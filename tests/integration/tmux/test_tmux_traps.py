"""tmux's traps, each shown to be real (docs/tmux-notes.md): what the adapter would fall into if it asked tmux plainly."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING

import psutil

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import Typist
from wake_bridge.testing import until

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene


def test_tmux_takes_a_prefix_of_a_session_for_its_name(scene: Scene) -> None:
    """Names match by prefix, and `=` keeps them from it."""
    agent = scene.resident(session="bill-2")

    assert scene.tmux.run("display-message", "-p", "-t", "bill:", "#{pane_id}").strip() == agent.id
    assert scene.tmux.run("display-message", "-p", "-t", "=bill:", "#{pane_id}").strip() == ""


def test_a_target_behind_the_key_is_taken_for_more_keys(scene: Scene) -> None:
    """Options end at the first key; the key then goes to whichever pane is current."""
    meant, current = scene.resident("meant", session="a"), scene.resident("current", session="b")

    scene.tmux.run("send-keys", "-H", "0d", "-t", meant.id)

    current.fake.waits_for("bytes")
    assert current.fake.bytes_received() == b"\r"
    assert meant.is_untouched()


def test_a_paste_goes_through_copy_mode_unframed_and_a_key_does_not(scene: Scene) -> None:
    """Pasted into a pane in copy mode, a text would arrive as typed keys and be left behind unsent."""
    agent = scene.resident()
    scene.tmux.run("copy-mode", "-t", agent.id)

    scene.tmux.paste(agent.pane, "left behind")
    scene.tmux.run("send-keys", "-t", agent.id, "-H", "0d")

    agent.fake.waits_for("bytes")
    assert agent.fake.bytes_received() == b"left behind"


def test_enter_goes_to_every_pane_of_a_synchronised_window_and_a_paste_to_one(scene: Scene) -> None:
    """So that a staged text is submitted here, and whatever stands there as well."""
    agent = scene.resident()
    beside = FakeHarness(scene.directory, "beside")
    scene.tmux.run("split-window", "-t", agent.id, shlex.join(beside.command()))
    beside.control()
    scene.tmux.run("set-option", "-w", "-t", agent.id, "synchronize-panes", "on")

    scene.tmux.paste(agent.pane, "text")
    scene.tmux.run("send-keys", "-t", agent.id, "-H", "0d")

    agent.fake.waits_for("submit")
    beside.waits_for("bytes")
    assert beside.bytes_received() == b"\r"


def test_a_condition_for_a_pane_that_is_gone_is_evaluated_all_the_same(scene: Scene) -> None:
    """Which is why the pane's id is part of every condition."""
    scene.resident()

    said = scene.tmux.run("if-shell", "-F", "-t", "%99", "#{==:#{pane_id},}", "display-message -p no-pane-and-yet")

    assert said.strip() == "no-pane-and-yet"


def test_a_list_goes_on_after_a_buffer_that_could_not_be_loaded(scene: Scene) -> None:
    """An error ends a list of commands, but not one that comes while a command waits for its stdin."""
    scene.resident()

    answer = scene.tmux._call("load-buffer", "-b", "x", "/nonexistent", ";", "display-message", "-p", "and on")

    assert answer.returncode == 1
    assert answer.stdout.strip() == "and on"


def test_keys_of_a_control_client_leave_no_trace_in_the_activity(scene: Scene) -> None:
    """`session_activity` fences people at terminals; iTerm2's control mode is fenced by the cursor alone."""
    agent = scene.resident()
    command = ["tmux", "-u", "-L", scene.tmux.socket_name, "-C", "attach-session", "-t", "=agents"]
    with Typist(command) as client:
        client.waits_until_shown()
        scene.waits_until_quiet()
        before = scene.tmux.run("list-clients", "-F", "#{client_activity} #{session_activity}")

        client.types(f"send-keys -t {agent.id} -l x\n")
        agent.fake.waits_for("bytes")

        assert scene.tmux.run("list-clients", "-F", "#{client_activity} #{session_activity}") == before != ""


def test_tmux_sets_its_own_children_going_again(scene: Scene) -> None:
    """A stopped agent is one behind a shell; tmux continues a pane's first process at once."""
    agent = scene.resident()
    os.kill(agent.pid, signal.SIGSTOP)

    until(lambda: psutil.Process(agent.pid).status() != psutil.STATUS_STOPPED)
    assert agent.composer() == ""


def test_tmux_drops_the_marks_of_a_letter_that_has_many(scene: Scene) -> None:
    """What the screen shows is then not what was pasted, and our text would never stand alone."""
    few, many = "Z" + "\u0300\u0489" * 4, "Y" + "\u0300\u0489" * 40
    pane = scene.tmux.new_pane(f"printf '%s\\n' '{few}' '{many}'; exec sleep 60", session="marks")

    shown = scene.tmux.waits_until(pane, lambda look: "Y" in look.text, what="both lines").text

    assert few in shown
    assert "Y" + "\u0300\u0489" * 4 in shown
    assert many not in shown
