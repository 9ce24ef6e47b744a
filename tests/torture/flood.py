"""A flood: a thousand events a second for a minute, and what the panes get of it."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.torture.crowd import MEGABYTE, Crowd, account_of, writer
from wake_bridge.demo.tmux_server import PrivateTmux

SETTLES: Final = 12.0
TOLD_WITHIN: Final = 360.0
"""Seconds after a flood in which all of it must have been told: a storm's holds included."""

_EVENTS: Final = re.compile(r"\] (\d+) events? for")
_MINUTE: Final = 60_000


@dataclass(slots=True)
class Flood:
    """What a flood came to."""

    panes: int
    window: int
    sent: int
    late: float
    """Seconds by which the writer missed its pace at worst."""
    told: int = 0
    """Events that the digests, as the agents received them, add up to."""
    wrong: list[str] = field(default_factory=list)
    """Agents that were told of another number of events than they were sent."""
    most_a_minute: int = 0
    """Wakes of one pane within any sixty seconds."""
    notices: int = 0
    """Most notices of one storm."""
    stormed: int = 0
    """Deliveries that a storm held."""
    held_open: int = 0
    """Events that are open in the ledger in the end."""
    cpu: float = 0.0
    resident: list[float] = field(default_factory=list)
    """Megabytes, every second of the flood."""
    resident_after: float = 0.0
    told_after: float = 0.0
    """Seconds from the end of the flood until all of it was told."""
    lag: int = 0
    """Rows that the tail was behind at the end of the flood."""
    load: float = 0.0

    @property
    def growth(self) -> float:
        """Megabytes that the second half of the flood added to the first half's median."""
        half = len(self.resident) // 2
        return statistics.median(self.resident[half:]) - statistics.median(self.resident[:half])


def flood(
    directory: Path, tmux: PrivateTmux, program: Sequence[str], *, panes: int, window: int, rate: int, seconds: int
) -> Flood:
    """So many events a second for all of them in turn, with the limits that everybody has."""
    with Crowd(directory, tmux, program, panes, window=window, settings="") as crowd:
        daemon = crowd.daemon()
        time.sleep(SETTLES)
        process = psutil.Process(daemon.pid)
        writing = writer(
            crowd.sandbox.graph,
            rate=rate,
            seconds=seconds,
            to=[one.identity for one in crowd.members],
            batch=rate // 20,
        )
        watched = crowd.watch(daemon, seconds)
        account = account_of(writing)
        status = crowd.sandbox.ask("status")
        found = Flood(panes, window, sum(account["sent"].values()), round(account["late"], 2))
        found.lag = status["lag"]
        found.cpu, found.resident = round(watched.share(), 1), [round(one, 1) for one in watched.resident]
        found.load = round(os.getloadavg()[0], 1)
        ended = time.monotonic()
        while time.monotonic() - ended < TOLD_WITHIN:
            if sum(_told(crowd).values()) >= found.sent and not _open_events(crowd):
                break
            time.sleep(1)
        found.told_after = round(time.monotonic() - ended, 1)
        found.resident_after = round(process.memory_info().rss / MEGABYTE, 1)
        told = _told(crowd)
        found.told = sum(told.values())
        found.wrong = [f"{who}: {told[who]} of {sent}" for who, sent in account["sent"].items() if told[who] != sent]
        found.most_a_minute = max(_densest([one["at"] for one in records]) for records in crowd.submits().values())
        storms = [one["delivery"] for one in daemon.entries("limit_reached") if one["reason"] == "storm"]
        found.stormed, found.notices = len(set(storms)), max(Counter(storms).values(), default=0)
        found.held_open = _open_events(crowd)
        daemon.stop()
    return found


def _open_events(crowd: Crowd) -> int:
    return int(crowd.ledger("SELECT COUNT(*) FROM wake_event WHERE status = 'open'")[0][0])


def _told(crowd: Crowd) -> Counter[str]:
    """How many events each agent was told of, by the digests it had submitted."""
    told: Counter[str] = Counter()
    for identity, records in crowd.submits().items():
        for record in records:
            count = _EVENTS.search(record["text"])
            told[identity] += int(count[1]) if count else 0
    return told


def _densest(times: Sequence[float]) -> int:
    """The most of them within any sixty seconds."""
    return max((sum(at <= other < at + _MINUTE for other in times) for at in times), default=0)
