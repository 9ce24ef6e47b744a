"""What comes in between a look and a key: tmux itself sees it, and does nothing.

Every race is played in its worst moment: between the last look and the guarded command, while the journal is written.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.ports.adapter import Delivered, Refused, Unknown

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Resident, Scene


def copy_mode(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("copy-mode", "-t", agent.id)


def input_off(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("select-pane", "-d", "-t", agent.id)


def synchronized(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("set-option", "-w", "-t", agent.id, "synchronize-panes", "on")


def resized(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("resize-window", "-t", agent.id, "-x", "100", "-y", "30")


def dialog(_scene: Scene, agent: Resident) -> None:
    agent.fake.shows("approval", keep=True)
    agent.tmux.waits_until(agent.pane, lambda look: "Allow this command?" in look.text)


def draft(_scene: Scene, agent: Resident) -> None:
    agent.fake.shows("draft", "half a thought")
    agent.tmux.waits_until(agent.pane, lambda look: "half a thought" in look.text)


def gone_to_its_shell(_scene: Scene, agent: Resident) -> None:
    agent.fake.shows("crash")
    agent.tmux.waits_until(agent.pane, lambda look: not look.flags["pane_current_command"].startswith("python"))


INTRUSIONS = [copy_mode, input_off, synchronized, dialog, draft, gone_to_its_shell]


@pytest.mark.parametrize("intrusion", [*INTRUSIONS, resized])
def test_nothing_is_pasted_into_a_pane_that_changed_after_the_look(
    scene: Scene, intrusion: Callable[[Scene, Resident], None]
) -> None:
    """Check and paste are one step inside tmux; what came in between refuses it."""
    agent = scene.resident(shell=True)
    scene.journal.on[Step.INTENT_STAGE] = lambda: intrusion(scene, agent)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert scene.journal.names == ["probed", "intent_stage", "refused"]
    assert agent.is_untouched()


@pytest.mark.parametrize("intrusion", [*INTRUSIONS, resized])
def test_enter_is_not_pressed_on_a_pane_that_changed_after_the_look(
    scene: Scene, intrusion: Callable[[Scene, Resident], None]
) -> None:
    """Enter on an approval approves, and in a shell it runs; it is held back by tmux itself."""
    agent = scene.resident(shell=True)
    scene.journal.on[Step.INTENT_SUBMIT] = lambda: intrusion(scene, agent)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert scene.journal.names[-2:] == ["intent_submit", "refused"]
    assert agent.enters() == 0
    assert agent.fake.events("approved") == []


def busy(_scene: Scene, agent: Resident) -> None:
    agent.fake.shows("busy", keep=True)


def words_beside_ours(scene: Scene, agent: Resident) -> None:
    scene.tmux.run("send-keys", "-t", agent.id, "-l", " and more")
    agent.tmux.waits_until(agent.pane, lambda look: "and more" in look.text)


@pytest.mark.parametrize("intrusion", [*INTRUSIONS, busy, words_beside_ours])
def test_a_look_before_enter_sees_what_came_into_the_gap(
    scene: Scene, intrusion: Callable[[Scene, Resident], None]
) -> None:
    """Look once more before Enter; what is seen there is not even begun."""
    agent = scene.resident(shell=True)
    scene.journal.on[Step.STAGED] = lambda: intrusion(scene, agent)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused | Unknown)
    assert scene.journal.names == ["probed", "intent_stage", "staged"]
    assert agent.enters() == 0
    assert agent.fake.events("approved") == []


@pytest.mark.parametrize("echo", ["0", "1500"], ids=["echoed at once", "not echoed yet"])
def test_a_key_that_precedes_the_paste_keeps_the_draft_to_itself(scene: Scene, echo: str) -> None:
    """If a person's key precedes the condition, the draft is byte-identical and nothing of ours is there.

    A key that was sent and not yet echoed leaves the cursor where it was: there the client's activity tells.
    """
    agent = scene.resident("fake", "--echo-delay", echo)
    typist = scene.watcher(agent.id)

    def types() -> None:
        typist.types("x")
        agent.fake.waits_for("bytes")

    scene.journal.on[Step.INTENT_STAGE] = types

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert scene.journal.names == ["probed", "intent_stage", "refused"]
    assert agent.fake.bytes_received() == b"x"


@pytest.mark.parametrize("echo", ["0", "1500"], ids=["echoed at once", "not echoed yet"])
def test_a_key_that_follows_the_paste_is_never_submitted_with_it(scene: Scene, echo: str) -> None:
    """If it follows the paste, our text is staged, unsubmitted, reported; never submitted together."""
    agent = scene.resident()
    typist = scene.watcher(agent.id)

    def types() -> None:
        agent.fake.turn(echo_delay=int(echo))
        before = len(agent.fake.events("bytes"))
        typist.types("x")
        agent.fake.waits_for("bytes", before + 1)

    scene.journal.on[Step.INTENT_SUBMIT] = types

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert agent.enters() == 0
    assert agent.fake.submits() == []


def test_a_key_in_the_gap_between_paste_and_enter_is_seen(scene: Scene) -> None:
    """Look once more before Enter."""
    agent = scene.resident()
    typist = scene.watcher(agent.id)

    def types() -> None:
        before = len(agent.fake.events("bytes"))
        typist.types("x")
        agent.fake.waits_for("bytes", before + 1)

    scene.journal.on[Step.STAGED] = types

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert scene.journal.names[-1] == "staged"
    assert agent.enters() == 0


def test_a_client_that_attaches_meanwhile_holds_the_paste_back(scene: Scene) -> None:
    """None active in the window; one that comes may type at once."""
    agent = scene.resident()
    scene.journal.on[Step.INTENT_STAGE] = lambda: scene.tmux.attach().waits_until_shown()

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert agent.is_untouched()


def test_keys_in_another_session_that_shows_the_same_window_count(scene: Scene) -> None:
    """A linked window has several sessions, and a key in any of them goes to its active pane."""
    agent = scene.resident("fake", "--echo-delay", "1500")
    scene.tmux.run("new-session", "-d", "-s", "viewer", "cat")
    scene.tmux.run("link-window", "-s", agent.id, "-t", "=viewer:7")
    scene.watcher(agent.id)
    viewer = scene.tmux.attach("viewer")
    viewer.waits_until_shown()
    scene.tmux.run("select-window", "-t", "=viewer:7")
    scene.waits_until_quiet()

    def types() -> None:
        viewer.types("x")
        agent.fake.waits_for("bytes")

    scene.journal.on[Step.INTENT_STAGE] = types

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert scene.journal.names[-1] == "refused"
    assert agent.fake.bytes_received() == b"x"


def test_keys_in_the_pane_beside_hinder_nothing(scene: Scene) -> None:
    """Keys in other panes do not count: five agents beside an editor must not wait all day."""
    agent = scene.resident()
    editor = scene.tmux.run("split-window", "-P", "-F", "#{pane_id}", "-t", agent.id, "cat").strip()
    typist = scene.watcher(editor)
    typist.types("x")
    scene.journal.on[Step.INTENT_STAGE] = lambda: typist.types("y")
    scene.journal.on[Step.INTENT_SUBMIT] = lambda: typist.types("z")

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1


def test_a_key_shortly_before_is_typing(scene: Scene) -> None:
    """A key within `typing_quiet` of a client whose current pane is this one, drafted or not."""
    agent = scene.resident()
    typist = scene.watcher(agent.id)
    typist.types("x\x7f")
    agent.fake.waits_for("bytes")
    agent.tmux.waits_until(agent.pane, lambda look: "Ask the fake agent" in look.text)

    verdict = scene.verdict(agent.id)
    outcome = scene.deliver(agent.id, scene.wake())

    assert verdict.rule == "client-key"
    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.USER_TYPING
    assert scene.journal.names == []


def test_keys_count_for_every_pane_of_a_synchronised_window(scene: Scene) -> None:
    """All panes of the window when synchronised."""
    agent = scene.resident()
    beside = scene.tmux.run("split-window", "-P", "-F", "#{pane_id}", "-t", agent.id, "cat").strip()
    typist = scene.watcher(beside)
    typist.types("\x1b[I")  # a focus report: a key to tmux, nothing to the pane
    scene.waits_until_told_of_a_key()
    rules = {one.rule for one in scene.observe(agent.id).evidence}
    scene.tmux.run("set-option", "-w", "-t", agent.id, "synchronize-panes", "on")

    assert "client-key" not in rules
    assert "client-key" in {one.rule for one in scene.observe(agent.id).evidence}


def test_a_client_with_a_pane_of_its_own_counts_for_its_whole_window(
    scene: Scene, tmux_version: tuple[int, int]
) -> None:
    """Tmux tells such a client by the window's active pane, whichever it types into."""
    if tmux_version >= (3, 8):
        pytest.skip("tmux 3.8 knows no active-pane clients any more")
    agent = scene.resident()
    scene.tmux.run("split-window", "-t", agent.id, "cat")
    typist = scene.tmux.attach()
    typist.waits_until_shown()
    client = scene.tmux.run("list-clients", "-F", "#{client_name}").strip()
    scene.tmux.run("refresh-client", "-t", client, "-f", "active-pane")
    typist.types("\x1b[I")

    assert "client-key" in {one.rule for one in scene.observe(agent.id).evidence}


