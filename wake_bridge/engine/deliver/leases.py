"""One driver for each identity, where several hosts share a graph: what the engine asks before a key, and its fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.names import Identity
from wake_bridge.ports.adapter import SendBy


class FenceNotHeld(Exception):
    """No key may be pressed: another host drives the identity, or the database did not take the intent.

    Attributes:
        why: who drives it, or what is the matter, and its cause.
    """

    def __init__(self, why: OtherDriver) -> None:
        super().__init__(why.told)
        self.why = why


class Leases(Protocol):
    """Whether this host drives an identity. A graph in a file has one daemon, which drives all: see `SoleDriver`."""

    @property
    def are_shared(self) -> bool:
        """Whether there can be other hosts, so that `run` has something to do."""

    def elsewhere(self, identity: Identity) -> OtherDriver | None:
        """Which host drives it instead, or why nobody here can tell; None where this one does, or nobody does yet."""

    def silent_host(self, identity: Identity) -> str:
        """The host that drove it last and is alive no more, for as long as no other one sees its agent; empty for none."""

    async def take(self, identity: Identity, subject_keys: Sequence[str] = ()) -> OtherDriver | None:
        """Take its lease, for its agent was seen here; None where it is ours now, else who has it.

        Also who may have told some of that, and has not said yet what became of it. Then nothing of it may be begun.
        """

    async def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, str]:
        """Which of them it was told, or may have been, with the host that did; not of what this ledger knows. Raises `SourceError`."""

    async def commit(self, delivery: Delivery, subject_keys: Sequence[str]) -> SendBy | None:
        """Commit that a key is about to be pressed. The answer says until when; None for no limit. Raises `FenceNotHeld`."""

    def concluded(self, delivery: Delivery) -> None:
        """An attempt is over, whatever came of it."""

    async def run(self) -> None:
        """Keep the leases until cancelled."""

    async def leave(self) -> None:
        """Give all back: this daemon ends."""

    def close(self) -> None:
        """Give up what is open."""


def another_drives(leases: Leases, identity: Identity) -> bool:
    """Whether it is certain that another host drives the identity."""
    other = leases.elsewhere(identity)
    return other is not None and other.cause is Cause.OTHER_HOST


class SoleDriver:
    """See `Leases`: nobody else can be there."""

    are_shared = False

    def elsewhere(self, identity: Identity) -> OtherDriver | None:  # noqa: ARG002 - the protocol's signature
        """Nobody."""
        return None

    def silent_host(self, identity: Identity) -> str:  # noqa: ARG002 - the protocol's signature
        """None."""
        return ""

    async def take(self, identity: Identity, subject_keys: Sequence[str] = ()) -> OtherDriver | None:  # noqa: ARG002
        """It is ours."""
        return None

    async def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        """All that was told is in the ledger."""
        return {}

    async def commit(self, delivery: Delivery, subject_keys: Sequence[str]) -> SendBy | None:  # noqa: ARG002
        """The ledger is enough."""
        return None

    def concluded(self, delivery: Delivery) -> None:
        """The ledger knows."""

    async def run(self) -> None:
        """There are none to keep."""

    async def leave(self) -> None:
        """There are none to give back."""

    def close(self) -> None:
        """Nothing is open."""
