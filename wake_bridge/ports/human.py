"""The person whose agents these are, as a receiver of notices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wake_bridge.domain.notices import Notice


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a word to the human: `by` what it went out (empty: there was nobody to tell), `trouble` if it failed."""

    by: str
    trouble: str = ""


class Human(Protocol):
    """Whoever is told.

    Contract: bounded in time; never raises but for cancellation, after which nothing of it runs on; no text of a notice
    ever reaches a shell.
    """

    async def tell(self, notice: Notice) -> Told:
        """Say it, once."""