def test_a_pane_that_moved_since_it_was_proven_idle_is_left_alone(scene: Scene) -> None:
    """One fresh sample must agree with the older one."""
    agent = scene.resident()
    scene.observe(agent.id)
    agent.fake.control(say="one more thing")
    agent.tmux.waits_until(agent.pane, lambda look: "one more thing" in look.text)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.ACTIVE
    assert scene.journal.names == []
    assert agent.is_untouched()


def test_the_pane_killed_after_the_paste_is_unknown(scene: Scene) -> None:
    """What cannot be known is reported as unknown."""
    agent, _other = scene.resident(), scene.resident("other")
    scene.journal.on[Step.STAGED] = lambda: scene.tmux.run("kill-pane", "-t", agent.id)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Unknown)
    assert scene.journal.names == ["probed", "intent_stage", "staged"]


def test_an_agent_that_dies_of_enter_is_unknown(scene: Scene) -> None:
    """Without proof it is unknown, and never typed again."""
    agent = scene.resident(shell=True)

    def kills_it(after: int) -> None:
        agent.fake.waits_for("bytes", after)
        os.kill(agent.pid, signal.SIGKILL)

    def dies_once_enter_is_read() -> None:
        agent.fake.turn(echo_delay=5000)
        threading.Thread(target=kills_it, args=(len(agent.fake.events("bytes")) + 1,)).start()

    scene.journal.on[Step.INTENT_SUBMIT] = dies_once_enter_is_read

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Unknown)
    assert scene.journal.names[-1] == "intent_submit"
    assert agent.enters() == 1
    assert agent.fake.submits() == []


