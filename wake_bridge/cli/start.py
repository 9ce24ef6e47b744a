"""Where `wake-bridge` begins: what needs no command line is answered before its library is imported.

Most of a short command's time is imports. What a shell or a harness asks for at every turn must not wait for them:
what stands here, and in `streams`, imports not even `typing`, which alone costs as much as the interpreter's own start.
"""

from __future__ import annotations

import sys

from wake_bridge import __version__
from wake_bridge.cli.streams import NOBODY_READS, prepare_streams, stop_writing

PROGRAM = "wake-bridge"
VERSION = f"{PROGRAM} {__version__}"


def main() -> None:
    """The console script."""
    prepare_streams()
    if sys.argv[1:] == ["--version"]:
        sys.exit(_say(VERSION))
    from wake_bridge.cli.app import cli

    cli.main()


def _say(line: str) -> int:
    """Print one line; answers the exit code."""
    try:
        print(line, flush=True)  # noqa: T201 - click is not imported yet
    except BrokenPipeError:
        stop_writing()
        return NOBODY_READS
    return 0
