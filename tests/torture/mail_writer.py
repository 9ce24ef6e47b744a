"""A process that writes messages into a graph at a steady pace, and gives account of each.

    python mail_writer.py GRAPH '{"rate": 1000, "seconds": 60, "to": ["@a", "@b"], "batch": 50}'

`rate` messages a second, `batch` of them in one commit, to the recipients in turn. The last line it prints is JSON:
`sent` by recipient, `seconds`, `errors`, and `late`: by how much the pace was missed at worst.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path

from wake_bridge.testing.memory_core import MemoryCore

SENDER = "@person"


def main() -> None:
    """Write by the plan on the command line."""
    plan = json.loads(sys.argv[2])
    rate, seconds, recipients = plan["rate"], plan["seconds"], plan["to"]
    batch = plan.get("batch", 1)
    sent: Counter[str] = Counter()
    errors: list[str] = []
    number, late = 0, 0.0
    began = time.monotonic()
    with MemoryCore(Path(sys.argv[1])) as core:
        while number < rate * seconds:
            pause = began + number / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            late = max(late, -pause)
            to = [recipients[(number + one) % len(recipients)] for one in range(batch)]
            try:
                core.sql("BEGIN IMMEDIATE")
                for one in to:
                    core.send(SENDER, one, f"mail {number}")
                core.sql("COMMIT")
                sent.update(to)
            except sqlite3.Error as error:
                errors.append(repr(error))
                core.sql("ROLLBACK")
            number += batch
    account = {"sent": dict(sent), "seconds": time.monotonic() - began, "errors": errors, "late": late}
    print(json.dumps(account), flush=True)


if __name__ == "__main__":
    main()
