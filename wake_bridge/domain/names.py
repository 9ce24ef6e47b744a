"""Names and units that everything shares: identities, instants and the enumerations of graph and configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NewType

Identity = NewType("Identity", str)
"""`@login`: who is woken."""

LogId = NewType("LogId", int)
"""`GraphLog.log_id`: comparable only inside one epoch."""

Instant = NewType("Instant", int)
"""Milliseconds since 1970, UTC."""

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
"""Lengths of time between instants, in milliseconds."""

_DURATION: Final = re.compile(r"(\d+)\s*([smhd])", re.ASCII)
_UNITS: Final = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_MOST_DIGITS: Final = 12


def duration_of(text: str) -> int | None:
    """The milliseconds of `90s`, `30m`, `1h` or `2d`; None for anything else."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else int(found[1][: _MOST_DIGITS + 1]) * _UNITS[found[2]]


_ROUNDING: Final = 0.001


def to_beat(seconds: float, at: float) -> float:
    """Seconds from `at` to the next whole multiple of `seconds`: those who wait so are woken together, and that costs less.

    Who wakes a hair too early, as the rounding of fractions does it, waits for the one after: never for no time at all.
    """
    left = seconds - at % seconds
    return left if left > _ROUNDING else left + seconds


EPOCH_START: Final = Instant(0)
"""The instant that is before all others; stands for "at once" and "never yet"."""

Epoch = NewType("Epoch", int)
"""One life of the source graph, counted from 1."""

BROADCAST: Final = "AGENT:*"
"""The node that every broadcast's SENT_TO edge points at."""

IDENTITY_PATTERN: Final = re.compile(r"@[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


_LONGEST: Final = 40

_CANONICAL: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)


def is_identity(text: str) -> bool:
    """Whether `text` is, as a whole, an identity as the graph's services spell them."""
    return IDENTITY_PATTERN.fullmatch(text) is not None


class EventKind(StrEnum):
    """What sort of fact a wake event announces."""

    MESSAGE = "message"
    TASK = "task"
    PERMISSION = "permission"
    PULSE = "pulse"
    PRESENCE = "presence"
    ITEM = "item"


class Trigger(StrEnum):
    """What a subscription listens for."""

    SENT_TO_ME = "SENT_TO_ME"
    TASK_STATE_CHANGED = "TASK_STATE_CHANGED"
    PERMISSION_GRANTED = "PERMISSION_GRANTED"
    HEARTBEAT_PULSE = "HEARTBEAT_PULSE"
    PRESENCE = "PRESENCE"


TRIGGER_OF: Final = {
    EventKind.MESSAGE: Trigger.SENT_TO_ME,
    EventKind.TASK: Trigger.TASK_STATE_CHANGED,
    EventKind.PERMISSION: Trigger.PERMISSION_GRANTED,
    EventKind.PULSE: Trigger.HEARTBEAT_PULSE,
    EventKind.PRESENCE: Trigger.PRESENCE,
}
"""What a subscription must listen for to hear of each kind; for items nothing need be subscribed."""


class Priority(StrEnum):
    """How it is ordered and labelled; never how it is routed."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """0 for low, 2 for high."""
        return ("low", "normal", "high").index(self.value)


class WakePolicy(StrEnum):
    """How insistent a wake may be, independent of its priority."""

    SILENT = "silent"
    NEXT_TURN = "next_turn"
    IMMEDIATE = "immediate"

    @property
    def loudness(self) -> int:
        """0 for silent, 2 for immediate."""
        return ("silent", "next_turn", "immediate").index(self.value)


class AttentionKind(StrEnum):
    """What an agent can stand at that a person may want to know, mail or not."""

    APPROVAL = "approval"
    QUESTION = "question"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    LIMITED = "limited"
    GONE = "gone"


def did_you_mean(unknown: str, known: Iterable[str]) -> str:
    """A question to begin a hint with, where an identity that is known is spelled nearly so; else empty."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    names = {one.removeprefix("@").casefold(): one for one in sorted(known)}
    near = get_close_matches(unknown.removeprefix("@").casefold(), names, n=1, cutoff=0.7)
    return f"did you mean {names[near[0]]}? " if near else ""


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
