"""Says when the tail looks at the log again."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

from wake_bridge.ports.change_log import ChangeSignal

DEBOUNCE: Final = 0.002
"""Seconds between a hint and its look: a flood of hints must not become a flood of looks."""


REPORTS_EVERY: Final = 10.0
"""Seconds after which the tail looks itself, though its thread has seen no change: so everybody knows that it lives."""

LooksOut = Callable[[threading.Event, Sequence[float]], asyncio.Future[bool]]
"""Has the log looked at after each pause but the last, in seconds, until it changed, cannot be read, or the event is set."""


class PollTimer:
    """Says when the tail polls the log.

    Without a hint the log is looked at by the tail's own thread: as long as nothing changes the loop is not woken for it.

    Args:
        poll_interval: seconds to the next look when nobody hints.
    """

    def __init__(self, signal: ChangeSignal, poll_interval: float) -> None:
        self._signal = signal
        self._poll_interval = poll_interval
        self._is_poked = False
        self._wait: asyncio.Future[bool] | None = None
        self._upcoming: list[float] = []

    def poke(self) -> None:
        """Somebody knows of a change."""
        self._is_poked = True
        self._end_wait()

    async def next_poll(self, looks_out: LooksOut) -> None:
        """Wait until the next look is due."""
        if self._upcoming:
            is_hinted = await self._is_hinted_within(self._upcoming.pop(0))
        else:
            is_hinted = await self._is_hinted_before(looks_out)
        if is_hinted:
            self._upcoming = list(self._signal.looks_again)
            await asyncio.sleep(DEBOUNCE)

    async def close(self) -> None:
        """Stop listening."""
        await self._signal.close()

    async def _is_hinted_before(self, looks_out: LooksOut) -> bool:
        """Whether a hint or a poke came before the thread saw a change, or has looked out for long enough."""
        over = threading.Event()
        count = max(1, round(REPORTS_EVERY / self._poll_interval))
        later = 1 + self._signal.later_by
        pauses = [self._poll_interval * random.uniform(1, later) for _ in range(count)]  # noqa: S311 - no secret
        looking = looks_out(over, pauses)
        looking.add_done_callback(self._end_wait)
        try:
            # what hangs must not keep the tail from saying so
            return await self._is_hinted_within(2 * sum(pauses))
        finally:
            looking.remove_done_callback(self._end_wait)
            over.set()

    def _end_wait(self, _: object = None) -> None:
        if self._wait is not None:
            self._wait.cancel()

    async def _is_hinted_within(self, seconds: float) -> bool:
        """Whether a hint or a poke came before the time was over. One task, for this is what an idle daemon does."""
        if not self._is_poked:
            self._wait = asyncio.ensure_future(self._signal.wait(seconds))
            try:
                await asyncio.wait((self._wait,))
            except asyncio.CancelledError:
                self._wait.cancel()
                await asyncio.gather(self._wait, return_exceptions=True)
                raise
            if not self._wait.cancelled():
                return self._wait.result()
        is_poked, self._is_poked, self._wait = self._is_poked, False, None
        return is_poked
