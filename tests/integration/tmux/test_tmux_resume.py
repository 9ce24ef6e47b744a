"""Going on where an earlier attempt was cut off: look first, submit that very text or settle, never retype."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from wake_bridge_adapters.tmux import attempt
from wake_bridge_adapters.tmux.deliver import APPEARS_WITHIN
from wake_bridge_adapters.tmux.pane_facts import NoPane, scrollback_of

from wake_bridge.domain.delivery import HoldReason, Progress, Step
from wake_bridge.ports.adapter import Delivered, Refused, Unknown, Wake

if TYPE_CHECKING:
    from wake_bridge_adapters.tmux.command import TmuxServer

    from tests.integration.tmux.conftest import Resident, Scene


class Killed(Exception):
    """The daemon was killed in this moment."""


def cut_off(scene: Scene, agent: Resident, wake: Wake, step: Step) -> None:
    """An attempt that ends the moment `step` is to be written down."""

    def dies() -> None:
        raise Killed

    scene.journal.on[step] = dies
    with pytest.raises(Killed):
        scene.deliver(agent.id, wake)
    scene.journal.on.clear()
    scene.journal.steps.clear()


AFTER = [
    (Step.STAGED, Progress.MAYBE_STAGED),
    (Step.INTENT_SUBMIT, Progress.STAGED),
    (Step.SUBMITTED, Progress.MAYBE_SUBMITTED),
]


@pytest.mark.parametrize(("step", "progress"), AFTER)
def test_an_attempt_that_was_cut_off_is_finished_without_a_second_paste(
    scene: Scene, step: Step, progress: Progress
) -> None:
    """Once text was staged the only next steps are to submit that text or to settle."""
    agent = scene.resident()
    wake = scene.wake()
    cut_off(scene, agent, wake, step)

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]
    assert len(agent.fake.events("paste")) == 1
    assert scene.journal.names[-1] == "submitted"


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED])
@pytest.mark.parametrize("mode", ["idle", "draft", "busy"])
def test_a_text_that_is_nowhere_is_unknown_and_never_pasted_again(scene: Scene, progress: Progress, mode: str) -> None:
    """Decision 10: whoever has it, or cleared it, another one might be sent beside it."""
    agent = scene.resident()
    agent.fake.shows(mode)
    wake = replace(scene.wake(), staged_ago=APPEARS_WITHIN)

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Unknown)
    assert scene.journal.names == []
    assert agent.is_untouched()


@pytest.mark.parametrize("mode", ["idle", "draft", "busy"])
def test_a_paste_of_a_moment_ago_is_waited_for_and_not_made_again(scene: Scene, mode: str) -> None:
    """Decision 10: a harness may be slow to show it; a second one would stand behind it, and be sent with it."""
    agent = scene.resident()
    agent.fake.shows(mode)
    wake = replace(scene.wake(), staged_ago=APPEARS_WITHIN - 1)

    outcome = scene.go_on(agent.id, wake, Progress.MAYBE_STAGED)

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert agent.is_untouched()


def test_a_paste_that_is_drawn_late_is_submitted_when_it_stands_there(scene: Scene) -> None:
    """Decision 10: it had no Enter yet, and all that a first one needs holds."""
    agent = scene.resident("fake", "--paste-delay", "5000")
    wake = scene.wake()
    before = scene.deliver(agent.id, wake)
    agent.fake.waits_for("paste")

    outcome = scene.go_on(agent.id, replace(wake, staged_ago=5_000), Progress.MAYBE_STAGED)

    assert isinstance(before, Refused)
    assert isinstance(outcome, Delivered)
    assert agent.fake.submits() == [wake.text]
    assert agent.enters() == 1


def test_a_paste_that_is_not_read_yet_is_waited_for_as_long_as_that_lasts(scene: Scene) -> None:
    """Decision 10: while its bytes lie in the terminal it is known where they are."""
    agent = scene.resident("fake", "--paste-read-delay", "60000")
    wake = scene.wake()
    scene.deliver(agent.id, wake)

    outcome = scene.go_on(agent.id, replace(wake, staged_ago=APPEARS_WITHIN), Progress.MAYBE_STAGED)

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert "not read yet" in outcome.detail


def test_an_enter_that_shows_late_is_seen_by_whoever_looks_on(scene: Scene) -> None:
    """Decision 10: the text stays staged, and is submitted once the mark stands in the transcript."""
    agent = scene.resident("fake", "--echo-delay", "7000", "--dialog-after-submit")
    wake = scene.wake()
    before = scene.deliver(agent.id, wake)
    agent.fake.waits_for("submit")

    outcome = scene.go_on(agent.id, wake, Progress.MAYBE_SUBMITTED)

    assert isinstance(before, Refused)
    assert isinstance(outcome, Delivered)
    assert agent.enters() == 1
    assert agent.fake.events("approved") == []


@pytest.mark.parametrize(("width", "height"), [(80, 3), (12, 11), (9, 40)])
@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_text_that_a_small_pane_shows_a_piece_of_is_not_taken_for_gone(
    scene: Scene, progress: Progress, width: int, height: int
) -> None:
    """The composer may be out of sight, or show the end of the mark alone; when there is room it is seen."""
    agent = scene.resident()
    wake = scene.wake()
    cut_off(scene, agent, wake, Step.INTENT_SUBMIT)
    scene.tmux.run("resize-window", "-t", agent.id, "-x", str(width), "-y", str(height))
    agent.tmux.waits_until(agent.pane, lambda look: (look.width, look.height) == (width, height))
    agent.fake.waits_for("resized")

    outcome = scene.go_on(agent.id, wake, progress)

    if progress is Progress.MAYBE_SUBMITTED:
        assert isinstance(outcome, Refused), outcome
        assert agent.fake.submits() == []
    else:
        assert isinstance(outcome, Refused | Delivered), outcome
    assert len(agent.fake.events("paste")) == 1
    assert agent.enters() <= 1


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_composer_that_shows_a_piece_of_our_text_may_hold_all_of_it(scene: Scene, progress: Progress) -> None:
    """What of the mark is out of sight is not gone."""
    agent = scene.resident()
    wake = scene.wake()
    agent.fake.shows("draft", wake.text[-20:])

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Refused), outcome
    assert agent.is_untouched()


def test_a_pane_made_small_after_enter_is_looked_at_again(scene: Scene) -> None:
    """That a text is "neither in the composer nor in the transcript" is said only where both can be seen."""
    agent = scene.resident("fake", "--echo-delay", "7000")
    wake = scene.wake()

    def shrinks_after_enter() -> None:
        agent.tmux.waits_until(agent.pane, lambda _: agent.enters() == 1)
        scene.tmux.run("resize-window", "-t", agent.id, "-x", "80", "-y", "3")

    with ThreadPoolExecutor(1) as person:
        done = person.submit(shrinks_after_enter)
        pressed = scene.deliver(agent.id, wake)
        done.result()
    scene.tmux.run("resize-window", "-t", agent.id, "-x", "80", "-y", "24")
    agent.fake.waits_for("submit")

    assert isinstance(pressed, Refused), pressed
    assert isinstance(scene.go_on(agent.id, wake, Progress.MAYBE_SUBMITTED), Delivered)
    assert agent.enters() == 1


def test_a_pane_that_moved_since_the_look_that_proved_it_idle_is_looked_at_again(scene: Scene) -> None:
    """Two looks must agree; the attempt's own first look is compared with the one that decided."""
    agent = scene.resident()
    place = scene.place(agent.id)
    asyncio.run(scene.adapter.observe(place, scene.address()))
    scene.tmux.run("select-pane", "-t", agent.id, "-T", "▪ another title")

    outcome = scene.deliver_at(place, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.ACTIVE
    assert agent.is_untouched()


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_text_that_the_person_submitted_is_delivered(scene: Scene, progress: Progress) -> None:
    """The mark in the transcript is the proof, whoever pressed Enter."""
    agent = scene.resident()
    wake = scene.wake()
    cut_off(scene, agent, wake, Step.STAGED)
    scene.tmux.run("send-keys", "-t", agent.id, "Enter")
    agent.fake.waits_for("submit")

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Delivered)
    assert scene.journal.names == ["submitted"]
    assert agent.enters() == 1


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_text_with_a_persons_words_beside_it_is_left_to_the_person(scene: Scene, progress: Progress) -> None:
    """Staged, unsubmitted, reported; never submitted together."""
    agent = scene.resident()
    wake = scene.wake()
    cut_off(scene, agent, wake, Step.STAGED)
    scene.tmux.run("send-keys", "-t", agent.id, "-l", "and")
    agent.tmux.waits_until(agent.pane, lambda _: agent.composer().endswith("and"))

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert agent.enters() == 0


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
@pytest.mark.parametrize("mode", ["approval", "busy"])
def test_a_staged_text_waits_behind_a_dialog_or_a_turn(scene: Scene, progress: Progress, mode: str) -> None:
    """Enter on an approval approves; a busy Codex would cut its answer."""
    agent = scene.resident()
    wake = scene.wake()
    cut_off(scene, agent, wake, Step.STAGED)
    agent.fake.shows(mode, keep=True)

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Refused)
    assert agent.enters() == 0
    assert agent.fake.events("approved") == []


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_mark_above_a_known_dialog_was_submitted(scene: Scene, progress: Progress) -> None:
    """The turn that our wake began may ask for an approval at once."""
    agent = scene.resident()
    wake = scene.wake()
    agent.fake.control(say=wake.text)
    agent.fake.shows("approval")

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Delivered)
    assert agent.is_untouched()


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_screen_without_a_composer_proves_nothing(scene: Scene, progress: Progress) -> None:
    """What merely hides the composer may go on showing our unsent text."""
    agent = scene.resident()
    wake = scene.wake()
    agent.fake.control(say=wake.text)
    agent.fake.shows("menu")

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Refused)
    assert scene.journal.names == []
    assert agent.is_untouched()


