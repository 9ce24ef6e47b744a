"""`python -m wake_bridge.testing.fake_harness`: see the package for modes, knobs, log and control channel."""

from __future__ import annotations

import asyncio
import sys

from wake_bridge.testing.fake_harness.program import Program
from wake_bridge.testing.fake_harness.record import Record
from wake_bridge.testing.fake_harness.settings import parse_arguments


def main() -> int:
    """Run it on this terminal; the exit status."""
    start = parse_arguments(sys.argv[1:])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write("error: the fake harness needs a terminal: stdin and stdout\nhint: run it in a tmux pane\n")
        return 2

    async def run(record: Record) -> int:
        return await Program(start, record).run()

    with Record(start.log) as record:
        return asyncio.run(run(record))


if __name__ == "__main__":
    raise SystemExit(main())
