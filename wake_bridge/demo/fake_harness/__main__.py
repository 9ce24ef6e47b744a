"""`python -m wake_bridge.demo.fake_harness`: see the package for modes, knobs, log and control channel."""

from __future__ import annotations

import sys

from wake_bridge.demo.fake_harness.settings import Record, parse_arguments


def main() -> int:
    """Run it on this terminal; the exit status."""
    start = parse_arguments(sys.argv[1:])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write("error: the fake harness needs a terminal: stdin and stdout\nhint: run it in a tmux pane\n")
        return 2
    with Record(start.log) as record:
        if start.quiet or start.deaf:
            from wake_bridge.demo.fake_harness.quiet import QuietProgram  # noqa: PLC0415 - one of the two is needed

            return QuietProgram(start, record).run()
        from wake_bridge.demo.fake_harness.program import Program  # noqa: PLC0415 - the same

        return Program(start, record).run()


if __name__ == "__main__":
    raise SystemExit(main())
