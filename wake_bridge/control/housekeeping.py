"""Coarse, regular chores; the only module that knows the scheduler (it only calls `tick`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from wake_bridge.system.clock import steady_seconds

Chore = Callable[[], Awaitable[None] | None]


WATCHED_EVERY: Final = 2.0
"""Seconds between two looks at the wall clock; by less than half of it nobody sets one."""


class Housekeeping:
    """Runs chores at intervals on the running loop; a chore that raises is logged and runs again next time.

    The scheduler plans by the wall clock. After that was set, all chores run at once, and are planned anew.

    Args:
        clock_was_set: called with the seconds by which the wall clock was set forward, or back.
    """

    def __init__(self, clock_was_set: Callable[[float], None] = lambda _: None) -> None:
        self._clock_was_set = clock_was_set
        self._ahead = 0.0
        self._watch: asyncio.TimerHandle | None = None
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
        self._ahead = _ahead()
        self._watch_clock()

    def stop(self) -> None:
        """End, without waiting for anything."""
        if self._watch is not None:
            self._watch.cancel()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def _watch_clock(self) -> None:
        # planned first: on a full disk, what is called below raises
        self._watch = asyncio.get_running_loop().call_later(WATCHED_EVERY, self._watch_clock)
        set_by, self._ahead = _ahead() - self._ahead, _ahead()
        if abs(set_by) > WATCHED_EVERY / 2:
            self._log.info("clock_set", seconds=round(set_by, 1))
            for job in self._scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
            self._clock_was_set(set_by)

    def _report(self, event: JobExecutionEvent) -> None:
        self._log.error("chore_failed", chore=event.job_id, reason=str(event.exception))


def _ahead() -> float:
    """Seconds by which the wall clock is ahead of the count that nobody can set."""
    return time.time() - steady_seconds()
