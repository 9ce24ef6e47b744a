"""When the tail looks next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from wake_bridge.engine.tail.poll_timer import PollTimer
from wake_bridge.storage.graph.signal import LOOKS_AGAIN
from wake_bridge.testing import HUNG

pytestmark = pytest.mark.anyio

FAR = 1e9
"""Seconds between two beats; nobody's clock is close to one."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ScriptedSignal:
    """Hints when its script says so, at once; writes down how long each wait might have been, 9 s for longer."""

    looks_again: Sequence[float] = LOOKS_AGAIN

    def __init__(self, *script: bool) -> None:
        self.script = list(script)
        self.waits: list[float] = []

    async def wait(self, timeout: float) -> bool:
        self.waits.append(min(timeout, 9.0))
        return self.script.pop(0) if self.script else False

    async def close(self) -> None:
        """Nothing to stop."""


async def test_after_a_hint_it_looks_at_once_and_at_5_20_and_60_ms() -> None:
    """Events can come before the commit is visible; look anyway every `poll_interval`."""
    signal = ScriptedSignal(False, True)
    timer = PollTimer(signal, poll_interval=FAR)
    for _ in range(7):
        await timer.next_poll()
    assert signal.waits == [9.0, 9.0, 0.005, 0.015, 0.040, 9.0, 9.0]


async def test_another_hint_begins_the_looks_anew() -> None:
    """One send is 4–12 transactions."""
    signal = ScriptedSignal(True, False, True)
    timer = PollTimer(signal, poll_interval=FAR)
    for _ in range(6):
        await timer.next_poll()
    assert signal.waits == [9.0, 0.005, 0.015, 0.005, 0.015, 0.040]


async def test_a_poke_ends_a_wait() -> None:
    """Commands poke the daemon; it need not wait for the next look."""

    class Silence(ScriptedSignal):
        async def wait(self, timeout: float) -> bool:
            await asyncio.sleep(timeout)
            return False

    timer = PollTimer(Silence(), poll_interval=10 * HUNG)
    waiting = asyncio.create_task(timer.next_poll())
    await asyncio.sleep(0)
    timer.poke()
    await asyncio.wait_for(waiting, HUNG)
