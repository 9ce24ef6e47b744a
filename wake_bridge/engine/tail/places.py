"""Where the tail begins, and where a page takes it. Pure (docs/design.md §2)."""

from __future__ import annotations

from dataclasses import dataclass

from wake_bridge.domain.epochs import Standing, fingerprint_of_empty
from wake_bridge.domain.names import EPOCH_START, Epoch, Instant, LogId
from wake_bridge.engine.tail.reading import Beginning, Reading
from wake_bridge.ports.change_log import Published
from wake_bridge.ports.ledger_records import Position


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a new epoch begins. `is_loss`: there was a place, and it is lost. `going_on_from`: a place to begin at."""

    reason: str
    is_loss: bool = True
    going_on_from: LogId | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A first place, and the wall time after which all rows beyond it were committed (0: unknown)."""

    place: Position
    rows_after: Instant
    loss: Loss


def loss_of(known: Position | None, published: Published | str | None) -> Loss | None:
    """What is wrong with the place the ledger knows; None when the tail can go on from it.

    Without one, the published cursor is as good: no row beyond it was ever stored. Never from 0, never silent.
    """
    if known is not None:
        return None if known.cursor >= 0 else Loss(f"the cursor is {known.cursor}")
    if published is None:
        return Loss("first start", is_loss=False)
    if isinstance(published, str):
        return Loss(f"lastSyncId: {published}")
    if published.cursor < 1:
        return Loss(f"lastSyncId is {published.cursor}")
    return Loss("going on from lastSyncId", is_loss=False, going_on_from=published.cursor)


def start_after(loss: Loss, beginning: Beginning, last_epoch: Epoch, looked_at: Instant) -> Start:
    """Begin at the tip, or where the published cursor says unless that lies above it."""
    census = beginning.census
    epoch = Epoch(last_epoch + 1)
    if loss.going_on_from is not None and loss.going_on_from <= census.tip:
        return Start(Position(epoch, loss.going_on_from), EPOCH_START, loss)
    if loss.going_on_from is not None:
        loss = Loss(f"lastSyncId is {loss.going_on_from}: {Standing.ABOVE_TIP.value}")
    fingerprint = census.fingerprint if census.tip else fingerprint_of_empty(*beginning.contents.file)
    return Start(Position(epoch, census.tip, fingerprint), looked_at, loss)


def place_after(place: Position, reading: Reading) -> Position:
    """Where the tail stands once a page is stored; past what was pruned when nothing is left of it."""
    if reading.page.examined:
        return Position(place.epoch, reading.page.upto, reading.page.fingerprint)
    if reading.standing is Standing.PRUNED:
        return Position(place.epoch, reading.bounds.highest)
    return place
