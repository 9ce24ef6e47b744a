"""Leases: which of several hosts on one graph drives an identity.

Contract: every method is one or two short questions to the database and blocks; it raises `SourceError` where that does not
answer, and `OperationFailed` where the role may not. All times are the database's. A host is alive until `ALIVE_FOR` after its
last `renew`; a lease is current while its host is alive, and its token rises with each owner. Nothing that an owner commits
counts once another one has taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol

from wake_bridge.domain.names import Identity
from wake_bridge.domain.values import dataclass

ALIVE_FOR: Final = 15
"""Seconds for which a host counts as alive after it has renewed."""

KEY_WITHIN: Final = 2
"""Seconds after the commit of an intent within which its key is pressed, or never."""

LEFT_AT_COMMIT: Final = 3
"""Seconds that a lease must still last at a commit: the key falls into it, with room for clocks that do not run alike."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds the lease of an identity; `host` is empty where nobody does. `is_alive` is of that host.

    `wanted` is the host that a person has just moved it to, for as long as it is kept free for that one; else empty.
    """

    host: str
    token: int
    is_alive: bool
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What one renewal says.

    `is_enrolled`: this host counts as alive; else another daemon uses its name. `was_lapsed`: it did not before, and any of its
    leases may be gone. `unwanted` are leases of this host that a person wants elsewhere.
    """

    is_enrolled: bool
    was_lapsed: bool
    owners: Mapping[Identity, Owner] = field(default_factory=dict)
    unwanted: Sequence[Identity] = ()


@dataclass(frozen=True, slots=True)
class ToldBy:
    """Who told an identity of something, in which delivery; not `is_settled` while only that host can say whether it did."""

    host: str
    delivery_id: str
    is_settled: bool


@dataclass(frozen=True, slots=True)
class OpenIntent:
    """An intent of this host without an outcome; `is_old` where no attempt can be under way any more."""

    delivery_id: str
    is_old: bool


@dataclass(frozen=True, slots=True)
class HostOnGraph:
    """A host that shares the graph, as `hosts list` shows it. `seen_ago` in milliseconds."""

    host: str
    version: str
    is_alive: bool
    is_gone: bool
    seen_ago: int
    identities: tuple[Identity, ...] = ()
    open_intents: int = 0


class LeaseStore(Protocol):
    """See the module's contract."""

    def renew(self, asked: Collection[Identity]) -> Renewal:
        """Stay alive for `ALIVE_FOR`; answers how the leases of the `asked` identities stand."""

    def take(self, identities: Sequence[Identity], lapsed: Sequence[str]) -> Mapping[Identity, int]:
        """Take those that nobody holds, or one of the `lapsed` hosts if it still is; answers the tokens of what was taken."""

    def give_back(self, identities: Sequence[Identity]) -> None:
        """Let others take them."""

    def leave(self) -> None:
        """Give all back, and be alive no more."""

    def commit_intent(self, identity: Identity, token: int, delivery_id: str, subject_keys: Sequence[str]) -> bool:
        """Write down that a key is about to be pressed, and what it tells; answers whether that may be.

        Only while the lease is current, under that token, and lasts for `LEFT_AT_COMMIT`; and only where no other host has told
        any of it.
        """

    def withdraw(self, delivery_id: str) -> None:
        """Nothing of it was sent, and nothing will be: what it was to tell was not told."""

    def settle(self, outcomes: Mapping[str, str]) -> None:
        """What has become of intents of this host, by delivery."""

    def open_intents(self) -> Sequence[OpenIntent]:
        """Those of this host without an outcome."""

    def tidy(self) -> None:
        """Intents of hosts that have long been silent end as unknown; what nobody will ask for any more is deleted."""

    def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, ToldBy]:
        """Which of them the identity was told, or may have been, and by whom."""

    def told_elsewhere(self, subjects: Sequence[tuple[Identity, str]]) -> Sequence[tuple[Identity, str, str]]:
        """Which of them another host has told, and has said so; the third is the host."""

    def close(self) -> None:
        """Give up the connection."""


class HostDesk(Protocol):
    """What a person does about hosts on the graph. Errors as above."""

    def hosts(self) -> Sequence[HostOnGraph]:
        """All that were ever there, the living first."""

    def server_of(self, identity: Identity) -> str:
        """The living host that holds its lease; empty where none does."""

    def wanted_for(self, identity: Identity) -> str:
        """The host that a person has just moved it to, for as long as it is kept free for that one; else empty."""

    def note_shown(self, identity: Identity, subject_keys: Sequence[str], host: str) -> None:
        """A command on that host has shown it those: no host needs to tell it."""

    def move(self, identity: Identity, host: str) -> tuple[str, str]:
        """Have another host take it, as soon as that sees its agent.

        Answers who holds it now, empty for nobody, and the other's whole name. Raises `NotFound`, or `RefusedForSafety` where
        that is not alive.
        """

    def gone(self, host: str) -> tuple[str, int, int]:
        """A host will not come back: its whole name, how many leases are free, and how many deliveries end as unknown.

        Raises `NotFound`.
        """

    def close(self) -> None:
        """Give up the connection."""
