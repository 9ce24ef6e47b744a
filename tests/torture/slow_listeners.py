"""Listeners of the feed that stop reading: what the daemon keeps for them, what they are told, what the others get."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

import psutil

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.names import Instant
from wake_bridge.http.feed import DROPPED, QUEUE
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG

Connect = Callable[[], socket.socket]
"""Makes a connection to the daemon's web server, over TCP or a Unix socket."""

READERS_GROW_BY: Final = 256 * 1024
"""Bytes that the daemon may grow by for each listener that does not read: what it has written, and its queue."""


class Listener:
    """A client of `/api/events`. It reads what comes only when it is told to."""

    def __init__(self, connect: Connect, token: str, after: int | None = None) -> None:
        self._line = connect()
        cursor = "" if after is None else f"Last-Event-ID: {after}\r\n"
        head = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{cursor}\r\n"
        self._line.sendall(head.encode())
        self._file = self._line.makefile("r", encoding="utf-8", newline="\n", buffering=1)

    def begins(self) -> Self:
        """Read until the daemon says that it listens."""
        while (line := self._file.readline()) and line.strip() != ": listening":
            pass
        return self

    def events(self) -> list[tuple[str, int, Any]]:
        """The next event: its name, its id (0 without one) and its data; an empty list where the stream has ended."""
        name, number, data = "", 0, None
        with suppress(OSError):
            while line := self._file.readline():
                line = line.strip()
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("data: "):
                    data = json.loads(line[6:])
                elif not line and name:
                    return [(name, number, data)]
        return []

    def entries(self, last: int) -> tuple[list[int], list[Any]]:
        """Read up to an entry: the ids of all that came, and what was said to be dropped."""
        ids: list[int] = []
        dropped: list[Any] = []
        # a comment comes every 15 s, so this ends
        deadline = time.monotonic() + HUNG
        while last not in ids[-1:] and time.monotonic() < deadline and (found := self.events()):
            name, number, data = found[0]
            if name == DROPPED:
                dropped.append(data)
            elif number:
                ids.append(number)
        return ids, dropped

    def close(self) -> None:
        """Go."""
        self._file.close()
        self._line.close()


@dataclass(slots=True)
class Findings:
    """What was seen."""

    violations: list[str] = field(default_factory=list)
    grown: int = 0
    dropped: int = 0
    seconds: float = 0.0

    def demand(self, holds: object, broken: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.violations.append(broken)


def connections(connect: Callable[[socket.socket], None], family: int = socket.AF_INET) -> Connect:
    """Connections that wait for nothing for ever; `connect` connects one."""

    def made() -> socket.socket:
        line = socket.socket(family)
        line.settimeout(HUNG)
        connect(line)
        return line

    return made


def listen_slowly(
    box: Sandbox,
    pid: int,
    token: str,
    connect: Connect,
    *,
    slow: int,
    entries: int,
    meanwhile: Callable[[], bool],
) -> Findings:
    """So many listeners stop reading, one reads on, and the feed grows by so many entries.

    `meanwhile` asks for something else in the middle of it; whether it was answered is judged.
    """
    found = Findings()
    process = psutil.Process(pid)
    with ExitStack() as open_lines, closing(LedgerStore.open(box.state_dir)) as ledger:
        first = ledger.activity_span()[1]
        last = first + entries

        def opened() -> Listener:
            return open_lines.enter_context(closing(Listener(connect, token))).begins()

        reader, stopped = opened(), [opened() for _ in range(slow)]
        read: list[tuple[list[int], list[Any]]] = []
        reading = threading.Thread(target=lambda: read.append(reader.entries(last)), daemon=True)
        reading.start()
        before, began, start = process.memory_info().rss, time.monotonic(), time.time_ns() // 1_000_000
        for number in range(entries):
            # one and the same pause would be no entry
            ledger.pause("@mine", None, Instant(start + number))
            if number == entries // 2:
                found.demand(meanwhile(), "another request was not answered while listeners did not read")
        reading.join(HUNG)
        found.seconds = time.monotonic() - began
        found.grown = process.memory_info().rss - before
        found.demand(found.grown < slow * READERS_GROW_BY + 8 * 2**20, f"the daemon grew by {found.grown} bytes")
        found.demand(
            read == [([*range(first + 1, last + 1)], [])], "a listener that reads missed entries, or got one twice"
        )
        _judge(found, stopped[0], first, last)
        ids, dropped = open_lines.enter_context(closing(Listener(connect, token, first))).entries(last)
        found.demand(
            (ids, dropped) == ([*range(first + 1, last + 1)], []), "Last-Event-ID did not bring every entry once"
        )
    return found


def _judge(found: Findings, slow: Listener, first: int, last: int) -> None:
    """What a slow listener gets when it reads on: all up to a point, how many were dropped, and the last ones."""
    ids, dropped = slow.entries(last)
    missing = sorted({*range(first + 1, last + 1)} - {*ids})
    found.dropped = sum(one["count"] for one in dropped)
    found.demand(ids == sorted({*ids}), "a slow listener got an entry twice, or out of order")
    found.demand(missing, "nothing was dropped: the listener was not slow")
    found.demand(found.dropped == len(missing), f"{len(missing)} entries were dropped, and {found.dropped} told of")
    found.demand(ids[-1:] == [last], "the last entries did not come")
    if missing:
        after = [one["after"] for one in dropped]
        found.demand(missing[0] - 1 in after, f"dropped after {missing[0] - 1}, said to be after {after}")
        found.demand(len(ids) - ids.index(missing[0] - 1) - 1 >= QUEUE, f"fewer than {QUEUE} were kept")
