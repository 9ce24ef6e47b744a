"""What a nudge has counted, and when the next is allowed."""

from __future__ import annotations

from typing import Protocol

from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.heartbeat import Beat
from wake_bridge.domain.names import Identity


class Heartbeats(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def left_to_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """Open events that wait for a nudge, and ride along in it: stored because of the identity's route alone."""

    def told_by_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """Messages that a nudge has counted, read or not."""

    def beat(self, identity: Identity) -> Beat | None:
        """When the identity was last nudged (once a nudge was held: when that ended), and the cooldown since."""

    def note_beat(self, identity: Identity, beat: Beat) -> None:
        """Remember a nudge, also across restarts."""
