"""What the daemon does at intervals, beside its jobs; the only module that knows the scheduler."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from wake_bridge.config.settings import Settings
from wake_bridge.control.graph_lock import GraphLock
from wake_bridge.control.instance_lock import SHOWN_EVERY, InstanceLock, show_life
from wake_bridge.control.server import ControlServer
from wake_bridge.daemon.process import ServiceNotifier
from wake_bridge.domain.attention import needs_a_person
from wake_bridge.domain.errors import SourceError, WakeBridgeError
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.names import DAY, EPOCH_START, SECOND, Instant, to_beat
from wake_bridge.domain.nudges import HEARTBEAT
from wake_bridge.domain.signed_wakes import REMEMBERED
from wake_bridge.ports.adapter import PersonGuide
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.graph.upstream import find_other_driver
from wake_bridge.system.clock import steady_seconds
from wake_bridge.wiring import Parts

Chore = Callable[[], Awaitable[None] | None]


FREQUENT: Final = 30.0
"""Seconds between two runs up to which a chore is no job of the scheduler's, which costs more than all of these together."""

WATCHED_EVERY: Final = 2.0
"""Seconds between two looks at the wall clock; by less than half of it nobody sets one."""

NOTICES_EVERY: Final = 5.0
"""Seconds between two looks for what a person should know."""

REMINDERS_EVERY: Final = 2.0
"""Seconds between two looks for reminders that are due."""

ESCALATED_EVERY: Final = 10.0
"""Seconds between two looks for wakes whose time to be answered is over."""

SHOWN_AGAIN: Final = 60_000
"""Milliseconds after which a status line is told again how many agents wait."""

PLACE_LOOKED_AT_EVERY: Final = 2.0
"""Seconds between two looks whether the ledger still lies at its place; before every write it is looked at besides."""

NOTED_EVERY: Final = 60.0
"""Seconds between two times that the graph is told how far its log was read, where that has moved."""

NOTED_AGAIN: Final = 30 * 60 * 1000
"""Milliseconds after which it is told all the same."""

PRUNED_AT_ONCE: Final = 100
PAGES_AT_ONCE: Final = 256
"""Rows that are forgotten, and pages of 4 KiB that are given back, while nothing else uses the ledger."""

BREATH: Final = 0.02
"""Seconds between two such steps, for the wakes that are due."""

STUCK_AFTER: Final = 30_000
"""Milliseconds without progress of the tail after which the watchdog is no longer fed."""


@dataclass(slots=True)
class _Frequent:
    """A chore that the loop itself calls: `due` by the loop's time, `task` while it waits for something."""

    name: str
    chore: Chore
    seconds: float
    due: float = 0.0
    task: asyncio.Task[None] | None = None

    def takes_turn(self, now: float) -> bool:
        """Whether it runs now; it is then planned anew, from when it was due unless that was missed by a whole turn."""
        if now < self.due:
            return False
        self.due = self.due + self.seconds if now - self.due < self.seconds else now + self.seconds
        return self.task is None or self.task.done()


