"""The service manager that starts the daemon at login: systemd's for a user, launchd's for a session."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.integrations.service.launch import Calls, ServiceManager, ServiceStanding
from wake_bridge.integrations.service.launchd import Launchd
from wake_bridge.integrations.service.systemd import Systemd

__all__ = ["ServiceManager", "ServiceStanding", "service_manager"]


def service_manager(environment: Mapping[str, str], *, platform: str = sys.platform) -> ServiceManager:
    """The one that this platform has.

    Args:
        environment: of the person who asks; says where unit files lie and where the manager's programs are.
        platform: as `sys.platform` names it.

    Raises:
        OperationFailed: there is none that wake-bridge knows.
    """
    home = Path(environment.get("HOME") or Path.home())
    calls = Calls(environment)
    if platform == "darwin":
        return Launchd(home, calls)
    if platform.startswith("linux"):
        return Systemd(Path(environment.get("XDG_CONFIG_HOME") or home / ".config"), calls)
    raise OperationFailed(
        "wake-bridge supports no service manager on this platform",
        platform,
        hint="start `wake-bridge run` with the program that starts your other programs at login",
    )
