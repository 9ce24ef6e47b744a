"""What every part of the ledger stands on: the database, and how a line gets into the journal."""

from __future__ import annotations

from collections.abc import Mapping

from wake_bridge.domain.delivery import Delivery, Step
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Instant
from wake_bridge.edges.ledger_store.database import Database, Parameters
from wake_bridge.edges.ledger_store.rows import delivery_of, event_of, to_json


class LedgerPart:
    """One part of the ledger; all parts of a `LedgerStore` share one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def _write_line(self, delivery_id: str, step: Step, detail: Mapping[str, str], now: Instant) -> None:
        """Append to the journal with the delivery's lease as it is now."""
        self._db.change(
            "INSERT INTO journal (delivery_id, at, step, lease, detail)"
            " SELECT id, ?, ?, owner_lease, ? FROM delivery WHERE id = ?",
            (now, step, to_json(dict(detail)), delivery_id),
        )

    def _note(self, facts: Mapping[str, int | str]) -> None:
        """Set single facts about the ledger as a whole."""
        self._db.change_each(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            facts.items(),
        )

    def _read(self, delivery_id: str) -> Delivery:
        """One delivery; raises `NotFound`."""
        row = self._db.row("SELECT * FROM delivery WHERE id = ?", (delivery_id,))
        if row is None:
            raise NotFound("no such delivery", delivery_id, hint="`wake-bridge deliveries` lists them")
        return delivery_of(row)

    def _deliveries(self, query: str, parameters: Parameters = ()) -> list[Delivery]:
        """The deliveries that a query over `delivery.*` finds."""
        return [delivery_of(row) for row in self._db.rows(query, parameters)]

    def _events(self, query: str, parameters: Parameters = ()) -> list[WakeEvent]:
        """The events that a query over `wake_event.*` finds."""
        return [event_of(row) for row in self._db.rows(query, parameters)]
