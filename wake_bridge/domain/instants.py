"""Times as the graph writes them, read without trusting them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from wake_bridge.domain.names import Instant

_LONGEST: Final = 40
_CANONICAL: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)


def parse_instant(value: object) -> Instant | None:
    """Read an ISO-8601 time; one without a zone counts as UTC. None for anything that is no time after 1970."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    try:
        moment = datetime.fromisoformat(value)
        zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        milliseconds = int(zoned.timestamp() * 1000 + 0.5)
    except (ValueError, OverflowError):
        return None
    return Instant(milliseconds) if milliseconds > 0 else None


def is_canonical(value: str) -> bool:
    """Whether `value` is written exactly as JavaScript's `toISOString` writes a time that exists."""
    return _CANONICAL.fullmatch(value) is not None and parse_instant(value) is not None
