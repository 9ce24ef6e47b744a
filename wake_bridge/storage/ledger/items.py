"""Items from outside: taken in by their keys, listed, and read under a lease."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from wake_bridge.domain.channels import Send, SendOutcome
from wake_bridge.domain.events import ItemDetail, ItemState, ItemTier, WakeEvent
from wake_bridge.domain.items import TakenAs, calmed, judge, storm_subject
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.ports.items import StormRule, TakenItem
from wake_bridge.storage.ledger.columns import columns_of_event
from wake_bridge.storage.ledger.events import TailRecord
from wake_bridge.storage.ledger.sends import SendRecord

_ITEMS: Final = "kind = 'item' AND status IN ('open', 'announced') AND identity = :identity"
_LEASED: Final = f"{_ITEMS} AND leased_until > :now"
_FLOORS: Final = {ItemTier.NOW: 0, ItemTier.NEXT: 1, ItemTier.LATER: 2}
_WAITS: Final = """
    SELECT 1 FROM wake_event LEFT JOIN delivery ON delivery.id = delivery_id
    WHERE wake_event.id = ? AND status = 'open' AND (state IS NULL OR state IN ('PENDING', 'DISPATCHED'))
"""
_UP_TO: Final = f"{_ITEMS} AND item_tier <= :floor"
_SHOWN: Final = (
    f"SELECT * FROM wake_event INDEXED BY wake_event_unread_items WHERE {_UP_TO}"  # noqa: S608 - written here
    " AND (leased_until IS NULL OR leased_until <= :now) ORDER BY item_tier, seq LIMIT :limit"
)
_ALL: Final = f"SELECT COUNT(*) FROM wake_event INDEXED BY wake_event_unread_items WHERE {_UP_TO}"  # noqa: S608 - written here
_APART: Final = (
    f"SELECT COUNT(*) FROM wake_event INDEXED BY wake_event_leased_items WHERE {_UP_TO}"  # noqa: S608 - written here
    " AND leased_until > :now"
)
_ANEW: Final = (
    "detail", "thread", "policy", "priority", "window_seconds", "matched_at", "occurred_at", "not_before", "ack_within",
    "delivered_at",
)  # fmt: skip
"""What an item takes over from the one that takes its place."""


class IntakeRecord(TailRecord, SendRecord):
    """Items."""

    def take_item(
        self, event: WakeEvent, now: Instant, *, storm: StormRule | None = None, sends: Sequence[Send] = ()
    ) -> TakenItem:
        """See `ItemStore.take_item`."""
        with self._db.transaction():
            item = event.detail
            if not isinstance(item, ItemDetail):
                raise TypeError(f"{event.id} is no item")
            latest, opened = self._under_key(event.identity, item.key) if item.key else (None, None)
            waits = latest is not None and self._db.row(_WAITS, (latest.id,)) is not None
            was = judge(event, latest, opened, now, waits=waits)
            if not was.is_kept:
                return TakenItem(was, latest or event)
            is_storm = storm is not None and self._storms(event, item, storm, now)
            kept = calmed(event) if is_storm else event
            if item.state is ItemState.RESOLVED:
                self._withdraw(event.identity, item.key, now)
            if was is TakenAs.UPDATED and latest is not None:
                self._take_back(latest.id, "it says something else by now", now)
                kept = self._put_in_place_of(latest, kept, now)
            else:
                self._insert(kept, now)
            if not is_storm:
                self._put(sends, now)
            return TakenItem(was, kept, is_storm)

    def unread_items(
        self, identity: Identity, tiers: Collection[ItemTier], limit: int, now: Instant
    ) -> tuple[list[WakeEvent], int]:
        """See `ItemStore.unread_items`."""
        asked = {"identity": identity, "floor": max(_FLOORS[one] for one in tiers), "now": now, "limit": limit}
        shown = self._events(_SHOWN, asked)
        # all by the index alone, less the few under a lease: looking into each of many rows takes its time
        return shown, self._db.value(_ALL, asked) - self._db.value(_APART, asked)

    def lease_items(self, event_ids: Sequence[str], until: Instant, now: Instant) -> None:
        """See `ItemStore.lease_items`."""
        with self._db.transaction():
            self._db.change_each(
                "UPDATE wake_event SET leased_until = ?, delivered_at = COALESCE(delivered_at, ?),"
                " reason = CASE status WHEN 'open' THEN 'inbox' ELSE reason END,"
                " status_at = CASE status WHEN 'open' THEN ? ELSE status_at END, status = 'announced'"
                " WHERE id = ? AND kind = 'item' AND status IN ('open', 'announced')",
                [(until, now, now, one) for one in event_ids],
            )

    def settle_leased_items(self, identity: Identity, now: Instant) -> int:
        """See `ItemStore.settle_leased_items`."""
        with self._db.transaction():
            return self._db.change(
                "UPDATE wake_event SET status = 'read', reason = 'inbox', status_at = :now, leased_until = NULL"  # noqa: S608 - written here
                f" WHERE {_LEASED}",
                {"identity": identity, "now": now},
            )

    def has_items(self) -> bool:
        """See `ItemStore.has_items`."""
        return self._db.row("SELECT 1 FROM wake_event WHERE kind = 'item' LIMIT 1") is not None

    def has_leased_items(self, identity: Identity, now: Instant) -> bool:
        """See `ItemStore.has_leased_items`."""
        found = self._db.row(f"SELECT 1 FROM wake_event WHERE {_LEASED} LIMIT 1", {"identity": identity, "now": now})  # noqa: S608 - written here
        return found is not None

    def settle_items(self, event_ids: Sequence[str], now: Instant) -> int:
        """See `ItemStore.settle_items`."""
        with self._db.transaction():
            return sum(
                self._db.change(
                    "UPDATE wake_event SET status = 'read', reason = 'inbox', status_at = ?, leased_until = NULL,"
                    " delivered_at = COALESCE(delivered_at, ?)"
                    " WHERE id = ? AND kind = 'item' AND status IN ('open', 'announced')",
                    (now, now, one),
                )
                for one in event_ids
            )

    def find_item(self, item_id: str) -> WakeEvent | None:
        """See `ItemStore.find_item`."""
        found = self._events(
            "SELECT * FROM wake_event WHERE kind = 'item' AND id >= :id AND id < :id || '~' LIMIT 2", {"id": item_id}
        )
        return found[0] if item_id and len(found) == 1 else None

    def waiting_items(self, identity: Identity) -> int:
        """See `ItemStore.waiting_items`."""
        return int(
            self._db.value(
                "SELECT COUNT(*) FROM wake_event INDEXED BY wake_event_waiting_items WHERE kind = 'item'"
                " AND status = 'open' AND policy = 'next_turn' AND delivery_id IS NULL AND identity = ?",
                (identity,),
            )
        )

    def _under_key(self, identity: Identity, key: str) -> tuple[WakeEvent | None, WakeEvent | None]:
        """The latest one under a key, and the latest `open` one that none has resolved since."""
        latest = self._events(
            "SELECT * FROM wake_event WHERE kind = 'item' AND item_key <> '' AND identity = ? AND item_key = ?"
            " ORDER BY seq DESC LIMIT 1",
            (identity, key),
        )
        lasting = self._events(
            "SELECT * FROM wake_event WHERE kind = 'item' AND item_key <> '' AND identity = ? AND item_key = ?"
            " AND json_extract(detail, '$.state') <> '' ORDER BY seq DESC LIMIT 1",
            (identity, key),
        )
        is_open = (
            bool(lasting) and isinstance(lasting[0].detail, ItemDetail) and lasting[0].detail.state is ItemState.OPEN
        )
        return (latest[0] if latest else None), (lasting[0] if is_open else None)

    def _withdraw(self, identity: Identity, key: str, now: Instant) -> None:
        """What has not been told of a matter that is over need not be."""
        waiting = self._db.rows(
            "SELECT id FROM wake_event WHERE kind = 'item' AND item_key <> '' AND identity = ? AND item_key = ?"
            " AND status = 'open' AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.id = delivery_id AND state = 'LOCKED')",
            (identity, key),
        )
        for row in waiting:
            self._db.change(
                "UPDATE wake_event SET status = 'superseded', reason = 'resolved', status_at = ? WHERE id = ?",
                (now, row["id"]),
            )
            self._take_back(row["id"], "resolved", now)

    def _take_back(self, item_id: str, why: str, now: Instant) -> None:
        """Messages to the person that have not gone out need not."""
        for send in self._sends("subject = :subject AND state = 'PENDING'", {"subject": item_id}):
            self._settle(send, SendOutcome.WITHDRAWN, why, now)

    def _put_in_place_of(self, before: WakeEvent, event: WakeEvent, now: Instant) -> WakeEvent:
        """New content, with its deadline anew; it leaves its delivery, and is gathered by what it says now."""
        columns = columns_of_event(event)
        changes = ", ".join(f"{name} = :{name}" for name in _ANEW)
        self._db.change(
            "DELETE FROM delivery_event WHERE event_id = :id"
            " AND delivery_id = (SELECT delivery_id FROM wake_event WHERE id = :id)",
            {"id": before.id},
        )
        self._db.change(
            f"UPDATE wake_event SET {changes}, status_at = :now, delivery_id = NULL, leased_until = NULL WHERE id = :before",  # noqa: S608 - the names are our own
            {**columns, "now": now, "before": before.id},
        )
        return replace(event, id=before.id, subject_key=before.subject_key)

    def _storms(self, event: WakeEvent, item: ItemDetail, storm: StormRule, now: Instant) -> bool:
        """Whether its source sends too much; the one notice is given, or forgotten once it does not."""
        lately = self._db.value(
            "SELECT COUNT(*) FROM (SELECT 1 FROM wake_event INDEXED BY wake_event_item_sources WHERE kind = 'item'"
            " AND identity = ? AND item_source = ? AND matched_at > ? LIMIT ?)",
            (event.identity, item.source, now - storm.period_ms, storm.most),
        )
        if lately < storm.most:
            self._db.change("DELETE FROM notice WHERE subject = ?", (storm_subject(event),))
            return False
        if self._note_notice(storm.notice, now):
            self._put(storm.sends, now)
        return True
