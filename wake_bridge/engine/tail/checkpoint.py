"""The tail's position: where it begins, how far a page moves it, and where it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from wake_bridge.domain.epochs import CursorStatus, fingerprint_of_empty
from wake_bridge.domain.errors import LedgerUnwritable
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import EPOCH_START, Epoch, Instant, LogId
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.tail.log_reader import Baseline, PageReading
from wake_bridge.engine.tail.page_matching import PageResult
from wake_bridge.ports.change_log import CursorFile, Published
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import CursorStore
from wake_bridge.ports.ledger_records import PageRecord, Position, TaskState

SAVE_EVERY: Final = 1_000
"""Milliseconds between two moves of the stored cursor that carry no match."""


@dataclass(frozen=True, slots=True)
class CursorLoss:
    """Why a new epoch begins. `is_loss`: there was a position, and it is lost. `going_on_from`: a position to begin at."""

    reason: str
    is_loss: bool = True
    going_on_from: LogId | None = None


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """A first position, and the wall time after which all rows beyond it were committed (0: unknown)."""

    position: Position
    rows_after: Instant
    loss: CursorLoss


def cursor_loss(known: Position | None, published: Published | str | None) -> CursorLoss | None:
    """What is wrong with the position the ledger knows; None when the tail can go on from it.

    Without one, the published cursor is as good: no row beyond it was ever stored. Never from 0, never silent.
    """
    if known is not None:
        return None if known.cursor >= 0 else CursorLoss(f"the cursor is {known.cursor}")
    if published is None:
        return CursorLoss("first start", is_loss=False)
    if isinstance(published, str):
        return CursorLoss(f"lastSyncId: {published}")
    if published.cursor < 1:
        return CursorLoss(f"lastSyncId is {published.cursor}")
    return CursorLoss("going on from lastSyncId", is_loss=False, going_on_from=published.cursor)


def start_after(loss: CursorLoss, beginning: Baseline, last_epoch: Epoch, looked_at: Instant) -> StartingPoint:
    """Begin at the tip, or where the published cursor says unless that lies above it."""
    census = beginning.census
    epoch = Epoch(last_epoch + 1)
    if loss.going_on_from is not None and loss.going_on_from <= census.tip:
        return StartingPoint(Position(epoch, loss.going_on_from), EPOCH_START, loss)
    if loss.going_on_from is not None:
        loss = CursorLoss(f"lastSyncId is {loss.going_on_from}: {CursorStatus.ABOVE_TIP.value}")
    fingerprint = census.fingerprint if census.tip else fingerprint_of_empty(*beginning.contents.file)
    return StartingPoint(Position(epoch, census.tip, fingerprint, census.snapshot), looked_at, loss)


def position_after(position: Position, reading: PageReading) -> Position:
    """Where the tail stands once a page is stored; past what was pruned when nothing is left of it."""
    if reading.page.examined:
        return Position(position.epoch, reading.page.upto, reading.page.fingerprint, reading.page.snapshot)
    if reading.cursor_status is CursorStatus.PRUNED:
        return Position(position.epoch, reading.bounds.highest)
    return position


class Checkpoint:
    """The place in the log, and what was read up to it and is not stored yet.

    Contract: events are stored at once and together with the position; a position alone may wait `SAVE_EVERY`. When storing
    fails, the position goes back to the stored one, and what lies between is read again. Raises `LedgerError`.

    `rows_after` is the wall time after which every row beyond the position was committed; 0 if unknown.
    """

    def __init__(self, ledger: CursorStore, cursor_file: CursorFile, clock: Clock) -> None:
        self._ledger = ledger
        self._cursor_file = cursor_file
        self._clock = clock
        self._report = structlog.get_logger("tail")
        self._stored = Published(LogId(-1), EPOCH_START)
        self._stored_at = EPOCH_START
        self._stored_position: Position | None = None
        self._is_published = True
        self._trouble = ""
        self.position: Position | None = None
        self.rows_after = EPOCH_START
        self.unsaved = PageResult()

    def restore(self) -> Position | None:
        """Take up the ledger's position; None if it has none."""
        self.position = self._stored_position = self._ledger.position()
        self.rows_after = EPOCH_START
        self.unsaved = PageResult()
        if self.position is not None:
            published = self.published()
            self._is_published = isinstance(published, Published) and published.cursor == self.position.cursor
            if isinstance(published, Published) and self._is_published:
                self.rows_after = published.rows_after
            self._stored = Published(self.position.cursor, self.rows_after)
        return self.position

    def published(self) -> Published | str | None:
        """What the pruner's file says; see `CursorFile.read`."""
        return self._cursor_file.read()

    def begin_epoch(
        self, start: StartingPoint, tasks: Sequence[TaskState], events: Sequence[WakeEvent]
    ) -> list[WakeEvent]:
        """Stand at the start of a new epoch; answers the events that were new."""
        new = self._ledger.begin_epoch(start.position, tasks, start.loss.reason, self._clock.now(), events)
        self.position, self.rows_after, self.unsaved = start.position, start.rows_after, PageResult()
        self._publish()
        return new

    def knows_since(self, since: Instant) -> bool:
        """Whether the ledger has followed this life of the source since `since`, or longer."""
        start = self._ledger.epoch_start()
        return start is not None and start.at <= since

    def move(self, position: Position, result: PageResult, rows_after: Instant | None) -> list[WakeEvent]:
        """Go on to `position`; answers the events that were new. `rows_after` None leaves it as it was."""
        self.position = position
        self.unsaved.tasks.update(result.tasks)
        self.unsaved.quarantined.extend(result.quarantined)
        self.unsaved.words |= result.words
        self.rows_after = self.rows_after if rows_after is None else rows_after
        return self._store(result.events) if result.events or result.words else self.save_if_due()

    def save_if_due(self) -> list[WakeEvent]:
        """Store a position that moved without a match, at most every `SAVE_EVERY`."""
        return self.save() if self._clock.now() - self._stored_at >= SAVE_EVERY else []

    def save(self) -> list[WakeEvent]:
        """Store a position that moved without a match, now; or publish what was not, or was spoiled since."""
        has_moved = self.position is not None and self.position != self._stored_position
        if has_moved:
            return self._store(())
        if not self._is_published:
            self._publish()
        return []

    @property
    def is_saved(self) -> bool:
        """Whether the position is stored and published."""
        return self._is_published and self.position == self._stored_position

    @property
    def epoch(self) -> Epoch:
        """The present life of the source; 0 before the first."""
        return self.position.epoch if self.position else Epoch(0)

    @property
    def cursor(self) -> LogId:
        """The highest log id that was looked at; 0 before the first look."""
        return self.position.cursor if self.position else LogId(0)

    def _store(self, events: Sequence[WakeEvent]) -> list[WakeEvent]:
        if self.position is None:
            return []
        unsaved = self.unsaved
        page = PageRecord(
            self.position, events, tuple(unsaved.tasks.values()), tuple(unsaved.quarantined), unsaved.words
        )
        try:
            new = self._ledger.advance(page, self._clock.now())
        except BaseException:
            self._go_back()
            raise
        self.unsaved = PageResult()
        self._publish()
        return new

    def _go_back(self) -> None:
        """To what was stored for certain. The ledger is not asked: it has just failed, and may do so again."""
        self.position = self._stored_position
        self.rows_after = self._stored.rows_after
        self.unsaved = PageResult()

    def _publish(self) -> None:
        """After the ledger's commit: the pruner must never be ahead of us. It may lag behind, so a failure is no stop."""
        self._stored = Published(self.cursor, self.rows_after)
        self._stored_position = self.position
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
