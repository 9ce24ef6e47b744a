"""What came of leaving, told step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.errors import WakeBridgeError


@dataclass(slots=True)
class Account:
    """What was done, or with `dry_run` would be; what stays; what could not be done; the deliveries nobody settles.

    `restart` names the agents that run with what was taken back, and know of it until they are started again.
    """

    dry_run: bool
    done: list[str] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    open: list[Delivery] = field(default_factory=list)
    restart: list[str] = field(default_factory=list)

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step: what goes wrong in it is told, and the others are still tried."""
        try:
            yield
        except WakeBridgeError as trouble:
            self.troubles.append(f"{trouble} ({trouble.hint})" if trouble.hint else str(trouble))
