"""A graph that does not answer for a while, as on a network file system that hangs: for the watchdog's test.

    WAKE_BRIDGE_TEST_STUCK=FILE python -m wake_bridge.testing.stuck_tail run

runs the command line as it is, but its daemon reads nothing while FILE exists, and takes a second for stuck already.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import wake_bridge.daemon.chores
import wake_bridge.storage.graph.absent
from wake_bridge.cli.start import main
from wake_bridge.storage.graph.change_log import SqliteGraph

STUCK: Final = "WAKE_BRIDGE_TEST_STUCK"
COMMAND: Final = ("-m", "wake_bridge.testing.stuck_tail")
"""What an interpreter is given to run the command line through here."""

_POLL: Final = 0.02


class HangingGraph(SqliteGraph):
    """Answers nobody while the file is there."""

    def version(self) -> tuple[int, int, int]:
        """See `ChangeLog.version`; the tail asks it before anything else."""
        if (stuck := Path(os.environ[STUCK])).exists():
            print("stuck", flush=True)
        while stuck.exists():
            time.sleep(_POLL)
        return super().version()


def run() -> None:
    """The command line, with its daemon on such a graph."""
    vars(wake_bridge.storage.graph.absent)["SqliteGraph"] = HangingGraph
    wake_bridge.daemon.chores.STUCK_AFTER = 1_000  # type: ignore[misc]
    main()


if __name__ == "__main__":
    run()