def test_enter_that_may_have_been_pressed_and_left_no_trace_is_unknown(scene: Scene) -> None:
    """A crash after `intent_submit` is uncertain; if it cannot be decided, never type it again."""
    agent = scene.resident()

    outcome = scene.go_on(agent.id, scene.wake(), Progress.MAYBE_SUBMITTED)

    assert isinstance(outcome, Unknown)
    assert agent.is_untouched()


def test_a_mark_that_scrolled_away_is_found_in_the_scrollback(scene: Scene) -> None:
    """Look for the mark on screen and in the scrollback."""
    agent = scene.resident()
    wake = scene.wake()
    tty = scene.tmux.run("display-message", "-p", "-t", agent.id, "#{pane_tty}").strip()
    with open(tty, "w", encoding="utf-8") as terminal:  # noqa: PTH123 - a terminal, not a file
        terminal.write("\x1b[?1049l" + f"\x1b[24;1HWake: {wake.mark}\r\n" + "\r\n" * 40 + "\x1b[?1049h")
    agent.fake.control(say="redrawn")
    scene.tmux.run("resize-window", "-t", agent.id, "-x", "81", "-y", "24")
    agent.tmux.waits_until(agent.pane, lambda look: "Ask the fake agent" in look.text and look.width == 81)

    outcome = scene.go_on(agent.id, wake, Progress.MAYBE_SUBMITTED)

    assert isinstance(outcome, Delivered)
    assert agent.is_untouched()


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_text_that_lands_while_the_scrollback_is_read_is_not_taken_for_sent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, progress: Progress
) -> None:
    """Decision 10: the scrollback is read with the screen, on which our text may just have come to stand unsent."""
    agent = scene.resident()
    wake = scene.wake()

    async def lands(server: TmuxServer, pane_id: str) -> str | NoPane:
        await asyncio.to_thread(agent.fake.shows, "draft", wake.text)
        return await scrollback_of(server, pane_id)

    monkeypatch.setattr(attempt, "scrollback_of", lands)

    outcome = scene.go_on(agent.id, wake, progress)

    assert isinstance(outcome, Refused), outcome
    assert scene.journal.names == []
    assert agent.is_untouched()


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_a_scrollback_that_cannot_be_read_proves_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, progress: Progress
) -> None:
    """It is called unknown only where the mark is provably in neither screen nor scrollback."""
    agent = scene.resident()
    wake = scene.wake()
    looks = []

    async def unread(_: object, pane_id: str) -> NoPane:
        looks.append(pane_id)
        return NoPane("tmux did not answer within 10 s", timed_out=True)

    monkeypatch.setattr(attempt, "scrollback_of", unread)

    outcome = scene.go_on(agent.id, wake, progress)

    assert looks == [agent.id, agent.id]
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.detail) == (
        HoldReason.UNREACHABLE,
        "the scrollback cannot be read: tmux did not answer within 10 s",
    )
    assert agent.fake.events("paste") == []