class Housekeeping:
    """Runs chores at intervals on the running loop; a chore that raises is logged and runs again next time.

    The scheduler plans by the wall clock. After that was set, all chores run at once, and are planned anew. What comes every
    few seconds is planned here, all of it with one timer.

    Args:
        clock_was_set: called with the seconds by which the wall clock was set forward, or back.
    """

    def __init__(self, clock_was_set: Callable[[float], None] = lambda _: None) -> None:
        self._clock_was_set = clock_was_set
        self._ahead = 0.0
        self._frequent: list[_Frequent] = []
        self._beat: asyncio.TimerHandle | None = None
        self._log = structlog.get_logger("housekeeping")
        # a laptop that slept must neither skip a chore nor make up for every missed one
        self._scheduler = AsyncIOScheduler(
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1}, timezone="UTC"
        )
        self._scheduler.add_listener(self._report, EVENT_JOB_ERROR)

    def every(self, seconds: float, chore: Chore, name: str, *, at_once: bool = False) -> None:
        """Call `chore` every so many seconds, on the loop's own thread; with `at_once` for the first time at the start."""
        if seconds <= FREQUENT and not at_once:
            self._frequent.append(_Frequent(name, chore, seconds))
            return

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
        self.every(WATCHED_EVERY, self._watch_clock, "wall clock")
        now = asyncio.get_running_loop().time()
        for one in self._frequent:
            one.due = now + to_beat(one.seconds, now)
        self._plan()

    def stop(self) -> None:
        """End, without waiting for anything."""
        if self._beat is not None:
            self._beat.cancel()
        for one in self._frequent:
            if one.task is not None:
                one.task.cancel()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def _plan(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self._beat = asyncio.get_running_loop().call_at(min(one.due for one in self._frequent), self._run_due)

    def _run_due(self) -> None:
        now = asyncio.get_running_loop().time()
        due = [one for one in self._frequent if one.takes_turn(now)]
        # planned first: on a full disk not even a failure can be logged
        self._plan()
        for one in due:
            try:
                done = one.chore()
                one.task = None if done is None else asyncio.create_task(self._finish(one.name, done), name=one.name)
            except Exception as error:  # noqa: BLE001 - one chore's failure must end neither it nor the others
                self._failed(one.name, error)

    async def _finish(self, name: str, done: Awaitable[None]) -> None:
        try:
            await done
        except Exception as error:  # noqa: BLE001 - likewise
            self._failed(name, error)

    def _watch_clock(self) -> None:
        set_by, self._ahead = _ahead() - self._ahead, _ahead()
        if abs(set_by) > WATCHED_EVERY / 2:
            self._log.info("clock_set", seconds=round(set_by, 1))
            for one in self._frequent:
                one.due = 0.0
            self._plan()
            for job in self._scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
            self._clock_was_set(set_by)

    def _report(self, event: JobExecutionEvent) -> None:
        self._failed(event.job_id, event.exception)

    def _failed(self, name: str, error: BaseException) -> None:
        self._log.error("chore_failed", chore=name, reason=str(error))


def _ahead() -> float:
    """Seconds by which the wall clock is ahead of the count that nobody can set."""
    return time.time() - steady_seconds()


class OtherDrivers:
    """Looks for what else drives the same graph or state directory, and logs it once.

    Args:
        state_dir: where an upstream daemon would leave its marks.
        graph_lock: ours on the graph; None in a dry run and without a graph.
    """

    def __init__(self, state_dir: Path, graph_lock: GraphLock | None) -> None:
        self._state_dir = state_dir
        self._graph_lock = graph_lock
        self._upstream: OtherDriver | None = None
        self._logged = ""
        self._log = structlog.get_logger("daemon")

    def look(self) -> None:
        """Look again; takes the lock of a graph that was replaced."""
        if self._graph_lock is not None:
            self._graph_lock.stay()
        self._upstream = find_other_driver(self._state_dir)
        driver = self.now()
        rival = driver.told if driver else ""
        if rival and not self._logged:
            self._log.warning("other_driver", holder=rival)
        self._logged = rival

    def now(self) -> OtherDriver | None:
        """The other driver that was found last; None if nothing drives them but us."""
        return (self._graph_lock.rival() if self._graph_lock is not None else None) or self._upstream


class Chores:
    """Plans and does what recurs: signs of life, notices, nudges, retention, and a look at our place on the disk.

    Args:
        parts: the running daemon.
        settings: as they were at the start; a reload changes no interval.
        directory: where the ledger and the sign of life lie.
        instance_lock: what is kept beside the ledger; None in a dry run, which tells nobody and puts nothing back.
        others: asked every few seconds.
        notifier: told that the daemon is alive.
        after_put_back: called when a ledger that was deleted lies at its place again.
    """

    def __init__(
        self,
        parts: Parts,
        settings: Settings,
        directory: Path,
        instance_lock: InstanceLock | None,
        others: OtherDrivers,
        notifier: ServiceNotifier,
        after_put_back: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._directory = directory
        self._instance_lock = instance_lock
        self._others = others
        self._notifier = notifier
        self._after_put_back = after_put_back
        self._housekeeping = Housekeeping(lambda _: parts.deliverer.look_at(None))
        self._shown_count, self._shown_at = 0, EPOCH_START
        self._told_loss = ""
        self._noted: Position | None = None
        self._noted_at = EPOCH_START
        self._log = structlog.get_logger("daemon")

    def start(self, control: ControlServer) -> None:
        """Plan all chores; needs a running event loop. `control` is kept at its place with the ledger."""
        interval = self._notifier.watchdog_interval
        self._housekeeping.every(5, self._others.look, "other driver")
        self._housekeeping.every(DAY / SECOND / 4, self.prune, "retention", at_once=True)
        self._housekeeping.every(
            min(SHOWN_EVERY, interval / 2) if interval else SHOWN_EVERY, self._show_life, "sign of life"
        )
        if self._instance_lock is not None:
            self._housekeeping.every(PLACE_LOOKED_AT_EVERY, partial(self._keep_place, control), "state directory")
            self._housekeeping.every(NOTICES_EVERY, self._tell_human, "notices")
            self._housekeeping.every(ESCALATED_EVERY, self._escalate, "escalation")
            self._housekeeping.every(REMINDERS_EVERY, self._parts.reminders.tick, "reminders")
            if self._settings.has_graph:
                self._housekeeping.every(NOTED_EVERY, self._note_reader, "cursor in the graph", at_once=True)
        if HEARTBEAT in self._parts.loaded.adapters and self._settings.has_graph and self._instance_lock is not None:
            self._housekeeping.every(self._settings.config.heartbeat.interval, self._nudge, HEARTBEAT)
        self._housekeeping.start()

    async def stop(self) -> None:
        """End, and show on the status lines that nobody waits any more."""
        self._housekeeping.stop()
        await self._show_count(0, self._parts.clock.now())

    async def _note_reader(self) -> None:
        position, now = self._parts.ledger.position(), self._parts.clock.now()
        # told again while nothing moves, for old rows are forgotten on that occasion
        is_told = position == self._noted and now - self._noted_at < NOTED_AGAIN
        if position is not None and not is_told:
            # a graph that is away, or read-only, is the tail's to tell
            with suppress(SourceError):
                await self._parts.queries.note_reader(f"{socket.gethostname()}:{self._directory}", position)
                self._noted, self._noted_at = position, now

    async def _keep_place(self, control: ControlServer) -> None:
        """Put back what was deleted under us: what was told must not be told again, as long as somebody still knows."""
        ledger, lock = self._parts.ledger, self._instance_lock
        if lock is None:
            return
        lost = ledger.trouble if ledger.is_displaced else ""
        try:
            if lost:
                ledger.put_back()
            # lock and socket may be gone alone, or may not have been to be had again at once
            lock.stay()
            await control.stay()
        except WakeBridgeError as refusal:
            if str(refusal) != self._told_loss:
                self._log.error("ledger_away", reason="; ".join(filter(None, (lost, str(refusal)))), hint=refusal.hint)
            self._told_loss = str(refusal)
            return
        self._told_loss = ""
        if lost:
            self._after_put_back()
            self._log.warning("ledger_put_back", reason=lost, state_dir=str(self._directory))
            self._parts.notices.about_state(f"{lost}; it was put back")
            self._parts.deliverer.look_at(None)

    async def _tell_human(self) -> None:
        now = self._parts.clock.now()
        if self._parts.tail.begun.is_set() and not self._parts.ledger.trouble:
            self._parts.episodes.look(now)
            await self._parts.failed_turns.look(now)
        self._parts.notices.tick(now)
        await self._show_count(sum(map(needs_a_person, self._parts.ledger.open_episodes())), now)

    async def _escalate(self) -> None:
        if self._parts.tail.begun.is_set() and not self._parts.ledger.trouble:
            now = self._parts.clock.now()
            await self._parts.escalations.tick(now)
            self._parts.notices.outbox.tick(now)

    async def _show_count(self, count: int, now: Instant) -> None:
        """Let status lines say how many agents wait: when that changes, and again for a server that began anew."""
        if count == self._shown_count and not (count and now - self._shown_at >= SHOWN_AGAIN):
            return
        self._shown_count, self._shown_at = count, now
        for guide in (one for one in self._parts.loaded.adapters.values() if isinstance(one, PersonGuide)):
            await guide.show_count(f"⚑ {count}" if count else "")

    async def _nudge(self) -> None:
        await self._parts.heartbeat.tick(self._parts.clock.now())

    async def prune(self) -> None:
        """Forget what is older than the retention, in steps between which wakes go on."""
        ledger = self._parts.ledger
        before = Instant(self._parts.clock.now() - self._settings.config.daemon.retention_days * DAY)
        removed = 0
        forgotten = Instant(self._parts.clock.now() - REMEMBERED)
        while ledger.forget_emissions(forgotten, PRUNED_AT_ONCE):  # noqa: ASYNC110 - each turn does a part
            await asyncio.sleep(BREATH)
        step = PRUNED_AT_ONCE
        while step == PRUNED_AT_ONCE:
            step = ledger.prune(before, PRUNED_AT_ONCE)
            removed += step
            await asyncio.sleep(BREATH)
        while ledger.shrink(PAGES_AT_ONCE):  # noqa: ASYNC110 - nobody waits for an event: each turn does a part
            await asyncio.sleep(BREATH)
        if removed:
            self._log.info("pruned", deliveries=removed)

    def _show_life(self) -> None:
        """Feed the watchdog and touch the sign of life, but only while the tail makes progress."""
        if self._parts.clock.now() - self._parts.tail.progressed_at > STUCK_AFTER:
            self._notifier.status("the tail is stuck")
            return
        show_life(self._directory)
        self._notifier.alive()
