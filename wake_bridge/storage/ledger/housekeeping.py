"""The ledger's own upkeep: counts, what is old, and a clock that was set back."""

from __future__ import annotations

from collections import Counter
from typing import Final

from wake_bridge.domain.names import Instant
from wake_bridge.ports.ledger_records import Tally
from wake_bridge.storage.ledger.database import LedgerPart

FARTHEST_LOOK: Final = 60_000
"""Milliseconds: no look and no lease is set further ahead than this, nominally."""


class Upkeep(LedgerPart):
    """Tally, prune, shrink, rebase."""

    def tally(self) -> Tally:
        """See `Ledger.tally`."""
        counts: Counter[str] = Counter()
        holds: Counter[str] = Counter()
        for row in self._db.rows(
            "SELECT state, outcome, hold_reason, is_seen_late, COUNT(*) AS deliveries FROM delivery"
            " GROUP BY state, outcome, hold_reason, is_seen_late"
        ):
            outcome = "submitted" if row["is_seen_late"] else row["outcome"]
            kind = {None: "open", "failed": "failed", "unknown": "unknown"}.get(outcome, "delivered")
            counts[kind] += row["deliveries"]
            if row["hold_reason"] is not None:
                holds[row["hold_reason"]] += row["deliveries"]
        return Tally(
            open=counts["open"],
            held=holds.total(),
            unknown=counts["unknown"],
            failed=counts["failed"],
            delivered=counts["delivered"],
            quarantined=self._db.value("SELECT COUNT(*) FROM quarantine"),
            holds=dict(holds),
        )

    def prune(self, before: Instant, at_most: int) -> int:
        """See `Ledger.prune`."""
        moment = {"before": before, "at_most": at_most}
        with self._db.transaction():
            removed = self._db.change(
                "DELETE FROM delivery WHERE seq IN (SELECT seq FROM delivery WHERE settled_at < :before AND NOT EXISTS"
                " (SELECT 1 FROM wake_event WHERE delivery_id = delivery.id AND status = 'open') LIMIT :at_most)",
                moment,
            )
        if removed == at_most:
            return removed
        with self._db.transaction():
            removed += self._db.change(
                "DELETE FROM wake_event WHERE seq IN (SELECT seq FROM wake_event WHERE status <> 'open'"
                " AND status_at < :before AND NOT EXISTS"
                " (SELECT 1 FROM delivery_event WHERE event_id = wake_event.id) LIMIT :at_most)",
                moment,
            )
            self._db.change("DELETE FROM announced WHERE at < ?", (before,))
            self._db.change("DELETE FROM quarantine WHERE at < ?", (before,))
            self._db.change("DELETE FROM session WHERE seen_at < ?", (before,))
            self._db.change("DELETE FROM former_agent WHERE until < ?", (before,))
            self._db.change(
                "DELETE FROM notice WHERE at < ? AND NOT EXISTS"
                " (SELECT 1 FROM delivery WHERE delivery.id = notice.subject)",
                (before,),
            )
        return removed

    def shrink(self, pages: int) -> bool:
        """See `Ledger.shrink`."""
        unused = self._unused_pages()
        self._db.give_back(pages)
        # a file that could not be rewritten at the start gives nothing back, however often it is asked
        return 0 < self._unused_pages() < unused

    def _unused_pages(self) -> int:
        return int(self._db.value("PRAGMA freelist_count"))

    def rebase(self, now: Instant) -> None:
        """See `Ledger.rebase`."""
        moment = {"now": now, "farthest": now + FARTHEST_LOOK}
        with self._db.transaction():
            self._db.change(
                "UPDATE wake_event SET matched_at = :now, not_before = MAX(0, not_before - (matched_at - :now))"
                " WHERE status = 'open' AND matched_at > :now",
                moment,
            )
            self._db.change(
                "UPDATE delivery SET due_at = MIN(due_at, COALESCE((SELECT MIN(due_at) FROM wake_event"
                " WHERE delivery_id = delivery.id AND status = 'open'), :now))"
                " WHERE act_at > :now AND state = 'PENDING'",
                moment,
            )
            # its window has closed, by a clock that was ahead
            self._db.change("UPDATE delivery SET due_at = :now WHERE state = 'DISPATCHED' AND due_at > :now", moment)
            self._db.change(
                "UPDATE delivery SET next_look_at = MIN(next_look_at, :farthest), lease_until = MIN(lease_until, :farthest)"
                " WHERE state IN ('DISPATCHED', 'LOCKED')",
                moment,
            )
            self._db.change("UPDATE paused SET since = :now, until = until - (since - :now) WHERE since > :now", moment)
            self._db.change("UPDATE limit_lift SET at = :now WHERE at > :now", moment)
            self._db.change("UPDATE heartbeat SET nudged_at = :now WHERE nudged_at > :now", moment)
            self._db.change(
                "UPDATE remembered_pane SET since = MIN(since, :now), seen_at = :now WHERE seen_at > :now", moment
            )
            self._count_wakes_as_of(now)

    def _count_wakes_as_of(self, now: Instant) -> None:
        """The journal's lines stand as they are; remember up to which one their times are not to be believed."""
        last_line = self._db.value("SELECT COALESCE(MAX(seq), 0) FROM journal")
        believed_until = self._db.value("SELECT value FROM meta WHERE key = 'ahead_until_line'") or 0
        ahead = self._db.value(
            "SELECT 1 FROM journal WHERE step = 'intent_submit' AND at > ? AND seq > ?", (now, believed_until)
        )
        counted_at = self._db.value("SELECT value FROM meta WHERE key = 'ahead_counts_at'") or 0
        if ahead or counted_at > now:
            self._note({"ahead_until_line": last_line, "ahead_counts_at": now})
