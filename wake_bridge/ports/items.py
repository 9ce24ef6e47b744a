"""What the ledger keeps of items from outside; the contract is that of `wake_bridge.ports.ledger`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from wake_bridge.domain.channels import Send
from wake_bridge.domain.events import ItemTier, WakeEvent
from wake_bridge.domain.items import TakenAs
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class StormRule:
    """A source that sends one recipient `most` items within `period_ms` milliseconds storms; `notice` says so, by `sends`."""

    most: int
    period_ms: int
    notice: Notice
    sends: Sequence[Send] = ()


@dataclass(frozen=True, slots=True)
class TakenItem:
    """What became of an item: `event` as it stands in the ledger now, of one that was dropped the one that it repeats."""

    was: TakenAs
    event: WakeEvent
    is_storm: bool = False


class ItemStore(Protocol):
    """Items from outside: events without a row, known by their key."""

    def take_item(
        self, event: WakeEvent, now: Instant, *, storm: StormRule | None = None, sends: Sequence[Send] = ()
    ) -> TakenItem:
        """Take one in, by the rules of `domain.items.judge`, with its messages to the person.

        One that takes the place of another keeps the other's id. What storms is kept calm, and its notice is given once
        until the storm is over.
        """

    def unread_items(
        self, identity: Identity, tiers: Collection[ItemTier], limit: int, now: Instant
    ) -> tuple[list[WakeEvent], int]:
        """Unread items that no reader has under a lease: by tier, then the oldest first; and how many there are."""

    def lease_items(self, event_ids: Sequence[str], until: Instant, now: Instant) -> None:
        """They were shown: their wake is off, and until then their reader may settle them."""

    def has_items(self) -> bool:
        """Whether there is any, read or not."""

    def has_leased_items(self, identity: Identity, now: Instant) -> bool:
        """Whether its reader has any under a lease that lasts."""

    def settle_leased_items(self, identity: Identity, now: Instant) -> int:
        """Its reader reads on: what it has under a lease that lasts is read. Answers how many."""

    def settle_items(self, event_ids: Sequence[str], now: Instant) -> int:
        """They are read; without effect on those that were. Answers how many."""

    def find_item(self, item_id: str) -> WakeEvent | None:
        """One item, read or not, also by an unambiguous beginning of its id."""

    def waiting_items(self, identity: Identity) -> int:
        """How many wait for its next turn."""
