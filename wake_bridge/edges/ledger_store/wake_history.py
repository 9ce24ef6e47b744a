"""The wakes that were begun, each read once: the guards ask for a day of them before every single wake (DESIGN §3)."""

from __future__ import annotations

from typing import Any

from wake_bridge.domain.guards import PastWake
from wake_bridge.domain.names import Instant
from wake_bridge.edges.ledger_store.database import Database
from wake_bridge.edges.ledger_store.part import LedgerPart


class WakeHistory(LedgerPart):
    """Remembers what it read of the journal, which only grows, and of deliveries once their text is frozen.

    A flood tells thousands of events in an hour: reading them anew for every wake takes longer than the wake.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._known_since: Instant | None = None
        self._read_line = 0
        self._ahead: dict[str, Any] = {}
        self._begun: dict[str, tuple[int, PastWake]] = {}

    def past_wakes(self, since: Instant) -> list[PastWake]:
        """See `Ledger.past_wakes`."""
        # a wake recorded while the clock ran ahead counts as of the instant `rebase` noticed it
        ahead = self._db.rows("SELECT key, value FROM meta WHERE key IN ('ahead_until_line', 'ahead_counts_at')")
        ahead_now = {row["key"]: row["value"] for row in ahead}
        if self._known_since is None or since < self._known_since or ahead_now != self._ahead:
            self._read_line, self._ahead, self._begun = 0, ahead_now, {}
        self._known_since = since
        self._read_on(since)
        self._begun = {key: known for key, known in self._begun.items() if known[1].at >= since}
        # of a delivery that was given back nothing was sent: its submits were refused, or are proven absent
        given_back = {row["id"] for row in self._db.rows("SELECT id FROM delivery WHERE state = 'DISPATCHED'")}
        submitted = [known for key, known in self._begun.items() if key not in given_back]
        in_order = sorted(submitted, key=lambda known: (known[1].at, known[0]))
        return [wake for _, wake in in_order]

    def _read_on(self, since: Instant) -> None:
        """Learn of the submits that were written down since the last question."""
        latest = self._db.value("SELECT MAX(seq) FROM journal") or 0
        lines = self._db.rows(
            "SELECT delivery_id, MAX(CASE WHEN seq <= :line THEN MIN(at, :counts_at) ELSE at END) AS at"
            " FROM journal INDEXED BY journal_submits WHERE step = 'intent_submit' AND at >= :since AND seq > :known"
            " GROUP BY delivery_id",
            {
                "line": self._ahead.get("ahead_until_line"),
                "counts_at": self._ahead.get("ahead_counts_at"),
                "since": since,
                "known": self._read_line,
            },
        )
        for line in lines:
            self._learn_wake(line["delivery_id"], Instant(line["at"]))
        self._read_line = latest

    def _learn_wake(self, delivery_id: str, at: Instant) -> None:
        row = self._db.row("SELECT seq, identity, pane_key FROM delivery WHERE id = ?", (delivery_id,))
        if row is None:
            return
        before = self._begun.get(delivery_id)
        threads = self._db.rows(
            "SELECT thread, from_human FROM delivery_event JOIN wake_event ON wake_event.id = event_id"
            " WHERE delivery_event.delivery_id = ? AND thread <> '' ORDER BY epoch, log_id",
            (delivery_id,),
        )
        wake = PastWake(
            max(at, before[1].at) if before else at,
            row["identity"],
            row["pane_key"],
            # what was handed over within a running turn is counted against no place, and begins no loop
            threads=tuple(dict.fromkeys(one["thread"] for one in threads if row["pane_key"] and not one["from_human"])),
            human_threads=tuple(dict.fromkeys(one["thread"] for one in threads if one["from_human"])),
        )
        self._begun[delivery_id] = (row["seq"], wake)
