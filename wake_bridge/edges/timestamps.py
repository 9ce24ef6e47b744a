"""Instants as text: ISO-8601, UTC, milliseconds and `Z`, the form the graph, the logs and all output share."""

from __future__ import annotations

from datetime import UTC, datetime

from wake_bridge.domain.names import Instant


def timestamp_of(moment: datetime) -> str:
    """`2026-11-27T21:53:52.502Z`."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def timestamp_now() -> str:
    """The wall clock's time as text."""
    return timestamp_of(datetime.now(UTC))


def timestamp_of_instant(instant: Instant) -> str:
    """Milliseconds since 1970 as text."""
    return timestamp_of(datetime.fromtimestamp(instant / 1000, UTC))
