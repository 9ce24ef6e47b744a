"""Says when the tail looks at the log again."""

from __future__ import annotations

import asyncio
from typing import Final

from wake_bridge.domain.names import to_beat
from wake_bridge.ports.change_log import ChangeSignal

DEBOUNCE: Final = 0.002
"""Seconds between a hint and its look: a flood of hints must not become a flood of looks."""


class PollTimer:
    """Says when the tail polls the log.

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
        if self._wait is not None:
            self._wait.cancel()

    async def next_poll(self) -> None:
        """Wait until the next look is due."""
        pause = (
            self._upcoming.pop(0) if self._upcoming else to_beat(self._poll_interval, asyncio.get_running_loop().time())
        )
        if await self._is_hinted_within(pause):
            self._upcoming = list(self._signal.looks_again)
            await asyncio.sleep(DEBOUNCE)

    async def close(self) -> None:
        """Stop listening."""
        await self._signal.close()

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
        self._is_poked, self._wait = False, None
        return True
