"""`uninstall`: what was written for the agents and the system is taken back (DESIGN §9)."""

from __future__ import annotations

from wake_bridge.leaving.account import Account
from wake_bridge.leaving.leave import leave

__all__ = ["Account", "leave"]
