"""Where a daemon can be made to die or to stand still: every step of the journal, and nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import Step
from wake_bridge.testing.crash_points import CRASH, HALT, STEPS, Halt, Moments, Point


def test_every_journalled_step_can_be_died_at() -> None:
    """A testing wrapper kills the process before or after step N."""
    assert {step.value for step in Step} < set(STEPS)


@pytest.mark.parametrize("text", ["intent_submit:after", "matched:before", "locked:after:2"])
def test_a_point_reads_as_it_is_written(text: str) -> None:
    """`WAKE_BRIDGE_TEST_CRASH` names step, side and, if it is not the first, which time."""
    assert str(Point.parse(text)) == text


@pytest.mark.parametrize("text", ["", "staged", "staged:during", "stage:after", "staged:after:x", "staged:after:1:1"])
def test_a_point_that_does_not_exist_is_refused(text: str) -> None:
    """A trial that never dies would prove nothing."""
    with pytest.raises(ValueError, match="no such point"):
        Point.parse(text)


def test_a_halt_without_a_directory_is_refused() -> None:
    """A daemon that nobody can let go on would stand for ever."""
    with pytest.raises(ValueError, match="no such halt"):
        Moments.planned({HALT: "staged:after"})


def test_moments_that_were_not_planned_pass_by() -> None:
    """The seam is wired only in testing; without a plan nothing happens."""
    moments = Moments.planned({CRASH: "staged:after:2"})
    moments.meet("staged", "before")
    moments.meet("staged", "after")
    moments.meet("locked", "after")


def test_a_daemon_stands_still_each_time_until_it_is_let_go(tmp_path: Path) -> None:
    """What happens at a moment is done while the daemon stands there."""
    point = Point("staged", "after")
    moments = Moments.planned({HALT: f"{point}@{tmp_path}"})
    halt = Halt(point, tmp_path)
    passed: list[int] = []

    def live() -> None:
        for turn in range(2):
            moments.meet("staged", "after")
            passed.append(turn)

    daemon = threading.Thread(target=live)
    daemon.start()
    for turn in range(2):
        halt.waits_until_reached()
        assert passed == list(range(turn))
        halt.go()
    daemon.join()
    assert passed == [0, 1]
