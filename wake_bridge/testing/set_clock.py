"""A wall clock that is set while the daemon runs, as by a person or by NTP: for tests of deadlines and ages.

    WAKE_BRIDGE_TEST_CLOCK=FILE python -m wake_bridge.testing.set_clock run

runs the command line as it is, but its `time.time` is ahead by as many seconds as FILE says; what counts steadily is as it was.
With `WAKE_BRIDGE_TEST_SLEPT=FILE` both are ahead, as after a sleep of the machine.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from wake_bridge.cli.start import main

CLOCK: Final = "WAKE_BRIDGE_TEST_CLOCK"
SLEPT: Final = "WAKE_BRIDGE_TEST_SLEPT"
COMMAND: Final = ("-m", "wake_bridge.testing.set_clock")
"""What an interpreter is given to run the command line through here."""


def run() -> None:
    """The command line, on such a clock."""
    wall, steady = time.time, time.clock_gettime

    def set_by_hand() -> float:
        return wall() + _seconds(CLOCK) + _seconds(SLEPT)

    def slept_through(clock: int) -> float:
        return steady(clock) + _seconds(SLEPT)

    time.time, time.clock_gettime = set_by_hand, slept_through
    main()


def _seconds(variable: str) -> float:
    file = os.environ.get(variable, "")
    return float(Path(file).read_text(encoding="ascii") or 0) if file else 0.0


if __name__ == "__main__":
    run()
