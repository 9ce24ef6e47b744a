"""What is known of one thing and one identity, and how it is told; for `why`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wake_bridge.domain.delivery import Delivery, Hold, JournalEntry
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.refusals import Refusal, Unheard
from wake_bridge.domain.subscriptions import Subscription

START: Final = "start the daemon: `wake-bridge run`"
NOTHING: Final = "nothing to do"

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence on what became of it, and one on what to do."""

    text: str
    next: str


class Sighting(StrEnum):
    """Whether the tail has passed the rows of what is asked about."""

    PASSED = "passed"
    AHEAD = "ahead of the cursor"
    BEFORE = "before the epoch"
    NEVER = "no daemon has ever looked"


@dataclass(frozen=True, slots=True)
class Listener:
    """What one subscription of the identity said, as the ledger has it, or would say today.

    `subscription` is None for one that is gone from the graph. `is_recorded` says that the ledger has it; `is_younger`
    that the subscription was added, and `is_changed` that it was last changed, after the thing happened.
    """

    id: str
    subscription: Subscription | None
    refusal: Refusal | None = None
    unheard: Unheard | None = None
    is_recorded: bool = False
    is_younger: bool = False
    is_changed: bool = False

    @property
    def matched(self) -> bool:
        """Whether it wanted it."""
        return self.refusal is None and self.unheard is None


@dataclass(frozen=True, slots=True)
class Ride:
    """The delivery that carries an event, with its journal and all that it carries."""

    delivery: Delivery
    journal: Sequence[JournalEntry] = ()
    events: Sequence[WakeEvent] = ()

    @property
    def others(self) -> int:
        """How many other events it carries."""
        return max(0, len(self.events) - 1)


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one thing and one identity.

    `wanted` is the trigger it would have needed, `row` the lowest log row of it that is known (0 if none), `tip_ahead`
    how many rows the cursor is behind. `holds` would hold its wake now. `unreadable` says why a row of it was set aside,
    `epoch_reason` why the present epoch began.
    """

    identity: Identity
    wanted: str
    event: WakeEvent | None = None
    ride: Ride | None = None
    listeners: Sequence[Listener] = ()
    sighting: Sighting = Sighting.PASSED
    is_addressed: bool = True
    is_shown: bool = False
    is_running: bool = True
    row: int = 0
    behind: int = 0
    unreadable: str = ""
    holds: Sequence[Hold] = ()
    epoch_reason: str = ""


@dataclass(frozen=True, slots=True)
class Teller:
    """How times are told: `now`, and an instant in words of the person's own clock."""

    now: Instant
    clock: Callable[[Instant], str]

    def ago(self, since: Instant) -> str:
        """How long it is since then."""
        return span(self.now - since)


def span(milliseconds: int) -> str:
    """A length of time in its largest unit: `6 h`, `40 s`."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds // size} {unit}"
    return "0 s"
