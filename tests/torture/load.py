"""Load (issue "Prove the promise", part 5): how cost and latency grow with panes, a flood, and what hangs or is slow."""

from __future__ import annotations

import os
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.benchmarks.figures import quantile_of
from tests.torture.crowd import MEGABYTE, SENDER, Crowd, Member, account_of, writer
from wake_bridge.domain.instants import parse_instant
from wake_bridge.testing.tmux_server import PrivateTmux

SETTLES: Final = 12.0
"""Seconds until a start is history."""

UNCHANGED: Final = 3.2
"""Seconds for which a pane has shown the same when it is woken: the panes take turns, and wait where there are few."""

APART: Final = 0.35
"""Seconds between two wakes at the least: each stands alone."""

SETTLED_WITHIN: Final = 120.0
_EVENTS: Final = re.compile(r"\] (\d+) events? for")
_MINUTE: Final = 60_000


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
    recipients = {member.identity for member in sent.values()}
    deadline = time.monotonic() + SETTLED_WITHIN
    while time.monotonic() < deadline and (_unknown(crowd, sent) or recipients & _waiting(crowd)):
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


def _unknown(crowd: Crowd, sent: Mapping[str, Member]) -> bool:
    """Whether the ledger has not heard of all of it yet."""
    known = {row[0] for row in crowd.ledger("SELECT subject_key FROM wake_event")}
    return bool(sent.keys() - known)


def _waiting(crowd: Crowd) -> set[str]:
    return {row[0] for row in crowd.ledger("SELECT identity FROM delivery WHERE settled_at IS NULL")}


# -- the curve -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One number of panes: what it costs while nothing happens, and how long wakes take."""

    panes: int
    idle_cpu: tuple[float, ...]
    """Percent of a core, tmux clients included, stretch by stretch."""
    tmux_cpu: tuple[float, ...]
    """Percent of a core that the tmux server uses meanwhile."""
    resident: float
    """Megabytes."""
    calls_a_minute: float
    calls: Mapping[str, int]
    """The idle minutes' calls of tmux by their first command."""
    calls_a_wake: float
    known_after: float
    """Seconds from the start of the daemon until it has looked at every pane."""
    in_turn: Wakes
    at_once: Wakes
    load: float

    def figures(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "in_turn": self.in_turn.figures(), "at_once": self.at_once.figures()}


def curve(
    directory: Path,
    tmux: PrivateTmux,
    program: Sequence[str],
    sizes: Sequence[int],
    *,
    stretch: float,
    stretches: int,
    wakes: int,
) -> list[Step]:
    """Measure each number of panes in turn, in one crowd that grows."""
    steps = []
    with Crowd(directory, tmux, program, sizes[0]) as crowd:
        for size in sizes:
            crowd.grow(size)
            step = _measure(crowd, stretch, stretches, wakes)
            print(f"{size} panes: {step.figures()}", flush=True)
            steps.append(step)
    return steps


def _measure(crowd: Crowd, stretch: float, stretches: int, wakes: int) -> Step:
    load = os.getloadavg()[0]
    with crowd.counting() as calls:
        daemon = crowd.daemon()
        began = time.monotonic()
        panes = {crowd.pane_of(one) for one in crowd.members}
        looked: set[str] = set()
        while panes - looked and time.monotonic() - began < SETTLED_WITHIN:
            looked |= {pane for call in calls() for pane in panes - looked if f"-t {pane} " in call}
            time.sleep(0.1)
        known_after = time.monotonic() - began
        time.sleep(SETTLES)
        calls()
        time.sleep(stretch * stretches)
        idle = calls()
        few = min(20, wakes)
        waking = time.monotonic()
        wake_in_turn(crowd, crowd.members, few)
        for_wakes = len(calls()) - len(idle) / (stretch * stretches) * (time.monotonic() - waking)
        daemon.stop()
    daemon = crowd.daemon()
    server = psutil.Process(crowd.tmux.server_pid)
    time.sleep(max(SETTLES, known_after))
    own, served = [], []
    for _ in range(stretches):
        before = sum(server.cpu_times()[:2])
        watched = crowd.watch(daemon, stretch, every=stretch)
        own.append(round(watched.share(), 2))
        served.append(round(100 * (sum(server.cpu_times()[:2]) - before) / stretch, 2))
    in_turn = wake_in_turn(crowd, crowd.members, wakes)
    time.sleep(UNCHANGED)
    at_once = wake_at_once(crowd, crowd.members)
    resident = psutil.Process(daemon.pid).memory_info().rss / MEGABYTE
    daemon.stop()
    return Step(
        panes=len(crowd.members),
        idle_cpu=tuple(own),
        tmux_cpu=tuple(served),
        resident=round(resident, 1),
        calls_a_minute=round(60 * len(idle) / (stretch * stretches), 1),
        calls=Counter(_command_of(call) for call in idle),
        calls_a_wake=round(for_wakes / few, 1),
        known_after=round(known_after, 1),
        in_turn=in_turn,
        at_once=at_once,
        load=round(max(load, os.getloadavg()[0]), 1),
    )


