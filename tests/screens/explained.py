"""Why each captured screen is or is not woken, in the words a person gets: one line a capture.

`python -m tests.screens.explained` prints them; with `--write` they go into `explained.txt`, which the tests compare.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from wake_bridge_adapters.screens import classify_capture

from tests.screens.corpus import PROFILES, Captured, corpus
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import EPOCH_START, Identity
from wake_bridge.domain.presence import Observation, Presence, PresenceState, fuse
from wake_bridge.domain.routing import hold_because_of

SNAPSHOT: Final = Path(__file__).with_name("explained.txt")
WHERE: Final = "agents:1.2"
ME: Final = Identity("@me")
_FIRST_WORDS: Final = 70


def presence_of(one: Captured) -> Presence:
    """What one look at that screen comes to, in a pane called `WHERE`."""
    reading = classify_capture(one.capture, PROFILES[one.capture.harness])
    return fuse(Observation(EPOCH_START, reading.evidence, reading.fingerprint, WHERE), None, EPOCH_START, 0)


def hold_of(one: Captured) -> Hold:
    """The hold of a wake that meets that screen."""
    return hold_because_of(presence_of(one))


def explained(one: Captured) -> str:
    """Name, state, what decides it and where, and the first words of what a person is told."""
    presence = presence_of(one)
    is_idle = presence.wants_second_look
    state = PresenceState.IDLE if is_idle else presence.state
    seen = "idle in composer" if is_idle else presence.detail.partition(": ")[0]
    told = "woken, if a second look agrees" if is_idle else hold_of(one).told(ME)
    return f"{one.name} | {state} | {seen} | {told[:_FIRST_WORDS]}"


def snapshot() -> str:
    """A line for every capture."""
    return "".join(f"{explained(one)}\n" for one in corpus())


def main() -> None:
    """Print the lines, or write them down."""
    if "--write" in sys.argv:
        SNAPSHOT.write_text(snapshot(), encoding="utf-8")
    else:
        print(snapshot(), end="")


if __name__ == "__main__":
    main()
