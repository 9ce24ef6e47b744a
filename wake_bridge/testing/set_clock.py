"""A wall clock that is set while the daemon runs, as by a person or by NTP: for tests of deadlines and ages.

    WAKE_BRIDGE_TEST_CLOCK=FILE python -m wake_bridge.testing.set_clock run

runs the command line as it is, but its `time.time` is ahead by as many seconds as FILE says; what counts steadily is as it was.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from wake_bridge.cli.start import main

CLOCK: Final = "WAKE_BRIDGE_TEST_CLOCK"
COMMAND: Final = ("-m", "wake_bridge.testing.set_clock")
"""What an interpreter is given to run the command line through here."""


def run() -> None:
    """The command line, on such a clock."""
    file = Path(os.environ[CLOCK])
    real = time.time

    def set_by_hand() -> float:
        return real() + float(file.read_text(encoding="ascii") or 0)

    time.time = set_by_hand
    main()


if __name__ == "__main__":
    run()
