"""One run in a process of its own: `python -m tests.torture.alone NAME SEED short|long FILE` leaves its tables in FILE."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from tests.torture.catalogue import RUNS
from tests.torture.run import Course


def main() -> None:
    """Play the run."""
    # what was started is ended with it, whoever ends it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    name, seed, form, file = sys.argv[1:]
    run = next(one for each in RUNS for one in (each, *each.pieces) if one.name == name)
    with Course(int(seed), is_long=form == "long") as course:
        tables = run.play(course)
    Path(file).write_text(json.dumps([table.record() for table in tables]), encoding="utf-8")


if __name__ == "__main__":
    main()
