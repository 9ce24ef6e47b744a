"""Which versions agents run that the rules for their screens were not tested with, and how many wakes were held there since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.ports.adapter import HarnessAdapter
from wake_bridge.ports.ledger import Archive
from wake_bridge.ports.screens import RunningVersion, VersionTeller

OF_THE_SCREEN: Final = (HoldReason.UNKNOWN, HoldReason.USER_TYPING)
"""What a wake is held for where rules no longer fit: nothing is recognised, or a new placeholder is taken for a draft."""


@dataclass(frozen=True, slots=True)
class UntestedVersion:
    """A harness's version, the identities whose agents run it, and the wakes that their screens have held since these started."""

    running: RunningVersion
    identities: tuple[Identity, ...]
    holds: int


def untested_versions(
    archive: Archive, identities: Iterable[Identity], watch: Watch, adapters: Iterable[HarnessAdapter]
) -> list[UntestedVersion]:
    """One for each version that is met and was not tested, by harness and version; looks at nothing anew.

    Args:
        archive: the ledger.
        identities: who can be woken.
        watch: what was seen of them.
        adapters: who may know the version in a place.
    """
    tellers = [one for one in adapters if isinstance(one, VersionTeller)]
    found: dict[tuple[str, str], list[tuple[Identity, RunningVersion]]] = {}
    for who in sorted(identities):
        keys = [track.place.key for track in watch.looked_at(who)]
        known = (one.untested_version(key) for key in keys for one in tellers)
        if (running := next((one for one in known if one is not None), None)) is not None:
            found.setdefault((running.harness, running.version), []).append((who, running))
    return [
        UntestedVersion(
            theirs[0][1],
            tuple(who for who, _ in theirs),
            sum(archive.wakes_held(who, OF_THE_SCREEN, running.since) for who, running in theirs),
        )
        for _, theirs in sorted(found.items())
    ]
