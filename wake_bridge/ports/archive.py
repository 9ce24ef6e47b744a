"""What the ledger remembers, for people's questions: `why`, `status`.

Contract: as `ports.ledger`; every method here only reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from wake_bridge.domain.delivery import Delivery, Outcome
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Quarantined


class Archive(Ledger, Protocol):
    """A ledger that can be asked about the past."""

    def find_events(self, *, subject_key: str = "", log_id: LogId | None = None) -> list[WakeEvent]:
        """Events about one subject, a task's moves among them, or about one log row; oldest first."""

    def deliveries_with(self, event_id: str) -> list[Delivery]:
        """Every delivery whose digest speaks, or will speak, of the event; oldest first."""

    def quarantined(self, log_id: LogId | None, entity_ids: Collection[str]) -> list[Quarantined]:
        """Log rows that could not be read: that one, and those about the entities."""

    def outcomes_since(self, since: Instant) -> Mapping[Outcome, int]:
        """How many deliveries ended how since then; one that was seen late counts as submitted."""

    def last_wakes(self) -> Mapping[Identity, Instant]:
        """When each identity's digest was last submitted, or may have been, as far as the ledger remembers."""
