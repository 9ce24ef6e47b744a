"""Where `wake-bridge` begins: what needs no command line is answered before its library is imported.

Most of a short command's time is imports. What a shell or a harness asks for at every turn must not wait for them:
what stands here, in `streams` and in `edges/hook` imports not even `typing`, which alone costs as much as the
interpreter's own start.
"""

from __future__ import annotations

import sys

from wake_bridge import __version__
from wake_bridge.cli.streams import NOBODY_READS, prepare_streams, stop_writing

PROGRAM = "wake-bridge"
VERSION = f"{PROGRAM} {__version__}"


def main() -> None:
    """The console script."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["hook"] and not any(one.startswith("-") for one in arguments):
        _serve_hook(arguments[1:])
    if arguments == ["claude", "monitor"]:
        _wait_for_wakes()
    prepare_streams()
    if arguments == ["--version"]:
        sys.exit(_say(VERSION))
    from wake_bridge.cli.app import cli

    cli.main()


def _serve_hook(arguments: list[str]) -> None:
    """Serve a harness's hook and exit, if that is what is asked for: every tool that its agent uses waits for it."""
    from wake_bridge.edges.hook.shapes import HARNESSES

    if arguments and arguments[0] in HARNESSES:
        from wake_bridge.edges.hook.program import run

        run(arguments)


def _wait_for_wakes() -> None:
    """Be a harness's monitor: one stays in every session for hours, and has nothing of what commands need."""
    from wake_bridge.edges.hook.monitor import run

    run()


def _say(line: str) -> int:
    """Print one line; answers the exit code."""
    try:
        print(line, flush=True)  # noqa: T201 - click is not imported yet
    except BrokenPipeError:
        stop_writing()
        return NOBODY_READS
    return 0
