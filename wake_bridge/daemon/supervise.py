"""Keeps the daemon's jobs running together, restarts one that failed, and stops all of them in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from wake_bridge.domain.errors import LedgerUnwritable, SourceError
from wake_bridge.ports.clock import Clock

Job = Callable[[], Awaitable[None]]

RESTARTS: Final = 5
"""Restarts of one job within `RESTART_PERIOD` before the daemon gives up and lets the service manager start it anew."""

RESTART_PERIOD: Final = 60_000
"""Milliseconds."""

PAUSE: Final = 1.0
"""Seconds before a fallen job is started again."""


class Supervisor:
    """Runs jobs until told to stop.

    A job that raises is logged and started again after a pause; one that keeps falling ends the whole daemon with its
    error, so that nothing half works in silence. A ledger that cannot be written for now is no fall: it is waited for.
    """

    def __init__(self, jobs: Mapping[str, Job], clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._log = structlog.get_logger("supervise")

    async def run(self, stop: asyncio.Event) -> None:
        """Run all jobs until `stop` is set, then cancel them; raises what a job raised once too often."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._keep(name, job), name=name) for name, job in self._jobs.items()]
            await stop.wait()
            for task in running:
                task.cancel()

    async def _keep(self, name: str, job: Job) -> None:
        falls: deque[int] = deque(maxlen=RESTARTS)
        trouble = ""
        while True:
            try:
                await job()
            except SourceError:
                raise
            except LedgerUnwritable as away:
                if str(away) != trouble:
                    self._log.warning("ledger_away", job=name, reason=str(away), hint=away.hint)
                trouble = str(away)
                await asyncio.sleep(PAUSE)
            except Exception as error:
                self._log.exception("job_fell", job=name, reason=str(error))
                falls.append(self._clock.now())
                if len(falls) == RESTARTS and falls[-1] - falls[0] < RESTART_PERIOD:
                    raise
                await asyncio.sleep(PAUSE)
            else:
                return
