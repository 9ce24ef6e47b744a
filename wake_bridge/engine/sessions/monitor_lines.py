"""Lines for the monitors that wait inside a harness, each handed over in two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final

LONGEST_WAIT: Final = 25.0
"""Seconds a monitor is kept waiting before it is asked to call again."""

COMES_BACK: Final = 1.0
"""Seconds between two calls of a monitor during which it still counts as waiting."""

BEGINS_WITHIN: Final = 2.0
"""Seconds a monitor has to say that it is about to write; after that it may not any more."""

WRITES_WITHIN: Final = 3.0
"""Seconds it then has to say that the line is out."""


@dataclass(slots=True)
class MonitorLine:
    """One line for one conversation, and how far its monitor has got with it."""

    session_id: str
    mark: str
    line: str
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)


class MonitorLines:
    """Who waits, and what is being handed over."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[MonitorLine]]] = {}
        self._left_at: dict[str, float] = {}
        self._rings: dict[str, MonitorLine] = {}

    def listens(self, session_id: str) -> bool:
        """Whether a monitor of the conversation waits, or did a moment ago and will call again."""
        left_at = self._left_at.get(session_id)
        return bool(self._waiting.get(session_id)) or (
            left_at is not None and asyncio.get_running_loop().time() - left_at < COMES_BACK
        )

    async def wait(self, session_id: str, patience: float = LONGEST_WAIT) -> MonitorLine | None:
        """The monitor's side: the next line for it; None when there was none within `patience` seconds."""
        untaken = next((one for one in self._rings.values() if _is_for(one, session_id)), None)
        if untaken is not None:
            return untaken
        waiter: asyncio.Future[MonitorLine] = asyncio.get_running_loop().create_future()
        waiters = self._waiting.setdefault(session_id, [])
        waiters.append(waiter)
        try:
            async with asyncio.timeout(patience):
                return await waiter
        except TimeoutError:
            return None
        finally:
            waiters.remove(waiter)
            if not waiters:
                self._waiting.pop(session_id, None)
            now = asyncio.get_running_loop().time()
            self._left_at = {one: at for one, at in self._left_at.items() if now - at < COMES_BACK} | {session_id: now}

    def printing(self, session_id: str, mark: str) -> bool:
        """The monitor is about to write the line: whether it still may."""
        ring = self._rings.get(mark)
        if ring is None or ring.session_id != session_id or ring.begun.is_set():
            return False
        ring.begun.set()
        return True

    def printed(self, mark: str) -> bool:
        """The monitor has written the line: whether anybody still waits to hear so."""
        ring = self._rings.get(mark)
        if ring is None or not ring.begun.is_set():
            return False
        ring.written.set()
        return True

    def leave(self, session_id: str) -> None:
        """The conversation has ended: its monitor does not come back."""
        self._left_at.pop(session_id, None)

    async def ring(self, session_id: str, mark: str, line: str) -> bool | None:
        """See `Sessions.ring`."""
        if any(one.session_id == session_id for one in self._rings.values()):
            return False
        ring = self._rings[mark] = MonitorLine(session_id, mark, line)
        try:
            if await self._hand_to_monitor(ring):
                await _within(BEGINS_WITHIN, ring.begun.wait())
            # once it has begun nobody can call it back, also where the wait ended in the same moment; until then nothing
            # can have been written
            if not ring.begun.is_set():
                return False
            return True if await _within(WRITES_WITHIN, ring.written.wait()) else None
        finally:
            del self._rings[mark]

    async def _hand_to_monitor(self, ring: MonitorLine) -> bool:
        """Give the line to the monitor that called last; one between two calls is waited for."""
        if not self.listens(ring.session_id):
            return False
        if not self._waiting.get(ring.session_id):
            # it calls again at once, finds the line and begins
            return await _within(COMES_BACK, ring.begun.wait())
        for waiter in reversed(self._waiting[ring.session_id]):
            if not waiter.done():
                waiter.set_result(ring)
                return True
        return False


def _is_for(ring: MonitorLine, session_id: str) -> bool:
    return ring.session_id == session_id and not ring.begun.is_set()


async def _within(patience: float, event: Awaitable[object]) -> bool:
    try:
        async with asyncio.timeout(patience):
            await event
    except TimeoutError:
        return False
    return True
