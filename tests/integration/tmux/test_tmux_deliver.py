"""One attempt: compare and paste, see it land, submit once, prove it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from wake_bridge_adapters.pane_lock import pane_lock
from wake_bridge_adapters.screens.profile_file import BUNDLED, load_profiles

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step
from wake_bridge.ports.adapter import Delivered, Failed, Refused, Unknown
from wake_bridge.ports.leases import KEY_WITHIN

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene

PASTE_START, PASTE_END = b"\x1b[200~", b"\x1b[201~"


def test_a_wake_is_pasted_in_one_frame_and_submitted_once(scene: Scene) -> None:
    """One framed paste, one Enter, and a proof; the agent gets the text byte for byte."""
    agent = scene.resident()
    wake = scene.wake()

    outcome = scene.deliver(agent.id, wake)

    assert isinstance(outcome, Delivered)
    assert outcome.proof is Proof.SUBMITTED
    assert agent.fake.submits() == [wake.text]
    assert agent.fake.bytes_received() == PASTE_START + wake.text.encode() + PASTE_END + b"\r"


def test_each_step_is_written_down_before_the_key_it_stands_for(scene: Scene) -> None:
    """`await journal(step, evidence)` returns after it is on disk; only then the key is sent."""
    agent = scene.resident()
    seen: dict[Step, bytes] = {}

    def remembers(step: Step) -> Callable[[], object]:
        return lambda: seen.update({step: agent.fake.bytes_received()})

    scene.journal.on = {step: remembers(step) for step in Step}

    scene.deliver(agent.id, scene.wake())

    assert scene.journal.names == ["probed", "intent_stage", "staged", "intent_submit", "submitted"]
    assert seen[Step.INTENT_STAGE] == b""
    assert b"\r" not in seen[Step.INTENT_SUBMIT]
    assert seen[Step.STAGED].endswith(PASTE_END)
    assert seen[Step.SUBMITTED].endswith(b"\r")


def test_no_other_pane_gets_a_byte(scene: Scene) -> None:
    """The paste and Enter name their pane; tmux sends a key without one to whichever is current."""
    agent = scene.resident("first", session="bill")
    twin = scene.resident("twin", session="bill")
    last = scene.resident("last", session="bill-2")
    scene.tmux.run("select-window", "-t", twin.id)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1
    assert twin.is_untouched()
    assert last.is_untouched()


@pytest.mark.parametrize("failing", [Step.PROBED, Step.INTENT_STAGE])
def test_a_journal_that_fails_before_the_paste_leaves_the_pane_untouched(scene: Scene, failing: Step) -> None:
    """If the journal raises, no further key is sent."""
    agent = scene.resident()

    def fails() -> None:
        raise OSError("disk full")

    scene.journal.on[failing] = fails

    with pytest.raises(OSError, match="disk full"):
        scene.deliver(agent.id, scene.wake())

    assert agent.is_untouched()


@pytest.mark.parametrize("failing", [Step.STAGED, Step.INTENT_SUBMIT])
def test_a_journal_that_fails_before_enter_leaves_the_text_unsent(scene: Scene, failing: Step) -> None:
    """If the journal raises, no further key is sent."""
    agent = scene.resident()

    def fails() -> None:
        raise OSError("disk full")

    scene.journal.on[failing] = fails

    with pytest.raises(OSError, match="disk full"):
        scene.deliver(agent.id, scene.wake())

    assert agent.enters() == 0
    assert agent.fake.submits() == []


def test_an_enter_whose_time_is_over_is_held_back_by_tmux_itself(scene: Scene) -> None:
    """The tmux server stands still from the commit on, with the command in its queue: what it presses later is nothing."""
    agent, wake = scene.resident(), scene.wake()
    scene.journal.seconds = KEY_WITHIN
    server = int(scene.tmux.run("display-message", "-p", "#{pid}"))

    def stands_still() -> None:
        os.kill(server, signal.SIGSTOP)
        threading.Timer(KEY_WITHIN + 0.2, os.kill, (server, signal.SIGCONT)).start()

    scene.journal.on[Step.INTENT_SUBMIT] = stands_still
    outcome = scene.deliver(agent.id, wake)
    assert isinstance(outcome, Refused)
    assert (agent.enters(), agent.fake.submits()) == (0, [])
    assert scene.journal.names[-2:] == ["intent_submit", "refused"]
    assert scene.tmux.run("show-options", "-s", "-q", "-v", "@wake_bridge_time") == ""

    del scene.journal.on[Step.INTENT_SUBMIT]
    again = scene.go_on(agent.id, wake, Progress.STAGED)
    assert isinstance(again, Delivered)
    assert agent.enters() == 1


@pytest.fixture
def swallowing(scene: Scene) -> Scene:
    """The fake harness's profile says that it is known to ignore an Enter."""
    bundled = (BUNDLED / "fake.toml").read_text(encoding="utf-8")
    screens = scene.directory / "screens"
    screens.mkdir()
    (screens / "fake.toml").write_text(bundled.replace("[paste]\n", "[paste]\nswallows_enter = true\n", 1))
    scene.adapter = scene.new_adapter(screens_directory=str(screens))
    return scene


@pytest.mark.parametrize("swallowed", [1, 3])
def test_where_a_harness_is_known_to_swallow_it_enter_is_pressed_again(swallowing: Scene, swallowed: int) -> None:
    """Decision 10: then at most three times, while our own text provably still stands there."""
    scene = swallowing
    agent = scene.resident("fake", "--swallow-enter", str(swallowed))

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1
    assert agent.enters() == swallowed + 1
    assert scene.journal.names.count("intent_submit") == swallowed + 1


