"""Decides whether a cursor still belongs to the log at hand, or the source was replaced (docs/design.md §2)."""

from __future__ import annotations

from enum import StrEnum

from wake_bridge.domain.names import LogId


class CursorStatus(StrEnum):
    """How a cursor stands to the log it is found with."""

    SAME = "the log goes on from the cursor"
    PRUNED = "rows after the cursor were pruned"
    ABOVE_TIP = "the cursor is above the tip of the log"
    REPLACED = "another row stands at the cursor"
    LOST = "the row at the cursor is lost"

    @property
    def is_same_epoch(self) -> bool:
        """Pruning ends no epoch."""
        return self in {CursorStatus.SAME, CursorStatus.PRUNED}


def cursor_status(
    *, cursor: LogId, fingerprint: str, found: str | None, lowest: LogId, highest: LogId, snapshot: str = ""
) -> CursorStatus:
    """Judge a cursor.

    Args:
        cursor: the highest log id whose consequences are in the ledger.
        fingerprint: what stood at the cursor when it was read; empty if unknown.
        found: what stands there now; None if that row is gone.
        lowest: the lowest log id present; 0 in an empty log.
        highest: the highest log id ever given.
        snapshot: how far a log was read that is not read by its ids alone; empty for one that is.
    """
    if cursor > highest:
        return CursorStatus.ABOVE_TIP
    # a file that was copied into a server: the row there tells its life before itself
    was_moved = not snapshot and found is not None and found.endswith(f":{fingerprint}")
    if fingerprint and found is not None and found != fingerprint and not was_moved:
        return CursorStatus.REPLACED
    # a server that crashed, or one that took over, has not all that was read from it
    was_lost = bool(snapshot and fingerprint) and found is None and 0 < lowest <= cursor
    if was_lost:
        return CursorStatus.LOST
    first_there = lowest or highest + 1
    return CursorStatus.PRUNED if first_there > cursor + 1 else CursorStatus.SAME


def fingerprint_of_empty(device: int, inode: int) -> str:
    """What stands at cursor 0, where there is no row: the file itself, so that a full log is not read from 0."""
    return f"empty:{device}:{inode}"
