"""Where the tail stands: in memory, in the ledger, and in the file that the source's pruner reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from wake_bridge.domain.errors import LedgerUnwritable
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import EPOCH_START, Epoch, Instant, LogId
from wake_bridge.engine.tail.harvest import Crop
from wake_bridge.engine.tail.places import Start
from wake_bridge.ports.change_log import CursorFile, Published
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Harvest, Position, TaskState

SAVE_EVERY: Final = 1_000
"""Milliseconds between two moves of the stored cursor that carry no match."""


class Bookmark:
    """The place in the log, and what was read up to it and is not stored yet.

    Contract: events are stored at once and together with the place; a place alone may wait `SAVE_EVERY`. When storing
    fails, the place goes back to the stored one, and what lies between is read again. Raises `LedgerError`.

    `rows_after` is the wall time after which every row beyond the place was committed; 0 if unknown.
    """

    def __init__(self, ledger: Ledger, cursor_file: CursorFile, clock: Clock) -> None:
        self._ledger = ledger
        self._cursor_file = cursor_file
        self._clock = clock
        self._report = structlog.get_logger("tail")
        self._stored = Published(LogId(-1), EPOCH_START)
        self._stored_at = EPOCH_START
        self._stored_place: Position | None = None
        self._is_published = True
        self._trouble = ""
        self.place: Position | None = None
        self.rows_after = EPOCH_START
        self.unsaved = Crop()

    def restore(self) -> Position | None:
        """Take up the ledger's place; None if it has none."""
        self.place = self._stored_place = self._ledger.position()
        self.rows_after = EPOCH_START
        self.unsaved = Crop()
        if self.place is not None:
            published = self.published()
            self._is_published = isinstance(published, Published) and published.cursor == self.place.cursor
            if isinstance(published, Published) and self._is_published:
                self.rows_after = published.rows_after
            self._stored = Published(self.place.cursor, self.rows_after)
        return self.place

    def published(self) -> Published | str | None:
        """What the pruner's file says; see `CursorFile.read`."""
        return self._cursor_file.read()

    def begin_epoch(self, start: Start, tasks: Sequence[TaskState], events: Sequence[WakeEvent]) -> list[WakeEvent]:
        """Stand at the start of a new epoch; answers the events that were new."""
        new = self._ledger.begin_epoch(start.place, tasks, start.loss.reason, self._clock.now(), events)
        self.place, self.rows_after, self.unsaved = start.place, start.rows_after, Crop()
        self._publish()
        return new

    def knows_since(self, since: Instant) -> bool:
        """Whether the ledger has followed this life of the source since `since`, or longer."""
        start = self._ledger.epoch_start()
        return start is not None and start.at <= since

    def move(self, place: Position, crop: Crop, rows_after: Instant | None) -> list[WakeEvent]:
        """Go on to `place`; answers the events that were new. `rows_after` None leaves it as it was."""
        self.place = place
        self.unsaved.tasks.update(crop.tasks)
        self.unsaved.quarantined.extend(crop.quarantined)
        self.rows_after = self.rows_after if rows_after is None else rows_after
        return self._store(crop.events) if crop.events else self.save_if_due()

    def save_if_due(self) -> list[WakeEvent]:
        """Store a place that moved without a match, at most every `SAVE_EVERY`."""
        return self.save() if self._clock.now() - self._stored_at >= SAVE_EVERY else []

    def save(self) -> list[WakeEvent]:
        """Store a place that moved without a match, now; or publish what was not, or was spoiled since."""
        has_moved = self.place is not None and self.place.cursor != self._stored.cursor
        if has_moved:
            return self._store(())
        if not self._is_published:
            self._publish()
        return []

    @property
    def epoch(self) -> Epoch:
        """The present life of the source; 0 before the first."""
        return self.place.epoch if self.place else Epoch(0)

    @property
    def cursor(self) -> LogId:
        """The highest log id that was looked at; 0 before the first look."""
        return self.place.cursor if self.place else LogId(0)

    def _store(self, events: Sequence[WakeEvent]) -> list[WakeEvent]:
        if self.place is None:
            return []
        harvest = Harvest(self.place, events, tuple(self.unsaved.tasks.values()), tuple(self.unsaved.quarantined))
        try:
            new = self._ledger.advance(harvest, self._clock.now())
        except BaseException:
            self._go_back()
            raise
        self.unsaved = Crop()
        self._publish()
        return new

    def _go_back(self) -> None:
        """To what was stored for certain. The ledger is not asked: it has just failed, and may do so again."""
        self.place = self._stored_place
        self.rows_after = self._stored.rows_after
        self.unsaved = Crop()

    def _publish(self) -> None:
        """After the ledger's commit: the pruner must never be ahead of us. It may lag behind, so a failure is no stop."""
        self._stored = Published(self.cursor, self.rows_after)
        self._stored_place = self.place
        self._stored_at = self._clock.now()
        try:
            self._cursor_file.write(self._stored)
        except LedgerUnwritable as refusal:
            self._is_published = False
            if str(refusal) != self._trouble:
                self._report.warning("cursor_unpublished", reason=str(refusal), hint=refusal.hint)
            self._trouble = str(refusal)
        else:
            self._is_published, self._trouble = True, ""
