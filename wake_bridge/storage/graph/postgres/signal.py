"""Hints from PostgreSQL: a connection of its own that listens. Its loss is harmless, for nothing is gated by a hint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

import psycopg

from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.storage.graph.postgres.connection import CHANNEL, connect_options, explained, libpq_defaults
from wake_bridge.storage.graph.postgres.graph import HINTED_EVERY

LISTEN_AGAIN_AFTER: Final = (1.0, 5.0, 30.0)
"""Seconds until a connection that was lost is made again; the last for all further times."""

LATER_BY: Final = 0.1
"""Part of a time-out by which it may be longer: hosts that lost the server together do not ask in step for ever."""

LOOKS_UP_EVERY: Final = 60.0
"""Seconds; a notice is heard at once. psycopg's own 0.1 is for threads that have to hear Ctrl-C, and an idle daemon's main cost."""

LOOKS_APART: Final = 0.25
"""Seconds between two looks that notices bring about: many hosts write, and each look at news costs server and daemon some
milliseconds, however little is new. A notice after a pause is told at once."""

Waited = TypeVar("Waited")


class _Listener(psycopg.AsyncConnection[tuple[Any, ...]]):
    async def wait(self, gen: Generator[Any, Any, Waited], *_: Any, **kwargs: Any) -> Waited:
        return await super().wait(gen, **{**kwargs, "interval": LOOKS_UP_EVERY})


class PostgresSignal:
    """See `ChangeSignal`.

    Args:
        place: the database.
        report: told once, in a clause, when there can be no hints.
    """

    # a notice comes after its commit, and speaks for what is committed until there may be the next one
    looks_again: Sequence[float] = (HINTED_EVERY,)
    later_by: float = LATER_BY

    def __init__(self, place: GraphUrl, report: Callable[[str], None]) -> None:
        self._place = place
        self._report = report
        self._hint = asyncio.Event()
        self._told_at = -LOOKS_APART
        self._listening: asyncio.Task[None] | None = None

    async def wait(self, timeout: float) -> bool:
        """See `ChangeSignal.wait`; True comes no sooner than `LOOKS_APART` after the last time."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="listen to the graph")
        try:
            async with asyncio.timeout(timeout):
                await self._hint.wait()
        except TimeoutError:
            return False
        now = asyncio.get_running_loop().time
        await asyncio.sleep(self._told_at + LOOKS_APART - now())
        self._told_at = now()
        # what is notified until here is for this look
        self._hint.clear()
        return True

    async def close(self) -> None:
        """See `ChangeSignal.close`."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        self._listening = None

    async def _listen(self) -> None:
        """Hint at every notice; what cannot be had is reported once and tried again."""
        failures, is_reported = 0, False
        while True:
            try:
                with libpq_defaults(self._place):
                    connection = await _Listener.connect(
                        self._place.text, autocommit=True, prepare_threshold=None, **connect_options(self._place)
                    )
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    failures = 0
                    # what was committed before, nobody hints at any more
                    self._hint.set()
                    async for _ in connection.notifies():
                        self._hint.set()
            except (psycopg.Error, OSError) as error:
                if not is_reported and isinstance(error, psycopg.Error):
                    self._report(
                        f"{explained(error, self._place).what}: a look every graph.poll_interval finds the rest"
                    )
                is_reported = True
            failures += 1
            await asyncio.sleep(LISTEN_AGAIN_AFTER[min(failures, len(LISTEN_AGAIN_AFTER)) - 1])
