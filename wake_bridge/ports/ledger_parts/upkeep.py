"""The ledger itself: its instants, its counts, its size."""

from __future__ import annotations

from typing import Protocol

from wake_bridge.domain.names import Instant
from wake_bridge.ports.ledger_records import Tally


class Upkeep(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def rebase(self, now: Instant) -> None:
        """At the daemon's start: no stored instant may lie further ahead than its nominal length.

        After the wall clock was set back, windows count from `now`, looks and leases are at most 60 s away, and wakes
        recorded in the future count as of `now`.
        """

    def tally(self) -> Tally:
        """Counts for `status`."""

    def prune(self, before: Instant, at_most: int) -> int:
        """Delete terminal deliveries, then closed events, older than that, with their journal; answers how many.

        At most `at_most` of either: the file is locked meanwhile, so a long past goes in small steps. 0 means that nothing
        old is left. A failed delivery whose events are still open stays: nobody was told of them.
        """

    def shrink(self, pages: int) -> bool:
        """Give at most so many unused pages (4 KiB) back to the disk; answers whether more could be given."""
