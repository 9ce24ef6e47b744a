"""`python -m wake_bridge.demo.fake_harness`: see the package for modes, knobs, log and control channel."""

from __future__ import annotations

import sys

from wake_bridge.demo.fake_harness.quiet import QuietProgram
from wake_bridge.demo.fake_harness.settings import Record, StartSettings, parse_arguments


def main() -> int:
    """Run it on this terminal; the exit status."""
    start = parse_arguments(sys.argv[1:])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write("error: the fake harness needs a terminal: stdin and stdout\nhint: run it in a tmux pane\n")
        return 2
    with Record(start.log) as record:
        if start.quiet or start.deaf:
            return QuietProgram(start, record).run()
        return _run_whole(start, record)


def _run_whole(start: StartSettings, record: Record) -> int:
    # a quiet one has no use for these, and is one of hundreds
    import asyncio  # noqa: PLC0415

    from wake_bridge.demo.fake_harness.program import Program  # noqa: PLC0415

    async def run() -> int:
        return await Program(start, record).run()

    return asyncio.run(run())


if __name__ == "__main__":
    raise SystemExit(main())