PARKED = """
import os, sys, tty
tty.setraw(0)
log = open(sys.argv[1], "ab", 0)
def draw(text):
    os.write(1, b"\\x1b[2J\\x1b[20;1H> " + text + b"\\x1b[22;1H")
draw(b"\\x1b[7m \\x1b[0m\\x1b[38;5;8mType your message here\\x1b[0m")
while chunk := os.read(0, 4096):
    log.write(chunk)
    draw(chunk + b"\\x1b[7m \\x1b[0m")
"""

PROFILE = """
name = "parked"
[recognise]
commands = ["parked"]
[composer]
glyph = "> "
column = 0
frame = "none"
anchor = "reversed"
[composer.placeholder]
strings = " Type your message here"
style = { fg = "8" }
"""


def test_where_the_cursor_is_parked_the_placeholder_must_still_stand(scene: Scene) -> None:
    """Where a harness parks the real cursor elsewhere, the placeholder tells that nobody typed."""
    program, log = scene.directory / "parked.py", scene.directory / "log"
    program.write_text(PARKED)
    profiles = scene.directory / "profiles"
    profiles.mkdir()
    (profiles / "parked.toml").write_text(PROFILE)
    scene.adapter = scene.new_adapter(screens_directory=str(profiles))
    pane = scene.tmux.new_pane([sys.executable, str(program), str(log)])
    target = str(pane.pane_id)
    scene.tmux.waits_until(pane, lambda look: "Type your message" in look.text)
    cursor = scene.tmux.look(pane).cursor

    def types() -> None:
        scene.tmux.run("send-keys", "-t", target, "-l", "x")
        scene.tmux.waits_until(pane, lambda look: "> x" in look.text)

    scene.journal.on[Step.INTENT_STAGE] = types

    outcome = scene.deliver(target, scene.wake())

    assert isinstance(outcome, Refused)
    assert scene.journal.names == ["probed", "intent_stage", "refused"], outcome
    assert scene.tmux.look(pane).cursor == cursor
    assert log.read_bytes() == b"x"
