"""Limits, pauses, and routes that are set aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from wake_bridge.domain.guards import PastWake
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.ports.ledger_records import Pause, SetAside


class Switches(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def past_wakes(self, since: Instant) -> list[PastWake]:
        """Submits begun since then (journal `intent_submit`), oldest first; each delivery counts once, at its latest.

        One that was given back does not count: what it began was refused, or is proven absent.
        """

    def limits_lifted_at(self, identity: Identity) -> Instant:
        """When `resume` last lifted the limits of the identity, or of all; 0 if never."""

    def pause(self, identity: str, until: Instant | None, now: Instant) -> None:
        """Stop waking an identity, or all with `*`."""

    def resume(self, identity: str, now: Instant) -> None:
        """End a pause and lift spent limits; `*` ends every pause there is."""

    def pauses(self, now: Instant) -> list[Pause]:
        """Pauses in force."""

    def degrade(self, identity: Identity, adapter: str, why: str, now: Instant) -> None:
        """Set one route aside: it is passed over until it is restored."""

    def restore(self, identity: Identity, adapter: str) -> None:
        """Take a route into use again."""

    def degraded(self, identity: Identity) -> Mapping[str, str]:
        """The adapters set aside for an identity, and why."""

    def degraded_routes(self) -> list[SetAside]:
        """Every route that is set aside, by identity and adapter."""
