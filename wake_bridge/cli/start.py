"""The console script: a harness's hook or monitor takes the short way, everything else the command line.

A hook stands in the way of every tool that its agent uses, and a monitor stays as long as its agent: neither must have
what only commands need.
"""

from __future__ import annotations

import sys
from typing import NoReturn

_HOOK = 2


def main() -> NoReturn:
    """Run `wake-bridge`."""
    arguments = sys.argv[1:]
    if len(arguments) >= _HOOK and arguments[0] == "hook" and not any(one.startswith("-") for one in arguments):
        from wake_bridge.edges.hook.shapes import HARNESSES

        if arguments[1] in HARNESSES:
            from wake_bridge.edges.hook.program import run

            run(arguments[1:])
    if arguments == ["claude", "monitor"]:
        from wake_bridge.edges.hook.monitor import run as wait

        wait()
    from wake_bridge.cli import app

    app.main()
