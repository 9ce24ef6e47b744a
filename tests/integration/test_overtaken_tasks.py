"""A task that moved on while its agent was busy: only where it stands now is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import Outcome
from wake_bridge.domain.presence import PresenceState
from wake_bridge.testing.memory_core import EVENT_COLUMNS
from wake_bridge.testing.office import Office

GIVER, WORKER = "@giver", "@worker"

Story = Callable[[Office], Coroutine[None, None, None]]


def played(directory: Path, story: Story) -> None:
    """The giver listens for moves of tasks and is busy when the story begins."""

    async def run() -> None:
        office = Office(directory, [GIVER, WORKER], start=int(time.time() * 1000))
        for statement in EVENT_COLUMNS.strip().splitlines():
            office.core.sql(statement)
        office.subscribe(GIVER, pane="giver", trigger="TASK_STATE_CHANGED")
        office.agent("giver").state = PresenceState.ACTIVE
        async with office:
            await story(office)

    asyncio.run(run())


@pytest.mark.parametrize("typed", [False, True])
def test_only_the_last_of_several_moves_is_told(tmp_path: Path, typed: bool) -> None:
    """Superseded facts settle with no byte, whether the log has typed rows or the moves are derived."""

    async def story(office: Office) -> None:
        task = office.core.give_task(GIVER, WORKER, "a task")
        await office.reads()
        for state in ("Working", "InputRequired", "Completed"):
            office.core.move_task(task, state, typed=typed)
            await office.reads()
            await office.works()
        office.agent("giver").state = PresenceState.IDLE
        office.clock.turn(60_000)
        await office.works()
        (text,) = office.agent("giver").received
        assert "1 task transition (latest: InputRequired → Completed" in text
        assert [one.outcome for one in office.deliveries(GIVER)] == [Outcome.SUBMITTED]

    played(tmp_path, story)


def test_a_move_that_was_overtaken_by_the_listeners_own_wakes_nobody(tmp_path: Path) -> None:
    """InputRequired was told to the giver, who answered it by itself: nothing is left to tell."""

    async def story(office: Office) -> None:
        task = office.core.give_task(GIVER, WORKER, "a task")
        office.core.move_task(task, "Working")
        await office.reads()
        office.core.move_task(task, "InputRequired")
        await office.reads()
        await office.works()
        office.core.move_task(task, "Working")
        await office.reads()
        office.agent("giver").state = PresenceState.IDLE
        office.clock.turn(60_000)
        await office.works()
        assert office.agent("giver").received == []
        assert [one.outcome for one in office.deliveries(GIVER)] == [Outcome.EMPTY]

    played(tmp_path, story)


def test_a_task_that_comes_back_to_a_state_is_told_once(tmp_path: Path) -> None:
    """Twice InputRequired: the first question is answered, the second stands."""

    async def story(office: Office) -> None:
        task = office.core.give_task(GIVER, WORKER, "a task")
        office.core.move_task(task, "Working")
        await office.reads()
        for state in ("InputRequired", "Working", "InputRequired"):
            office.core.move_task(task, state)
            await office.reads()
        office.agent("giver").state = PresenceState.IDLE
        office.clock.turn(60_000)
        await office.works()
        (text,) = office.agent("giver").received
        assert "1 task transition" in text

    played(tmp_path, story)