def _command_of(call: str) -> str:
    """The first tmux command of a call: `-u -S SOCKET display-message …`."""
    words = call.split()
    return words[3] if len(words) > 3 else call


# -- a flood -------------------------------------------------------------------------------------------------------


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
    """Events that are in the ledger, and wait only for a storm to be over."""
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
        while sum(_told(crowd).values()) < found.sent and time.monotonic() - ended < 3 * SETTLED_WITHIN:
            time.sleep(1)
        found.told_after = round(time.monotonic() - ended, 1)
        found.resident_after = round(process.memory_info().rss / MEGABYTE, 1)
        told = _told(crowd)
        found.told = sum(told.values())
        found.wrong = [f"{who}: {told[who]} of {sent}" for who, sent in account["sent"].items() if told[who] != sent]
        found.most_a_minute = max(_densest([one["at"] for one in records]) for records in crowd.submits().values())
        storms = [one["delivery"] for one in daemon.entries("limit_reached") if one["reason"] == "storm"]
        found.stormed, found.notices = len(set(storms)), max(Counter(storms).values(), default=0)
        found.held_open = crowd.ledger("SELECT COUNT(*) FROM wake_event WHERE status = 'open'")[0][0]
        daemon.stop()
    return found


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


# -- what hangs or is slow -----------------------------------------------------------------------------------------

TROUBLES: Final = ("nothing", "deaf pane", "hung calls", "a hung list-panes", "slow identity", "great backlog")
"""What is wrong while the others are woken: nothing · one identity's program never reads its terminal · every call of tmux
about its pane hangs · one listing of all panes hangs every 12 s · its screen is seconds late · it is at a dialog, and
thousands of messages wait for it."""

HANGS_ONCE_IN: Final = 12
_SLOW: Final = ("--paste-delay", "2500", "--echo-delay", "500", "--reply-after", "1500")
BACKLOG: Final = 20_000


@dataclass(frozen=True, slots=True)
class Trouble:
    """How the others' wakes went while one identity was in trouble."""

    name: str
    others: Wakes


def troubles(
    directory: Path,
    tmux: PrivateTmux,
    program: Sequence[str],
    *,
    panes: int,
    wakes: int,
    names: Sequence[str] = TROUBLES,
) -> list[Trouble]:
    """For each kind of trouble: the times of the others' wakes, in one crowd."""
    found = []
    with Crowd(directory, tmux, program, panes) as crowd:
        others = list(crowd.members)
        (deaf,) = crowd.add(["deaf"], "--deaf")
        (hung,) = crowd.add(["hung"], "--quiet")
        (slow,) = crowd.add(["slow"], *_SLOW)
        (stuffed,) = crowd.add(["stuffed"], "--mode", "approval")
        in_trouble = {"deaf pane": deaf, "hung calls": hung, "slow identity": slow, "great backlog": stuffed}
        for name in names:
            found.append(Trouble(name, _beside(crowd, others, in_trouble.get(name), name, wakes)))
            print(f"{name}: {found[-1].others.figures()}", flush=True)
    return found


def _beside(crowd: Crowd, others: Sequence[Member], one: Member | None, name: str, wakes: int) -> Wakes:
    """Wake the others while `one` has mail all the time."""
    # the stand-in costs a little: it stands before tmux in every case
    pattern, once_in = "nothing hangs", 0
    if name == "hung calls" and one is not None:
        pattern = f"-t {crowd.pane_of(one)} "
    elif name == "a hung list-panes":
        pattern, once_in = "list-panes", HANGS_ONCE_IN
    with crowd.hanging(pattern, once_in=once_in):
        daemon = crowd.daemon()
        time.sleep(SETTLES)
        if name == "great backlog" and one is not None:
            account_of(writer(crowd.sandbox.graph, rate=BACKLOG, seconds=1, to=[one.identity], batch=500))
            known = f"SELECT COUNT(*) >= {BACKLOG} FROM wake_event WHERE identity = '{one.identity}'"
            crowd.waits_until(lambda: crowd.ledger(known)[0][0], SETTLED_WITHIN, "the backlog")
        writing = None
        if one is not None:
            seconds = int(wakes * max(APART, UNCHANGED / len(others)))
            writing = writer(crowd.sandbox.graph, rate=2, seconds=seconds, to=[one.identity])
        taken = wake_in_turn(crowd, others, wakes)
        if writing is not None:
            account_of(writing)
        daemon.stop()
    if one is not None:
        _take_away(crowd, one)
    return taken


def _take_away(crowd: Crowd, one: Member) -> None:
    """Let it trouble nobody any more: its mail is read."""
    with crowd.core() as core:
        core.sql(
            "UPDATE Nodes SET data = json_set(data, '$.properties.readAt', '2026-01-01T00:00:00.000Z')"
            " WHERE id IN (SELECT source FROM Edges WHERE type = 'SENT_TO' AND target = ?)",
            one.identity,
        )
