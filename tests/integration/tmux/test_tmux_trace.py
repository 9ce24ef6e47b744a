"""Whether a wake of unknown outcome has arrived after all, read from a real pane (decision 11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pytest
from wake_bridge_adapters.tmux import attempt
from wake_bridge_adapters.tmux.pane_facts import NoPane

from wake_bridge.domain.delivery import Progress, Proof
from wake_bridge.ports.adapter import Trace
from wake_bridge.testing import HUNG

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Resident, Scene


class Case:
    """A wake that may have been sent to an agent, and looks for it."""

    def __init__(self, scene: Scene, agent: Resident) -> None:
        self.scene = scene
        self.agent = agent
        self.place = scene.place(agent.id)
        self.wake = replace(scene.wake(), progress=Progress.MAYBE_SUBMITTED, fence=self.place.fence, may_begin=False)

    def trace(self) -> Trace:
        """Look where it was sent; nothing may be typed by that."""
        before = self.agent.fake.bytes_received()
        found = asyncio.run(self.scene.adapter.trace(self.place, self.scene.address(), self.wake))
        assert self.agent.fake.bytes_received() == before
        return found

    def submits(self) -> None:
        self.scene.tmux.paste(self.agent.pane, self.wake.text)
        self.scene.tmux.run("send-keys", "-t", self.agent.id, "Enter")
        self.agent.fake.waits_for("submit")

    def shows(self, text: str) -> None:
        self.scene.tmux.waits_until(self.agent.pane, lambda look: text in look.text, what=text)


@pytest.fixture
def case(scene: Scene) -> Case:
    return Case(scene, scene.resident())


def test_a_mark_in_the_transcript_has_arrived(case: Case) -> None:
    """State and outcome stay, the proof rises."""
    case.submits()
    case.shows(case.wake.mark)

    assert case.trace() == Trace(Proof.SUBMITTED, "the mark stands in the transcript")


def test_a_mark_that_has_scrolled_away_has_arrived(case: Case) -> None:
    """The scrollback as well."""
    tmux, agent = case.scene.tmux, case.agent
    tty = tmux.run("display-message", "-p", "-t", agent.id, "#{pane_tty}").strip()
    with open(tty, "w", encoding="utf-8") as terminal:  # noqa: PTH123 - a terminal, not a file
        terminal.write("\x1b[?1049l" + f"\x1b[24;1HWake: {case.wake.mark}\r\n" + "\r\n" * 40 + "\x1b[?1049h")
    agent.fake.control(say="redrawn")
    tmux.run("resize-window", "-t", agent.id, "-x", "81", "-y", "24")
    tmux.waits_until(agent.pane, lambda look: "Ask the fake agent" in look.text and look.width == 81)

    assert case.trace() == Trace(Proof.SUBMITTED, "the mark stands in the scrollback")


def test_a_scrollback_that_cannot_be_read_proves_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decision 11: nothing is announced once more where nobody could look."""

    async def unread(_: object, __: str) -> NoPane:
        return NoPane("tmux did not answer within 10 s", timed_out=True)

    monkeypatch.setattr(attempt, "scrollback_of", unread)

    found = case.trace()

    assert (found.proof, found.is_absent) == (Proof.NONE, False)
    assert found.told == "the scrollback cannot be read: tmux did not answer within 10 s"


def test_a_rest_without_it_is_its_absence(case: Case) -> None:
    """Decision 11: the agent idle, its composer empty, no mark in transcript or scrollback."""
    assert case.trace() == Trace(Proof.NONE, "the mark is not visible anywhere", is_absent=True)


UNSURE: dict[str, Callable[[Case], object]] = {
    "a turn runs": lambda case: case.agent.fake.shows("busy"),
    "a draft stands there": lambda case: case.agent.fake.shows("draft", "half a thought"),
    "a dialog stands there": lambda case: case.agent.fake.shows("approval"),
    "a menu stands there": lambda case: case.agent.fake.shows("menu"),
    "copy mode": lambda case: case.scene.tmux.run("copy-mode", "-t", case.agent.id),
    "our text stands in the composer": lambda case: case.scene.tmux.paste(case.agent.pane, case.wake.text),
}


@pytest.mark.parametrize("what", UNSURE)
def test_beside_anything_else_it_cannot_be_told(case: Case, what: str) -> None:
    """Decision 11: looking proves nothing there, so nothing is announced once more."""
    UNSURE[what](case)
    case.scene.tmux.waits_until(
        case.agent.pane,
        lambda _: what == "copy mode" or case.agent.composer() != "" or case.agent.fake.state()["mode"] != "idle",
    )

    found = case.trace()

    assert (found.proof, found.is_absent) == (Proof.NONE, False)
    assert found.told


def respawned(case: Case) -> None:
    """Another agent is started in the same pane."""
    starts = len(case.agent.fake.events("started"))
    case.scene.tmux.run("respawn-pane", "-k", "-t", case.agent.id, " ".join(case.agent.fake.command()))
    case.agent.fake.waits_for("started", starts + 1)
    case.agent.fake.control()


def test_an_agent_that_was_started_since_never_got_it(case: Case) -> None:
    """A fresh process, idle and without the mark: announcing is right."""
    respawned(case)
    case.shows("for shortcuts")

    assert case.trace().is_absent


def test_what_an_ended_agent_left_behind_proves_nothing(case: Case) -> None:
    """Decision 11: its mark may stand there in a composer that nobody can send any more."""
    respawned(case)
    case.agent.fake.control(say=f"what was here before: {case.wake.mark}")
    case.shows(case.wake.mark)

    found = case.trace()

    assert (found.proof, found.is_absent) == (Proof.NONE, False)
    assert found.told == "its mark is in text that another program left there"


def test_a_pane_that_is_gone_with_its_agent_has_it_no_more(case: Case) -> None:
    """Decision 11: nothing is left that could show it."""
    case.scene.resident("neighbour", session="neighbour")
    agent = psutil.Process(case.agent.pid)
    case.scene.tmux.run("kill-pane", "-t", case.agent.id)
    psutil.wait_procs([agent], timeout=HUNG)

    assert case.trace().is_absent


def test_a_look_elsewhere_says_nothing_of_the_agent_that_may_have_it(case: Case) -> None:
    """Decision 11: who lives somewhere else by now is looked at there, and where it was announced besides."""
    other = case.scene.resident("other", session="other")
    case.submits()
    case.shows(case.wake.mark)

    there = case.scene.place(other.id)
    found = asyncio.run(case.scene.adapter.trace(there, case.scene.address(), case.wake))

    assert (found.proof, found.is_absent) == (Proof.NONE, True)
    assert case.trace().proof is Proof.SUBMITTED


def test_a_wake_of_another_channel_is_looked_for_on_the_screen_too(case: Case) -> None:
    """Decision 11: its fence is another adapter's; the mark in the transcript is proof all the same."""
    assert case.place.fence is not None
    foreign = replace(case.wake, fence=replace(case.place.fence, pane_id="", agent_pid=1))
    case.submits()
    case.shows(case.wake.mark)

    found = asyncio.run(case.scene.adapter.trace(case.place, case.scene.address(), foreign))

    assert found.proof is Proof.SUBMITTED
