"""What the human was told."""

from __future__ import annotations

from typing import Protocol

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.names import Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.ports.ledger_records import GivenNotice


class Notices(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def give_notice(self, notice: Notice, now: Instant) -> bool:
        """Remember that a person is told of something; False if they were told of the same subject before."""

    def withdraw_notice(self, subject: str) -> None:
        """Forget a notice whose matter is over and may come again."""

    def noticed(self) -> set[str]:
        """The subjects of all notices."""

    def failed_untold(self, since: Instant) -> list[Delivery]:
        """Deliveries that FAILED since then and wait for somebody: nobody was told, retried, acknowledged or saw them arrive."""

    def standing_notices(self, limit: int) -> list[GivenNotice]:
        """The latest notices whose delivery did not arrive since."""
