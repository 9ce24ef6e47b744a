"""The property list of a launchd agent (DESIGN §9)."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wake_bridge import __version__
from wake_bridge.edges.service.manager.launch import Launch

LABEL: Final = "io.wake-bridge"
SIGNATURE: Final = "Written by `wake-bridge service install`"
FINAL_EXIT: Final = "--final-exit-zero"
"""What `run` is told where any exit but 0 is followed by another start."""


def agent_text(launch: Launch) -> str:
    """The agent that starts the daemon so, as the property list's text."""
    log = launch.state_dir / "service.stderr.log"
    text = plistlib.dumps(agent(launch.command, launch.environment, log)).decode()
    head, dtd, rest = text.partition("<plist ")
    comment = f"<!-- {SIGNATURE} of version {__version__}, which also replaces it. -->\n"
    return f"{head}{comment}{dtd}{rest}"


def agent(command: Sequence[str], environment: Mapping[str, str], stderr_file: Path) -> dict[str, Any]:
    """The agent's keys.

    launchd knows no exit status that ends the restarts but 0: `run` is told to end so where another start would not
    help (3, 5).
    """
    return {
        "Label": LABEL,
        "ProgramArguments": [*command, FINAL_EXIT],
        "EnvironmentVariables": dict(environment),
        # tmux's sockets and the rights to other programs' windows belong to the session of who is logged in
        "LimitLoadToSessionType": "Aqua",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardErrorPath": str(stderr_file),
    }
