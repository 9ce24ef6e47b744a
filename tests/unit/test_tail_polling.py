"""When the tail looks next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from wake_bridge.domain.errors import SourceUnavailable
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.engine.tail.log_reader import LogReader
from wake_bridge.engine.tail.poll_timer import REPORTS_EVERY, PollTimer
from wake_bridge.ports.change_log import ChangeLog
from wake_bridge.storage.graph.postgres.signal import LOOKS_APART, PostgresSignal
from wake_bridge.storage.graph.signal import LOOKS_AGAIN
from wake_bridge.testing import HUNG
from wake_bridge.testing.turned_clock import TurnedClock, live

pytestmark = pytest.mark.anyio

FAR = 1e9
"""Seconds between two beats; nobody's clock is close to one."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ScriptedSignal:
    """Hints when its script says so, at once; writes down how long each wait might have been, 9 s for longer."""

    looks_again: Sequence[float] = LOOKS_AGAIN
    later_by: float = 0.0

    def __init__(self, *script: bool) -> None:
        self.script = list(script)
        self.waits: list[float] = []

    async def wait(self, timeout: float) -> bool:
        self.waits.append(min(timeout, 9.0))
        return self.script.pop(0) if self.script else False

    async def close(self) -> None:
        """Nothing to stop."""


class LooksOut:
    """What the tail's thread was asked to do; it sees a change when the test says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[bool]] = []
        self.pauses: list[Sequence[float]] = []
        self.over: list[threading.Event] = []

    def __call__(self, over: threading.Event, pauses: Sequence[float]) -> asyncio.Future[bool]:
        self.asked.append(asyncio.get_running_loop().create_future())
        self.pauses.append(pauses)
        self.over.append(over)
        return self.asked[-1]


class Silence(ScriptedSignal):
    """Nobody hints."""

    async def wait(self, timeout: float) -> bool:
        await asyncio.sleep(timeout)
        return False


async def test_after_a_hint_it_looks_at_once_and_at_5_20_and_60_ms() -> None:
    """Events can come before the commit is visible; look anyway every `poll_interval`."""
    signal = ScriptedSignal(False, True)
    timer = PollTimer(signal, poll_interval=FAR)
    for _ in range(7):
        await timer.next_poll(LooksOut())
    assert signal.waits == [9.0, 9.0, 0.005, 0.015, 0.040, 9.0, 9.0]


async def test_another_hint_begins_the_looks_anew() -> None:
    """One send is 4–12 transactions."""
    signal = ScriptedSignal(True, False, True)
    timer = PollTimer(signal, poll_interval=FAR)
    for _ in range(6):
        await timer.next_poll(LooksOut())
    assert signal.waits == [9.0, 0.005, 0.015, 0.005, 0.015, 0.040]


async def test_a_poke_ends_a_wait() -> None:
    """Commands poke the daemon; it need not wait for the next look."""
    timer = PollTimer(Silence(), poll_interval=10 * HUNG)
    waiting = asyncio.create_task(timer.next_poll(LooksOut()))
    await asyncio.sleep(0)
    timer.poke()
    await asyncio.wait_for(waiting, HUNG)


async def test_as_long_as_nothing_changes_the_loop_is_not_woken_for_a_look() -> None:
    """An idle daemon: the thread looks every `poll_interval`, and says nothing until there is news."""
    looks_out, timer = LooksOut(), PollTimer(Silence(), poll_interval=1.0)
    waiting = asyncio.create_task(timer.next_poll(looks_out))
    await asyncio.sleep(0)
    (asked,), (pauses,), (over,) = looks_out.asked, looks_out.pauses, looks_out.over
    assert pauses == [1.0] * int(REPORTS_EVERY)
    assert not over.is_set()
    asked.set_result(False)
    await asyncio.wait_for(waiting, HUNG)
    assert over.is_set()
    another = asyncio.create_task(timer.next_poll(looks_out))
    await asyncio.sleep(0)
    assert len(looks_out.asked) == 2, "there was no hint: no looks follow at 5, 20 and 60 ms"
    another.cancel()
    await asyncio.wait([another])
    assert looks_out.over[1].is_set(), "else the thread would look on when the daemon stops"


async def test_a_hint_ends_what_the_thread_does() -> None:
    """The next question must not wait for its pause."""
    looks_out = LooksOut()
    await PollTimer(ScriptedSignal(True), poll_interval=FAR).next_poll(looks_out)
    assert [one.is_set() for one in looks_out.over] == [True]


@pytest.mark.parametrize(
    ("answers", "looks"),
    [
        ([(1, 1, 1)] * 3, 3),
        ([(1, 1, 1), (1, 1, 2)], 2),
        ([SourceUnavailable("it is locked")], 1),
    ],
)
def test_the_thread_looks_out_for_a_change_or_for_trouble(answers: list[object], looks: int) -> None:
    """Whatever it is, the look that follows says so; so none is needed after the last pause."""
    log = Mock(spec=ChangeLog)
    log.heal.return_value = False
    log.version.side_effect = answers
    LogReader(log).look_out((1, 1, 1), threading.Event(), [0.0] * 4)
    assert log.version.call_count == looks


def test_the_thread_does_not_look_once_it_is_over() -> None:
    """Somebody hinted: the tail asks by itself."""
    log, over = Mock(spec=ChangeLog), threading.Event()
    over.set()
    LogReader(log).look_out((1, 1, 1), over, [0.0] * 3)
    assert log.version.call_count == 0


def test_of_a_flood_of_notices_four_a_second_are_told_and_the_first_at_once() -> None:
    """Each look at news costs the server and every host some milliseconds, however little is new."""
    told: list[float] = []

    async def story() -> None:
        signal, now = PostgresSignal(GraphUrl("postgresql:///wake"), lambda _: None), asyncio.get_running_loop().time

        async def notices() -> None:
            await asyncio.sleep(5)
            while True:
                signal._hint.set()
                await asyncio.sleep(0.01)

        began, signal._listening = now(), asyncio.create_task(notices())
        while now() < began + 10:
            if await signal.wait(1.0):
                told.append(now() - began)
        await signal.close()

    live(TurnedClock(1_000_000_000_000), story())
    assert told[0] == pytest.approx(5, abs=0.01)
    assert len(told) == pytest.approx(5 / LOOKS_APART, abs=2)
