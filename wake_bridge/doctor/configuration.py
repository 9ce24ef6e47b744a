"""What is configured, and what holds by it now."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.domain.guards import QuietHours
from wake_bridge.edges.configuration.config import Settings


def configuration(settings: Settings) -> Finding:
    """Which file is in force. That it is valid was seen before."""
    read = ", ".join(str(path) for path in settings.source_files)
    return well("configuration", read or f"defaults; there is no {settings.config_file}")


def locale_in_force() -> Finding:
    """Agents that were started in another locale than a UTF-8 one draw other signs than their profiles know."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = os.environ.get(name)
        if value:
            if value.lower().replace("-", "").endswith("utf8"):
                return well("locale", f"{name}={value}")
            return ill(
                "locale", f"{name}={value} is no UTF-8 locale", "set LANG to one such as C.UTF-8, and restart agents"
            )
    return untold("locale", "none is set; tmux chooses a UTF-8 one by itself", "set LANG to one such as C.UTF-8")


def screen_profiles(settings: Settings, error: ConfigurationInvalid | None = None) -> Finding:
    """Whether every profile can be used; `error` is what an adapter said of them."""
    if error is None:
        return well(
            "profiles",
            f"the bundled ones and {settings.screens_directory}" if settings.screens_directory else "the bundled ones",
        )
    return ill("profiles", "; ".join(error.problems) or str(error), error.hint)


def quiet_hours(settings: Settings) -> Finding:
    """Whether wakes are held now because it is night."""
    text = settings.config.policy.quiet_hours
    span = QuietHours.parse(text)
    local = datetime.now(UTC).astimezone()
    left = span.minutes_left(local.hour * 60 + local.minute) if span else 0
    if left:
        hint = "nothing is lost; policy.quiet_hours says when"
        return untold("quiet hours", f"every wake is held for {left} more minutes ({text}, it is {local:%H:%M})", hint)
    return well("quiet hours", f"not now ({text})" if text else "none")
