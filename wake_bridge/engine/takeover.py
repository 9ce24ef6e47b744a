"""Going on where an upstream daemon stopped: its cursor, without what it has announced already (DESIGN §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.engine.harvest import Harvester, states_of
from wake_bridge.engine.places import Loss, Start, start_after
from wake_bridge.engine.reading import LogReader
from wake_bridge.ports.change_log import ChangeLog
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger, NewId


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What was taken over: where the tail will start, how many messages count as announced, and how many do not."""

    cursor: LogId
    announced: int
    still_unannounced: int
    reason: str
