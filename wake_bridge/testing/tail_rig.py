"""The tail on real things: a graph file, a ledger, hints; and what it put into the ledger, for tests to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.engine.tail.tail import Tail
from wake_bridge.ports.change_log import ChangeLog
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger_records import PageRecord, Position, TaskState
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.signal import SilentSignal, signal_for
from wake_bridge.storage.graph.upstream import LastSyncId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing import HUNG

PATIENCE: Final = HUNG
"""Seconds to wait for what must come."""


class RecordingLedger(LedgerStore):
    """A real ledger that also remembers, in order, which events were new."""

    recorded: list[WakeEvent]

    def begin_epoch(
        self,
        position: Position,
        tasks: Sequence[TaskState],
        reason: str,
        now: Instant,
        events: Sequence[WakeEvent] = (),
    ) -> list[WakeEvent]:
        """See `Ledger.begin_epoch`."""
        new = super().begin_epoch(position, tasks, reason, now, events)
        self.recorded.extend(new)
        return new

    def advance(self, page: PageRecord, now: Instant) -> list[WakeEvent]:
        """See `Ledger.advance`."""
        new = super().advance(page, now)
        self.recorded.extend(new)
        return new


class TailRig:
    """A tail that follows a graph while the context lasts.

    Args:
        graph: the graph file.
        state: the state directory; made if absent.
        hints: whether file events are listened to.
        log: the change log; the graph file's own if not given.
    """

    def __init__(
        self,
        graph: Path,
        state: Path,
        *,
        rules: MatchingRules | None = None,
        poll_interval: float = 0.05,
        hints: bool = True,
        clock: Clock | None = None,
        log: ChangeLog | None = None,
    ) -> None:
        state.mkdir(exist_ok=True)
        self.rules = rules or MatchingRules()
        self.complaints: list[str] = []
        self.nudges = 0
        self.rerouted: list[Identity] = []
        self.log = log or SqliteGraph(graph)
        self.ledger = RecordingLedger.open(state)
        self.ledger.recorded = []
        self.cursor_file = LastSyncId(state)
        self.tail = Tail(
            self.log,
            self.ledger,
            signal_for(graph, self.complaints.append, enabled=True) if hints else SilentSignal(),
            self.cursor_file,
            clock or SteadyClock(),
            new_ulid,
            rules=lambda: self.rules,
            poll_interval=poll_interval,
            on_events=self._nudge,
            on_rerouted=self.rerouted.append,
        )
        self._running: asyncio.Task[None] | None = None

    def _nudge(self) -> None:
        self.nudges += 1

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.tail.run())
        begun = asyncio.create_task(self.tail.begun.wait())
        await asyncio.wait({self._running, begun}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        begun.cancel()
        if self._running.done():
            await self.close()
            self._running.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        await self.close()

    async def close(self) -> None:
        """Close tail and ledger, run or not."""
        await self.tail.close()
        self.ledger.close()

    @property
    def woken(self) -> list[WakeEvent]:
        """New open events, in order."""
        return [event for event in self.ledger.recorded if event.status is EventStatus.OPEN]

    @property
    def refused(self) -> list[WakeEvent]:
        """New refused events, in order."""
        return [event for event in self.ledger.recorded if event.status is EventStatus.REFUSED]

    def is_at_the_tip(self) -> bool:
        """Whether all rows of the last look were read."""
        return self.tail.cursor >= self.tail.tip

    async def until(self, holds: Callable[[], bool], within: float = PATIENCE) -> None:
        """Wait until something holds; raises `TimeoutError`."""
        async with asyncio.timeout(within):
            while not holds():  # noqa: ASYNC110 - what holds is seen from outside, nobody sets an event
                await asyncio.sleep(0.005)

    async def reaches(self, log_id: int, within: float = PATIENCE) -> None:
        """Wait until the tail has looked at a row and all before it."""
        await self.until(lambda: self.tail.cursor >= log_id, within)
