"""The three places where the tail's cursor stands, and their order."""

from __future__ import annotations

from typing import cast

import pytest

from wake_bridge.domain.errors import LedgerUnwritable
from wake_bridge.domain.names import EPOCH_START, Epoch, LogId
from wake_bridge.engine.tail.checkpoint import Checkpoint
from wake_bridge.engine.tail.page_matching import PageResult
from wake_bridge.ports.change_log import Published
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Position
from wake_bridge.system.clock import SteadyClock

STORED = Position(Epoch(1), LogId(10), "row 10")


class FullLedger:
    """It stands at row 10, and takes nothing more."""

    def position(self) -> Position:
        return STORED

    def advance(self, *_: object) -> None:
        raise LedgerUnwritable("the disk is full", "state.sqlite")


class WrittenCursor:
    """Remembers what was published."""

    def __init__(self) -> None:
        self.written: list[Published] = []

    def read(self) -> Published:
        return Published(STORED.cursor, EPOCH_START)

    def write(self, published: Published) -> None:
        self.written.append(published)


def test_a_place_that_is_not_in_the_ledger_is_not_published() -> None:
    """`lastSyncId` is written after the ledger's commit: what the pruner takes is never still to be read."""
    cursor_file = WrittenCursor()
    checkpoint = Checkpoint(cast("Ledger", FullLedger()), cursor_file, SteadyClock())
    checkpoint.restore()

    with pytest.raises(LedgerUnwritable):
        checkpoint.move(Position(Epoch(1), LogId(20), "row 20"), PageResult(), None)

    assert cursor_file.written == []
    assert checkpoint.cursor == STORED.cursor
