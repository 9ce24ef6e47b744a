"""How long wakes of a crowd take, from the commit of a row to Enter."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.figures import quantile_of
from tests.torture.crowd import SENDER, Crowd, Member
from wake_bridge.domain.names import parse_instant

UNCHANGED: Final = 3.2
"""Seconds for which a pane has shown the same when it is woken: the panes take turns, and wait where there are few."""

APART: Final = 0.35
"""Seconds between two wakes at the least: each stands alone."""

SETTLED_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Wakes:
    """How long some wakes took from the commit of their row to Enter, in milliseconds; the load average meanwhile."""

    times: tuple[float, ...]
    lost: int
    load: float

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def p99(self) -> float:
        """All but one in a hundred took no longer."""
        return quantile_of(self.times, 0.99)

    def figures(self) -> dict[str, float | int]:
        """As JSON."""
        facts = {"p50_ms": round(self.p50), "p99_ms": round(self.p99), "max_ms": round(max(self.times))}
        return {"wakes": len(self.times), **facts, "lost": self.lost, "load_average": self.load}


def wake_in_turn(crowd: Crowd, members: Sequence[Member], count: int) -> Wakes:
    """Wake them in turn, one at a time, each when it has stood still for a while."""
    apart = max(APART, UNCHANGED / len(members))
    sent = {}
    with crowd.core() as core:
        for number in range(count):
            member = members[number % len(members)]
            sent[core.send(SENDER, member.identity, f"in turn {number}")] = member
            # at any phase of the watch's rounds
            time.sleep(apart + random.uniform(0, 0.1))
    return _taken(crowd, sent)


def wake_at_once(crowd: Crowd, members: Sequence[Member]) -> Wakes:
    """Commit a message for each of them, all in one moment."""
    with crowd.core() as core:
        core.sql("BEGIN IMMEDIATE")
        sent = {core.send(SENDER, member.identity, "all at once"): member for member in members}
        core.sql("COMMIT")
    return _taken(crowd, sent)


def _taken(crowd: Crowd, sent: Mapping[str, Member]) -> Wakes:
    """Wait until all of it was submitted; from the time that the writer gave the edge to the Enter that the agent read."""
    deadline = time.monotonic() + SETTLED_WITHIN
    while time.monotonic() < deadline and _waits(crowd, sent):
        time.sleep(0.2)
    with crowd.core() as core:
        written = core.sql(
            "SELECT source, json_extract(data, '$.properties.timestamp') FROM Edges WHERE type = 'SENT_TO'"
        )
    committed = {message: parse_instant(at) or 0 for message, at in written}
    told = crowd.ledger(
        "SELECT subject_key, delivery_event.delivery_id FROM wake_event JOIN delivery_event ON event_id = wake_event.id"
    )
    wake_of = {message: wake for message, wake in told if message in sent}
    entered = {
        (member.name, record["text"].rpartition("Wake: ")[2].split()[0]): float(record["at"])
        for member in set(sent.values())
        for record in member.fake.events("submit")
    }
    times = [
        entered[member.name, wake_of[message]] - committed[message]
        for message, member in sent.items()
        if (member.name, wake_of.get(message)) in entered
    ]
    return Wakes(tuple(times), len(sent) - len(times), round(os.getloadavg()[0], 1))


def _waits(crowd: Crowd, sent: Mapping[str, Member]) -> bool:
    """Whether some of it is not known to the ledger yet, or not told."""
    ended = {row[0] for row in crowd.ledger("SELECT subject_key FROM wake_event WHERE status <> 'open'")}
    return bool(sent.keys() - ended)
