"""Reminders that are due: each becomes an event for its agent, or a message for its person, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from wake_bridge.domain.channels import NONE_YET, Send, text_message
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Instant
from wake_bridge.domain.reminders import Due, Reminder, after_firing, due_now, event_for, words_of
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId

WINDOW: Final = 5
"""Seconds that a reminder collects others before it wakes."""


class Reminders:
    """Fires reminders.

    Contract: `tick` may be called at any time and any number of times, late or twice, by several processes: what is due
    follows from the ledger and the wall clock alone, and is marked in the transaction that brings it about.

    Args:
        poke: called when there is an event to gather.
    """

    def __init__(self, ledger: Ledger, clock: Clock, new_id: NewId, *, poke: Callable[[], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._poke = poke
        self._log = structlog.get_logger("reminders")

    def tick(self) -> None:
        """Fire what is due. Raises `LedgerError`."""
        wall = self._clock.wall()
        for reminder in self._ledger.reminders(due_at=wall):
            try:
                due = due_now(reminder, wall)
                if due is not None:
                    self._fire(reminder, due, wall)
            except ValueError as wrong:
                # the zone is gone from this system, or the expression means nothing any more
                self._ledger.end_reminder(reminder, f"it cannot be read: {wrong}", wall)
                self._log.warning("reminder_missed", subject=reminder.id, reason=str(wrong))

    def _fire(self, reminder: Reminder, due: Due, wall: Instant) -> None:
        now = self._clock.now()
        event, send = self._brought_about(reminder, due, now, wall) if due.tells else (None, None)
        if reminder.identity and due.tells and event is None:
            # before the first epoch nobody can be woken
            return
        if not self._ledger.fire_reminder(reminder, after_firing(reminder, due, wall), event, send, now):
            return
        if due.tells:
            self._log.info(
                "reminder_fired",
                subject=reminder.id,
                agent=reminder.identity or None,
                channel=reminder.channel or None,
                late=due.is_late(wall),
            )
        else:
            self._log.warning("reminder_missed", subject=reminder.id, reason="it was due more than a day ago")
        if event is not None:
            self._poke()

    def _brought_about(
        self, reminder: Reminder, due: Due, now: Instant, wall: Instant
    ) -> tuple[WakeEvent | None, Send | None]:
        if not reminder.identity:
            subject = f"reminder:{reminder.id}:{due.was_due_at}"
            words = words_of(reminder, due, wall)
            return None, text_message(words, reminder.channel or NONE_YET, reminder.by, subject, now)
        position = self._ledger.position()
        if position is None:
            return None, None
        return event_for(reminder, due, self._new_id(), position.epoch, now, wall, WINDOW), None
