"""Coarse, regular chores; the only module that knows the scheduler (DESIGN §8: it only calls `tick`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

Chore = Callable[[], Awaitable[None] | None]


class Housekeeping:
    """Runs chores at intervals on the running loop; a chore that raises is logged and runs again next time."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("housekeeping")
        # a laptop that slept must neither skip a chore nor make up for every missed one
        self._scheduler = AsyncIOScheduler(
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1}, timezone="UTC"
        )
        self._scheduler.add_listener(self._report, EVENT_JOB_ERROR)

    def every(self, seconds: float, chore: Chore, name: str, *, at_once: bool = False) -> None:
        """Call `chore` every so many seconds, on the loop's own thread; with `at_once` for the first time at the start."""

        async def run() -> None:
            # a plain function the scheduler would run on a thread that may not touch the ledger
            done = chore()
            if done is not None:
                await done

        self._scheduler.add_job(run, "interval", seconds=seconds, id=name, name=name)
        if at_once:
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """End, without waiting for anything."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def _report(self, event: JobExecutionEvent) -> None:
        self._log.error("chore_failed", chore=event.job_id, reason=str(event.exception))
