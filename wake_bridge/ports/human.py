"""The person whose agents these are, as a receiver of notices."""

from __future__ import annotations

from typing import Protocol

from wake_bridge.domain.channels import Send
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a word to the human.

    `by` is what it went out by (empty: there was nobody to tell), `trouble` why it failed: a clause in which nothing of a
    recipient stands. With `is_unknown` it may have arrived all the same. `wish` are the milliseconds that the other end
    asked us to wait, None where it did not.
    """

    by: str
    trouble: str = ""
    is_unknown: bool = False
    wish: int | None = None


class Human(Protocol):
    """Whoever is told.

    Contract: bounded in time; never raises but for cancellation, after which nothing of it runs on; no text of a notice
    ever reaches a shell; without trouble the channel has accepted it.
    """

    async def tell(self, send: Send, /) -> Told:
        """Say it by its channel, once."""