def test_no_bundled_profile_says_that_enter_is_swallowed() -> None:
    """Decision 10: it takes 1,000 trials on the real program under load, which were made for none."""
    assert [name for name, profile in load_profiles().items() if profile.paste.swallows_enter] == []


@pytest.mark.parametrize("delay", [1500, 4500])
def test_an_enter_that_is_taken_late_is_not_pressed_again(scene: Scene, delay: int) -> None:
    """Decision 10: a second one would answer whatever the turn that the first began asks."""
    agent = scene.resident("fake", "--echo-delay", str(delay), "--dialog-after-submit")

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert agent.enters() == 1
    assert agent.fake.events("approved") == []


def test_an_enter_that_does_nothing_is_reported_and_left_alone(scene: Scene) -> None:
    """Decision 10: whether it was swallowed or is only late cannot be seen; the text stays `staged`, and a person is told."""
    agent = scene.resident("fake", "--swallow-enter", "99")
    wake = scene.wake()

    outcome = scene.deliver(agent.id, wake)
    later = scene.go_on(agent.id, wake, Progress.MAYBE_SUBMITTED)

    for one in (outcome, later):
        assert isinstance(one, Refused)
        assert (one.reason, one.detail) == (
            HoldReason.STAGED,
            "Enter was pressed, and our text still stands there",
        )
    assert agent.enters() == 1
    assert agent.fake.submits() == []


def test_a_slow_paste_is_waited_for(scene: Scene) -> None:
    """Enter comes the profile's gap after the text was seen to land, not after it was sent."""
    agent = scene.resident("fake", "--paste-delay", "1000")
    wake = scene.wake()

    outcome = scene.deliver(agent.id, wake)

    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]


def test_enter_keeps_the_harnesss_distance_from_the_paste(scene: Scene) -> None:
    """Wait the profile's gap; an Enter that comes too early becomes a line break of the paste."""
    agent = scene.resident()

    scene.deliver(agent.id, scene.wake())

    assert scene.journal.times[Step.INTENT_SUBMIT] - scene.journal.times[Step.STAGED] >= 0.3


def test_a_dialog_after_the_paste_gets_no_enter(scene: Scene) -> None:
    """A composer that vanished means that a dialog came up, and Enter would approve it."""
    agent = scene.resident("fake", "--dialog-after-paste")

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert agent.enters() == 0
    assert agent.fake.events("approved") == []


def test_a_folded_paste_is_known_by_its_chip(scene: Scene) -> None:
    """Where the harness folds pastes, its chip stands for the mark."""
    agent = scene.resident("fake", "--chip-lines", "3")
    wake = scene.wake()

    outcome = scene.deliver(agent.id, wake)

    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]


@pytest.mark.parametrize("width", [200, 40, 24])
def test_a_text_that_wraps_is_recognised(scene: Scene, width: int) -> None:
    """Our mark is found however the harness wraps it."""
    agent = scene.resident(width=width, height=30)
    wake = scene.wake()

    outcome = scene.deliver(agent.id, wake)

    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]


def test_a_pane_behind_a_zoomed_one_is_woken_all_the_same(scene: Scene) -> None:
    """A pane is addressed by its id, seen or not."""
    agent = scene.resident()
    scene.tmux.run("split-window", "-t", agent.id, "cat", ";", "resize-pane", "-Z")

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1


def test_an_attached_client_that_is_quiet_hinders_nothing(scene: Scene) -> None:
    """`session_activity` unchanged since the first look is as good as no client."""
    agent = scene.resident()
    scene.watcher(agent.id)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1


def test_only_one_writer_at_a_time_has_a_pane(scene: Scene) -> None:
    """One writer per pane; without the lock nothing is sent."""
    agent = scene.resident()
    place = scene.place(agent.id)
    assert place.fence is not None

    with pane_lock(place.fence.socket, place.fence.server_pid, agent.id):
        outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.BUSY_PANE
    assert agent.is_untouched()


@pytest.mark.parametrize("text", ["{mark} \x1b[201~\r", "no mark at all", "tab\t{mark}"])
def test_a_text_that_could_press_a_key_is_never_pasted(scene: Scene, text: str) -> None:
    """C0 and ESC are removed before; if one ever came this far it would go no further."""
    agent = scene.resident()

    outcome = scene.deliver(agent.id, scene.wake(text))

    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert agent.is_untouched()


def test_a_text_of_format_and_shell_signs_is_only_text(scene: Scene) -> None:
    """The text goes through stdin into a buffer; no shell and no format ever sees it."""
    agent = scene.resident()
    wake = scene.wake("[WAKE] #{pid} #(touch x) $(touch x) `touch x` ; ' \" \\ %1 -t -- ~ {mark}")

    outcome = scene.deliver(agent.id, wake)

    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]


def test_a_crash_after_the_paste_gets_no_enter(scene: Scene) -> None:
    """An agent that ended left its terminal to a shell, where Enter would run the text."""
    agent = scene.resident(shell=True)
    scene.journal.on[Step.STAGED] = lambda: agent.fake.shows("crash")

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Unknown)
    assert agent.enters() == 0
    assert "intent_submit" not in scene.journal.names
    assert "not found" not in agent.look().text
