"""Sees what a person should know, and tells it once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final

import structlog

from wake_bridge.domain.delivery import Delivery, Outcome, held_since
from wake_bridge.domain.names import DAY, Identity, Instant
from wake_bridge.domain.notices import (
    NO_ROUTES,
    WHO_LIVES_WHERE,
    Notice,
    about_end,
    about_hold,
    about_moved,
    about_no_routes,
    about_state,
    calls_for_a_person,
    is_one_question,
)
from wake_bridge.engine.deliver.unknown_outcomes import looked_for_of
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.human import Human
from wake_bridge.ports.ledger import Ledger

NEWS_FOR: Final = DAY
"""Milliseconds after which what has ended is no news any more, as after an update or a long sleep."""

_AT_ONCE: Final = 4
"""Words that go out side by side."""


class Notices:
    """Decides on notices and sends them on their way.

    Contract: `tick` may be called at any time and any number of times; a notice is on disk before it goes out, so that no
    restart says it twice; nothing that goes out holds up the caller. In quiet hours nothing is decided: what is still
    true when they end is told then.

    Args:
        active_routes: how many subscriptions can wake somebody; None while nobody knows.
        nudged: how many identities the heartbeat serves instead: as long as there are any, somebody can be woken.
        known: the identities of the graph.
        trouble: why nothing can be written down now, empty if it can.
    """

    def __init__(
        self,
        ledger: Ledger,
        human: Human,
        current: Current,
        clock: Clock,
        *,
        active_routes: Callable[[], int | None],
        nudged: Callable[[], int],
        known: Callable[[], Container[Identity]],
        trouble: Callable[[], str] = str,
    ) -> None:
        self._ledger = ledger
        self._human = human
        self._current = current
        self._clock = clock
        self._active_routes = active_routes
        self._nudged = nudged
        self._known = known
        self._trouble = trouble
        self._told_trouble = False
        self._silent_since: Instant | None = None
        self._has_failed = False
        self._sending: set[asyncio.Task[None]] = set()
        self._permits = asyncio.Semaphore(_AT_ONCE)
        self._log = structlog.get_logger("notices")

    def tick(self, now: Instant) -> None:
        """Tell what is due now."""
        if trouble := self._trouble():
            # nothing can be noted down, this word least of all: it is said once, until it is over
            if not self._told_trouble:
                self.about_state(trouble)
            self._told_trouble = True
            return
        self._told_trouble = False
        routes = self._about_routes(now)
        if self._is_quiet():
            return
        for notice in (*self._about_deliveries(now), *routes):
            if self._ledger.give_notice(notice, now):
                self._log.warning(
                    "notice_given",
                    agent=notice.identity or None,
                    reason=notice.reason,
                    subject=notice.subject,
                    where=notice.where or None,
                )
                self._send(notice)

    def about_state(self, trouble: str) -> None:
        """Tell what is the matter with the state directory, at any hour, without a note of it there."""
        notice = about_state(trouble, self._clock.now())
        self._log.warning("notice_given", reason=notice.reason, subject=notice.subject, detail=trouble)
        self._send(notice)

    async def drain(self) -> None:
        """Wait for what is going out."""
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def close(self) -> None:
        """Call back what is going out."""
        for one in self._sending:
            one.cancel()
        await self.drain()

    def _is_quiet(self) -> bool:
        hours, local = self._current.settings.quiet_hours, self._clock.local()
        return hours is not None and hours.minutes_left(local.hour * 60 + local.minute) > 0

    def _about_deliveries(self, now: Instant) -> Iterator[Notice]:
        told, known = self._ledger.noticed(), self._known()
        held = [one for one in self._ledger.unsettled() if one.hold is not None]
        yield from self._about_moved([one for one in held if one.hold and is_one_question(one.hold)], now, told)
        for delivery in held:
            if delivery.hold is None or delivery.id in told or is_one_question(delivery.hold):
                continue
            since = held_since(self._ledger.journal_of(delivery.id)) or now
            if calls_for_a_person(delivery.hold, since, now, self._current.settings.notice_after_ms):
                yield about_hold(delivery, delivery.hold, since, self._ledger.events_of(delivery.id), now, known)
        looked_until = Instant(now - looked_for_of(self._current.settings))
        for delivery in self._ledger.failed_untold(Instant(now - NEWS_FOR)):
            if delivery.outcome is Outcome.UNKNOWN and looked_until < (delivery.settled_at or now) <= now:
                # it may be seen yet, and if it is not, its news may be announced once more
                continue
            yield about_end(delivery, self._ledger.events_of(delivery.id), now, known)

    def _about_moved(self, waiting: Sequence[Delivery], now: Instant, told: Container[str]) -> Iterator[Notice]:
        """One word for all, as soon as one of them has waited long enough; when nobody waits so, it may come again."""
        if not waiting and WHO_LIVES_WHERE in told:
            self._ledger.withdraw_notice(WHO_LIVES_WHERE)
        if not waiting or WHO_LIVES_WHERE in told:
            return
        since, longest = min(
            ((held_since(self._ledger.journal_of(one.id)) or now, one) for one in waiting), key=lambda one: one[0]
        )
        if longest.hold and calls_for_a_person(longest.hold, since, now, self._current.settings.notice_after_ms):
            yield about_moved(waiting, longest.hold, since, now)

    def _about_routes(self, now: Instant) -> list[Notice]:
        """Nobody can be woken, for as long as a hold must last."""
        routes = self._active_routes()
        if routes is None:
            return []
        if routes or self._nudged():
            self._silent_since = None
            if NO_ROUTES in self._ledger.noticed():
                self._ledger.withdraw_notice(NO_ROUTES)
            return []
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since < self._current.settings.notice_after_ms:
            return []
        return [about_no_routes(self._silent_since)]

    def _send(self, notice: Notice) -> None:
        task = asyncio.create_task(self._tell(notice))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _tell(self, notice: Notice) -> None:
        async with self._permits:
            told = await self._human.tell(notice)
        if told.trouble and not self._has_failed:
            self._log.warning(
                "notice_failed", by=told.by, reason=told.trouble, hint="said once, until one goes out again"
            )
        self._has_failed = bool(told.trouble)
