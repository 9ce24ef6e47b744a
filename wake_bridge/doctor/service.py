"""The service that starts the daemon: installed, well, and there after the last log-out (DESIGN §9)."""

from __future__ import annotations

import os

from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.service.manager import ServiceStanding, service_manager
from wake_bridge.edges.service.manager.launch import launch_of


def service(config_option: str | None, settings: Settings) -> list[Finding]:
    """How it stands, and whether it lingers."""
    try:
        manager = service_manager(os.environ)
    except OperationFailed as none:
        return [untold("service", str(none), none.hint)]
    standing = manager.standing()
    if not standing.installed:
        return [
            untold("service", "not installed: the daemon runs as long as its terminal", "`wake-bridge service install`")
        ]
    wanted = manager.text(launch_of(config_option, os.environ, settings.state_dir))
    return [_installed(standing, is_current=standing.text == wanted), _lingering(standing)]


def _installed(standing: ServiceStanding, *, is_current: bool) -> Finding:
    detail = f"{standing.manager}, {standing.file}"
    if standing.active is None:
        return untold("service", f"{detail}: {standing.trouble}")
    if not standing.active:
        why = standing.trouble or "it does not run"
        return ill("service", f"{detail}: {why}", "`wake-bridge service install` starts it; `logs` says why it ended")
    if not standing.starts_at_login:
        return ill("service", f"{detail}: it is not started at login", "`wake-bridge service install`")
    if not is_current:
        return untold("service", f"{detail}: not what this version would install", "`wake-bridge service install`")
    return well("service", f"{detail}, runs as pid {standing.pid}")


def _lingering(standing: ServiceStanding) -> Finding:
    if standing.lingers is None:
        return untold("linger", f"{standing.manager} does not say")
    if not standing.lingers:
        return ill("linger", "the service ends with your last session", "`loginctl enable-linger` lets it go on")
    return well("linger", "the service outlives your last session")
