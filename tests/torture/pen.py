"""A writer of the graph in a process of its own: `python -m tests.torture.pen GRAPH PLAN`, PLAN being JSON.

It writes until it has written all, or its standard input is closed; then it says on standard output what it sent, as
JSON pairs of message and recipient, oldest first.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import sqlite3
import subprocess
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self, cast

from tests.torture.report import DOCS
from wake_bridge.testing.memory_core import MemoryCore, now_text


@dataclass(frozen=True, slots=True)
class Plan:
    """What is written.

    Attributes:
        sender: who sends.
        recipients: to whom; each message goes to one of them, by chance.
        messages: how many at most.
        per_second: how many on average, 0 for as fast as it goes.
        seed: of all chance.
        noise: rows of log without a message that are written before each message.
        disorder: the share of messages before which something is rolled back, the log is checkpointed, or the file is
            vacuumed.
        subject: what stands in each subject, before its number.
    """

    sender: str
    recipients: list[str]
    messages: int
    per_second: float = 0.0
    seed: int = 0
    noise: int = 0
    disorder: float = 0.0
    subject: str = "message"


class Pen:
    """Such a process, from the side of who starts it. A context manager."""

    def __init__(self, graph: Path, plan: Plan) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.pen", str(graph), json.dumps(asdict(plan))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=DOCS.parent,
        )
        self._end = cast("IO[str]", self._process.stdin)
        self._answer = cast("IO[str]", self._process.stdout)

    def is_writing(self) -> bool:
        """Whether it is still at it."""
        return not select.select([self._answer], [], [], 0)[0]

    def finish(self, timeout: float = 600) -> list[tuple[str, str]]:
        """Wait until it has written all; what it sent, oldest first.

        Raises:
            TimeoutError: it is not done after `timeout` seconds.
        """
        if not select.select([self._answer], [], [], timeout)[0]:
            raise TimeoutError(f"the writer is not done after {timeout} s")
        return [(message, recipient) for message, recipient in json.loads(self._answer.readline())]

    def stop(self) -> list[tuple[str, str]]:
        """Have it stop; what it sent, oldest first."""
        self._end.close()
        return self.finish(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._answer.close()


def write(core: MemoryCore, plan: Plan) -> list[tuple[str, str]]:
    """Write what is planned; answers what was sent."""
    chance = random.Random(plan.seed)
    sent: list[tuple[str, str]] = []
    began = time.monotonic()
    for number in range(plan.messages):
        due = began + number / plan.per_second if plan.per_second else 0.0
        if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            break
        if plan.noise:
            core.noise(plan.noise)
        if chance.random() < plan.disorder:
            disturb(core, chance)
        recipient = chance.choice(plan.recipients)
        sent.append((core.send(plan.sender, recipient, f"{plan.subject} {number}"), recipient))
    return sent


def disturb(core: MemoryCore, chance: random.Random) -> None:
    """One thing that a log's reader must not be misled by."""
    match chance.choice(("rollback", "rollback", "passive", "truncate", "restart", "vacuum")):
        case "rollback":
            core.sql("BEGIN IMMEDIATE")
            for _ in range(3):
                core.put(f"MESSAGE:{uuid.uuid4()}", "MESSAGE", {"subject": "never sent", "sentAt": now_text()})
            core.sql("ROLLBACK")
        case "vacuum":
            # needs the file for itself; another writer may have it
            with contextlib.suppress(sqlite3.OperationalError):
                core.sql("VACUUM")
        case mode:
            core.sql(f"PRAGMA wal_checkpoint({mode})")


def main() -> None:
    """Write as the command line says."""
    with MemoryCore(Path(sys.argv[1])) as core:
        core.sql("PRAGMA busy_timeout = 60000")
        print(json.dumps(write(core, Plan(**json.loads(sys.argv[2])))), flush=True)


if __name__ == "__main__":
    main()
