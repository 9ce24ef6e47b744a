"""Lines for monitors: handed over in two steps, so that it is known what was written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from wake_bridge.engine.sessions import monitor_lines
from wake_bridge.engine.sessions.monitor_lines import MonitorLines
from wake_bridge.testing import HUNG

S = "session-1"


Ends = Callable[[str], None]


@pytest.fixture(autouse=True)
def ends_soon(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """No patience ends in these tests but those that are named."""
    for name in ("COMES_BACK", "BEGINS_WITHIN", "WRITES_WITHIN"):
        monkeypatch.setattr(monitor_lines, name, HUNG)
    return lambda name: monkeypatch.setattr(monitor_lines, name, 0.2)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def waiting(bell: MonitorLines) -> asyncio.Task[monitor_lines.MonitorLine | None]:
    """A monitor that waits."""
    task = asyncio.create_task(bell.wait(S, HUNG))
    await asyncio.sleep(0)
    return task


def test_a_line_counts_as_written_once_its_monitor_has_said_so() -> None:
    """A ring is answered True only after both steps of the monitor."""

    async def story() -> None:
        bell = MonitorLines()
        monitor = await waiting(bell)
        ringing = asyncio.create_task(bell.ring(S, "M", "a line"))
        ring = await monitor
        assert ring is not None
        assert (ring.mark, ring.line) == ("M", "a line")
        assert bell.printing(S, "M")
        await asyncio.sleep(0)
        assert not ringing.done()
        assert bell.printed("M")
        assert await ringing is True

    run(story())


def test_nobody_who_waits_means_certainly_not_written() -> None:
    """A ring without a monitor is False at once."""

    async def story() -> None:
        bell = MonitorLines()
        assert not bell.listens(S)
        assert await bell.ring(S, "M", "a line") is False

    run(story())


def test_a_monitor_that_never_begins_may_not_begin_later(ends_soon: Ends) -> None:
    """A line that was not begun in time is certainly not written: its late monitor is told no."""
    ends_soon("BEGINS_WITHIN")

    async def story() -> None:
        bell = MonitorLines()
        monitor = await waiting(bell)
        assert await bell.ring(S, "M", "a line") is False
        assert (await monitor) is not None
        assert not bell.printing(S, "M")
        assert not bell.printed("M")

    run(story())


@pytest.mark.parametrize("is_between_two_calls", [False, True])
def test_a_monitor_that_begins_in_the_moment_in_which_the_wait_ends_has_begun(
    ends_soon: Ends, *, is_between_two_calls: bool
) -> None:
    """Who was told yes writes: a loop that stood still hears the yes and the end of its patience at once."""
    for name in ("COMES_BACK", "BEGINS_WITHIN", "WRITES_WITHIN"):
        ends_soon(name)

    async def story() -> None:
        bell = MonitorLines()
        monitor = await waiting(bell)
        if is_between_two_calls:
            monitor.cancel()
            await asyncio.gather(monitor, return_exceptions=True)
        ringing = asyncio.create_task(bell.ring(S, "M", "a line"))
        await asyncio.sleep(0)
        if not is_between_two_calls:
            await monitor
        told: list[bool] = []
        # due right after the end of the patience, and both while the loop stands still
        asyncio.get_running_loop().call_later(0.25, lambda: told.append(bell.printing(S, "M")))
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - it is the loop that stands still
        assert await ringing is (None if told == [True] else False)
        assert told == [True]

    run(story())


def test_a_monitor_that_began_and_fell_silent_leaves_it_unknown(ends_soon: Ends) -> None:
    """Between the two steps nobody can tell what was written."""
    ends_soon("WRITES_WITHIN")

    async def story() -> None:
        bell = MonitorLines()
        monitor = await waiting(bell)
        ringing = asyncio.create_task(bell.ring(S, "M", "a line"))
        await monitor
        assert bell.printing(S, "M")
        assert await ringing is None
        assert not bell.printed("M")

    run(story())


def test_a_line_is_begun_by_one_monitor_alone() -> None:
    """Two monitors of one conversation do not both write the line."""

    async def story() -> None:
        bell = MonitorLines()
        older, newer = await waiting(bell), await waiting(bell)
        ringing = asyncio.create_task(bell.ring(S, "M", "a line"))
        assert await newer is not None
        assert not older.done()
        again = await bell.wait(S, HUNG)
        assert again is not None, "a line whose monitor has not begun is there for one that calls again"
        assert [bell.printing(S, "M"), bell.printing(S, "M")] == [True, False]
        assert bell.printed("M")
        assert await ringing is True
        older.cancel()
        await asyncio.gather(older, return_exceptions=True)

    run(story())


def test_a_monitor_between_two_calls_still_listens() -> None:
    """The long poll ends every 25 s; a wake that comes just then waits for the next call."""

    async def story() -> None:
        bell = MonitorLines()
        assert await bell.wait(S, 0.01) is None
        assert bell.listens(S)
        ringing = asyncio.create_task(bell.ring(S, "M", "a line"))
        await asyncio.sleep(0.02)
        assert await bell.wait(S, HUNG) is not None
        assert bell.printing(S, "M")
        assert bell.printed("M")
        assert await ringing is True

    run(story())


def test_a_monitor_that_does_not_come_back_does_not_listen(ends_soon: Ends) -> None:
    """Whoever was once heard of is not taken for alive."""
    ends_soon("COMES_BACK")

    async def story() -> None:
        bell = MonitorLines()
        assert await bell.wait(S, 0.01) is None
        await asyncio.sleep(0.25)
        assert not bell.listens(S)
        assert await bell.ring(S, "M", "a line") is False

    run(story())


def test_another_conversation_cannot_take_a_line(ends_soon: Ends) -> None:
    """Only the monitor of the conversation itself may write it."""
    ends_soon("BEGINS_WITHIN")

    async def story() -> None:
        bell = MonitorLines()
        monitor = await waiting(bell)
        ringing = asyncio.create_task(bell.ring(S, "M", "a line"))
        await monitor
        assert not bell.printing("session-2", "M")
        assert await ringing is False

    run(story())
