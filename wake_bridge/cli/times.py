"""Instants as a person reads them, on the clock of the room."""

from __future__ import annotations

from datetime import datetime

from wake_bridge.domain.names import Instant


def time_of_day(instant: Instant) -> str:
    """`01:12`; with the day in front where it was not today: `Nov 27 01:12`."""
    local = datetime.fromtimestamp(instant / 1000).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M}" if is_today else f"{local:%b %d %H:%M}"
