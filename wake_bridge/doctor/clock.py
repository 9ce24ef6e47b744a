"""Whether the clock has jumped: deadlines go on steadily, but ages and quiet hours follow the wall (DESIGN §3)."""

from __future__ import annotations

from typing import Final

from wake_bridge.doctor.finding import Finding, ill, well
from wake_bridge.domain.errors import NotRunning, OperationFailed, WakeBridgeError
from wake_bridge.domain.names import Instant
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.ledger_store import LedgerStore
from wake_bridge.edges.records import time_or_none
from wake_bridge.edges.service.control_socket import ask
from wake_bridge.edges.steady_clock import SteadyClock

TOLERATED: Final = 60_000
"""Milliseconds: a clock that is kept right is slewed, or set by less."""

_HINT: Final = "see that the time is right now"


def clock(settings: Settings) -> Finding:
    """Set while the daemon ran, or back since something was recorded."""
    drift = _drift_of_the_daemon(settings)
    if abs(drift) > TOLERATED:
        detail = (
            f"the clock was set {'back' if drift > 0 else 'forward'} by {abs(drift) // 1000} s while the daemon ran"
        )
        return ill("clock", detail, f"{_HINT}, and restart the daemon: its deadlines go by the old one")
    latest = _latest_record(settings)
    ahead = latest - SteadyClock().wall()
    if ahead > TOLERATED:
        detail = f"the ledger has records of {time_or_none(latest)}, which is {ahead // 1000} s ahead"
        return ill("clock", detail, f"{_HINT}; a daemon that starts counts them as of now")
    return well("clock", "has not jumped")


def _drift_of_the_daemon(settings: Settings) -> int:
    """Milliseconds by which the daemon's steady time is ahead of the wall; 0 if there is none to ask."""
    try:
        return int(ask(settings.state_dir, "status", timeout=3).get("clock_ahead") or 0)
    except (NotRunning, OperationFailed):
        return 0


def _latest_record(settings: Settings) -> Instant:
    try:
        ledger = LedgerStore.open(settings.state_dir, read_only=True)
        deliveries = ledger.deliveries(state=None, identity=None, limit=50)
        ledger.close()
    except WakeBridgeError:
        # the check of the ledger says what is wrong with it
        return Instant(0)
    return Instant(max((max(one.created_at, one.settled_at or 0) for one in deliveries), default=0))