@pytest.mark.parametrize("progress", [Progress.MAYBE_STAGED, Progress.STAGED, Progress.MAYBE_SUBMITTED])
def test_another_agent_in_the_same_pane_is_not_the_one_that_was_typed_at(scene: Scene, progress: Progress) -> None:
    """The fence holds the agent's process; behind a broken one nothing can be known, also where our text stands there."""
    agent = scene.resident()
    wake = scene.wake()
    fence = scene.place(agent.id).fence
    assert fence is not None
    cut_off(scene, agent, wake, Step.INTENT_SUBMIT)
    assert agent.composer() == wake.text

    outcome = scene.go_on(agent.id, replace(wake, fence=replace(fence, agent_started="0")), progress)

    assert isinstance(outcome, Unknown), outcome
    assert agent.composer() == wake.text
    assert agent.enters() == 0


def test_a_fresh_attempt_behind_a_broken_fence_is_refused(scene: Scene) -> None:
    """All of the fence must hold; nothing was typed, so that the wake can go elsewhere."""
    agent = scene.resident()
    fence = scene.place(agent.id).fence
    assert fence is not None

    outcome = scene.deliver(agent.id, replace(scene.wake(), fence=replace(fence, pane_started="0")))

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.UNREACHABLE
    assert agent.is_untouched()


def test_a_wake_seen_submitted_is_not_touched_again(scene: Scene) -> None:
    """Never knowingly submitted twice."""
    agent = scene.resident()

    outcome = scene.go_on(agent.id, scene.wake(), Progress.SUBMITTED)

    assert isinstance(outcome, Delivered)
    assert agent.is_untouched()
    assert scene.journal.names == []


def test_nothing_is_pasted_behind_what_an_earlier_wake_left_standing(scene: Scene) -> None:
    """Text in the composer is a draft, also when it is ours: it is finished or reported, never added to."""
    agent = scene.resident()
    cut_off(scene, agent, scene.wake(), Step.INTENT_SUBMIT)
    before = agent.fake.bytes_received()

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.USER_TYPING
    assert agent.fake.bytes_received() == before
