"""Where the tail begins and whether its cursor still means anything, as pure decisions."""

from __future__ import annotations

import pytest

from wake_bridge.domain.epochs import CursorStatus, cursor_status
from wake_bridge.domain.names import Epoch, Instant, LogId
from wake_bridge.engine.tail.checkpoint import cursor_loss, position_after, start_after
from wake_bridge.engine.tail.log_reader import Baseline, GraphContents, PageReading
from wake_bridge.ports.change_log import Census, LogBounds, Page, Published
from wake_bridge.ports.ledger_records import Position

LOOKED_AT = Instant(1_800_000_000_000)


@pytest.mark.parametrize(
    ("cursor", "found", "lowest", "highest", "expected"),
    [
        (50, "nodes:x", 1, 100, CursorStatus.SAME),
        (100, "nodes:x", 1, 100, CursorStatus.SAME),
        (50, "nodes:y", 1, 100, CursorStatus.REPLACED),
        (101, None, 1, 100, CursorStatus.ABOVE_TIP),
        (50, None, 51, 100, CursorStatus.SAME),
        (50, None, 52, 100, CursorStatus.PRUNED),
        (50, None, 10, 100, CursorStatus.SAME),
        (50, None, 0, 100, CursorStatus.PRUNED),
        (100, None, 0, 100, CursorStatus.SAME),
        (0, "nodes:x", 1, 100, CursorStatus.SAME),
        (0, "nodes:x", 2, 100, CursorStatus.PRUNED),
        (0, "nodes:x", 0, 0, CursorStatus.SAME),
        (1, None, 0, 0, CursorStatus.ABOVE_TIP),
    ],
)
def test_an_epoch_ends_only_with_another_row_or_a_lower_tip(
    cursor: int, found: str | None, lowest: int, highest: int, expected: CursorStatus
) -> None:
    """Cursor row gone and cursor below the lowest id is pruning, the same epoch."""
    judged = cursor_status(
        cursor=LogId(cursor), fingerprint="nodes:x", found=found, lowest=LogId(lowest), highest=LogId(highest)
    )
    assert judged is expected
    assert judged.is_same_epoch is (expected in {CursorStatus.SAME, CursorStatus.PRUNED})


@pytest.mark.parametrize(
    ("cursor", "lowest", "expected"),
    [
        (50, 1, CursorStatus.LOST),
        (50, 50, CursorStatus.LOST),
        (50, 51, CursorStatus.SAME),
        (50, 60, CursorStatus.PRUNED),
    ],
)
def test_a_row_that_a_server_has_lost_ends_an_epoch(cursor: int, lowest: int, expected: CursorStatus) -> None:
    """After a crash, or behind a replica that lagged, other rows come under the ids of those that were read."""
    judged = cursor_status(
        cursor=LogId(cursor),
        fingerprint="life:7:nodes:x",
        found=None,
        lowest=LogId(lowest),
        highest=LogId(100),
        snapshot="9:9:",
    )
    assert judged is expected


def test_an_unknown_fingerprint_differs_from_nothing() -> None:
    """A cursor taken over from elsewhere has none."""
    judged = cursor_status(cursor=LogId(5), fingerprint="", found="nodes:y", lowest=LogId(1), highest=LogId(9))
    assert judged is CursorStatus.SAME


@pytest.mark.parametrize(
    ("known", "published", "reason", "is_loss", "going_on_from"),
    [
        (None, None, "first start", False, None),
        (None, "it is empty", "lastSyncId: it is empty", True, None),
        (None, Published(LogId(0), Instant(0)), "lastSyncId is 0", True, None),
        (None, Published(LogId(7), Instant(0)), "going on from lastSyncId", False, 7),
        (Position(Epoch(1), LogId(-1)), None, "the cursor is -1", True, None),
    ],
)
def test_a_lost_cursor_is_never_silent_and_never_0(
    known: Position | None, published: Published | str | None, reason: str, is_loss: bool, going_on_from: int | None
) -> None:
    """Missing, empty, negative or corrupt → tip."""
    loss = cursor_loss(known, published)
    assert loss is not None
    assert (loss.reason, loss.is_loss, loss.going_on_from) == (reason, is_loss, going_on_from)


@pytest.mark.parametrize("published", [None, "it is empty", Published(LogId(3), Instant(0))])
def test_a_cursor_in_the_ledger_is_enough(published: Published | str | None) -> None:
    """The ledger's cursor is the truth, whatever its copy says."""
    assert cursor_loss(Position(Epoch(1), LogId(5)), published) is None


def beginning(tip: int) -> Baseline:
    census = Census(LogId(tip), "nodes:tip" if tip else "", ())
    return Baseline(census, GraphContents((8, 15), False, (), {}))


@pytest.mark.parametrize(
    ("published", "tip", "cursor", "fingerprint", "rows_after", "is_loss"),
    [
        (None, 100, 100, "nodes:tip", LOOKED_AT, False),
        (None, 0, 0, "empty:8:15", LOOKED_AT, False),
        (60, 100, 60, "", 0, False),
        (100, 100, 100, "", 0, False),
        (101, 100, 100, "nodes:tip", LOOKED_AT, True),
    ],
)
def test_an_epoch_starts_at_the_tip_or_where_the_published_cursor_says(
    published: int | None, tip: int, cursor: int, fingerprint: str, rows_after: int, is_loss: bool
) -> None:
    """Above the tip → tip."""
    loss = cursor_loss(None, None if published is None else Published(LogId(published), Instant(5)))
    assert loss is not None
    start = start_after(loss, beginning(tip), Epoch(4), LOOKED_AT)
    assert start.position == Position(Epoch(5), LogId(cursor), fingerprint)
    assert (start.rows_after, start.loss.is_loss) == (rows_after, is_loss)


def test_a_page_leads_to_its_last_row_and_a_pruned_log_to_its_tip() -> None:
    """An empty log below which the cursor stands has nothing to read."""
    position = Position(Epoch(1), LogId(5), "nodes:x")
    bounds = LogBounds(LogId(0), LogId(20))

    def after(judged: CursorStatus, page: Page) -> Position:
        return position_after(position, PageReading((1, 1, 1), bounds, judged, page))

    assert after(CursorStatus.SAME, Page((), (), LogId(9), "edges:y", 4)) == Position(Epoch(1), LogId(9), "edges:y")
    assert after(CursorStatus.SAME, Page((), (), LogId(5), "", 0)) == position
    assert after(CursorStatus.PRUNED, Page((), (), LogId(5), "", 0)) == Position(Epoch(1), LogId(20))
