"""What is left to the heartbeat, and when it last spoke (DESIGN §7)."""

from __future__ import annotations

from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.heartbeat import HEARTBEAT, Beat
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.edges.ledger_store.part import LedgerPart


class HeartbeatRecord(LedgerPart):
    """Stored events and the cooldown of each identity."""

    def left_to_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.left_to_heartbeat`."""
        return self._events(
            "SELECT * FROM wake_event WHERE identity = ? AND by_heartbeat = 1 AND status = 'open'"
            " AND delivery_id IS NULL ORDER BY epoch, log_id, seq",
            (identity,),
        )

    def told_by_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """See `Ledger.told_by_heartbeat`."""
        return self._events(
            "SELECT wake_event.* FROM wake_event JOIN delivery ON delivery.id = wake_event.delivery_id"
            " WHERE wake_event.identity = ? AND by_heartbeat = 1 AND status = 'announced' AND kind = 'message'"
            # a digest that was begun for another reason has told them for good
            " AND delivery.adapter = ? AND EXISTS (SELECT 1 FROM delivery_event JOIN wake_event AS pulse"
            " ON pulse.id = delivery_event.event_id WHERE delivery_event.delivery_id = delivery.id"
            " AND pulse.subject_key = ? || pulse.id)"
            " ORDER BY wake_event.epoch, wake_event.log_id, wake_event.seq",
            (identity, HEARTBEAT, f"{HEARTBEAT}:"),
        )

    def beat(self, identity: Identity) -> Beat | None:
        """See `Ledger.beat`."""
        row = self._db.row(
            "SELECT cooldown, MAX(nudged_at, COALESCE((SELECT MAX(settled_at) FROM delivery"
            " WHERE delivery.identity = heartbeat.identity AND adapter = :source), 0)) AS nudged_at"
            " FROM heartbeat WHERE identity = :identity",
            {"identity": identity, "source": HEARTBEAT},
        )
        return None if row is None else Beat(Instant(row["nudged_at"]), row["cooldown"])

    def note_beat(self, identity: Identity, beat: Beat) -> None:
        """See `Ledger.note_beat`."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO heartbeat (identity, nudged_at, cooldown) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET nudged_at = excluded.nudged_at, cooldown = excluded.cooldown",
                (identity, beat.nudged_at, beat.cooldown),
            )
