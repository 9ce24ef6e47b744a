"""Our own durable record: cursor, wake events, deliveries, journal.

Contract: every method is one short transaction that is on disk when it returns; state changes are compare-and-swap on
(id, from-state, owner_lease) and raise `StaleLease` or `IllegalTransition` without effect. Several processes may use
the same ledger at once (the daemon and the commands). Instants are UTC milliseconds given by the caller.
"""

from __future__ import annotations

from typing import Protocol

from wake_bridge.ports.ledger_parts.coalescing import Coalescing
from wake_bridge.ports.ledger_parts.deliveries import Deliveries
from wake_bridge.ports.ledger_parts.events import Events
from wake_bridge.ports.ledger_parts.heartbeat import Heartbeats
from wake_bridge.ports.ledger_parts.notices import Notices
from wake_bridge.ports.ledger_parts.switches import Switches
from wake_bridge.ports.ledger_parts.tail import TailRecords
from wake_bridge.ports.ledger_parts.upkeep import Upkeep
from wake_bridge.ports.ledger_parts.whereabouts import Whereabouts


class Ledger(
    TailRecords,
    Coalescing,
    Deliveries,
    Events,
    Switches,
    Whereabouts,
    Heartbeats,
    Notices,
    Upkeep,
    Protocol,
):
    """See the module's contract."""

    def close(self) -> None:
        """Give up the file."""
