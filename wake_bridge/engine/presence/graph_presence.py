"""What HARNESS_PRESENCE rows of the graph say of agents: weak evidence against idle, never for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import Evidence, told_in_graph
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.settings import Current
from wake_bridge.ports.change_log import Json
from wake_bridge.ports.clock import Clock

READ_EVERY: Final = 1_000
"""Milliseconds for which what was read is good enough: looks are many, and nobody's state lasts so short."""

PATIENCE: Final = 0.5
"""Seconds: a busy graph holds up no look."""


class GraphPresence:
    """The rows, read once for all who ask within a second.

    Args:
        queries: asks the graph.
        current: how long such a row is fresh.
        clock: when it was read; what the rows say follows the wall.
    """

    def __init__(self, queries: GraphQueries, current: Current, clock: Clock) -> None:
        self._queries = queries
        self._current = current
        self._clock = clock
        self._rows: Sequence[Json] = ()
        self._read_at: Instant | None = None

    async def of(self, identity: Identity) -> tuple[Evidence, ...]:
        """What is said of an identity's agent now; nothing where the graph does not answer."""
        now, fresh_for_ms = self._clock.wall(), self._current.settings.fresh_for_ms
        if self._read_at is None or self._clock.now() - self._read_at >= READ_EVERY:
            self._read_at = self._clock.now()
            try:
                async with asyncio.timeout(PATIENCE):
                    self._rows = await self._queries.presences(Instant(now - fresh_for_ms))
            except (SourceError, TimeoutError):
                self._rows = ()
        found = (told_in_graph(row, now, fresh_for_ms) for row in self._rows if row.get("agentIdentity") == identity)
        return tuple(one for one in found if one is not None)
