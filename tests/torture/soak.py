"""A daemon that lives for a while: its memory, its descriptors, and what becomes of the mail (DESIGN §11)."""

from __future__ import annotations

import random
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.torture.oracle import RESULTS, reckon, waits_until_at_rest
from tests.torture.pen import Pen, Plan
from tests.torture.report import Table
from tests.torture.rig import SENDER, Agent, Rig
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tmux_server import PrivateTmux

MEGABYTE: Final = 1024 * 1024
SAMPLED_EVERY: Final = 2.0
WARM_AFTER: Final = 0.3
"""The part of the time after which the daemon has all it needs."""

GROWS_AT_MOST: Final = 3.0
"""Megabytes between the first and the last third of the rest."""

OPEN_NOW_AND_THEN: Final = 4
"""Descriptors: a connection to the graph is closed with the others, and opened when it is used; a leak has hundreds."""

ABOUT: Final = (
    "Five agents get a message every second in all; they work for a while after each wake, read their mail, stream or ask"
    " now and then. Memory and open descriptors of the daemon are read every two seconds. After a third of the time"
    " for warming up the descriptors may not rise by more than a connection has, and the memory by 3 MB at most. No message may be lost."
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The daemon at one moment: megabytes, open descriptors, threads, seconds of work."""

    memory: float
    descriptors: int
    threads: int
    work: float


def soak(directory: Path, tmux: PrivateTmux, *, seconds: float, seed: int) -> Table:
    """So many seconds."""
    table = Table("A long life", ABOUT, "messages", RESULTS)
    row = f"{seconds / 60:.0f} min"
    began = time.monotonic()
    samples: list[Sample] = []
    with Rig(directory / "soak", tmux, [f"soak{at}" for at in range(5)]) as rig:
        daemon = rig.daemon()
        process = psutil.Process(daemon.pid)
        ended = threading.Event()
        lives = [
            threading.Thread(target=_lives, args=(rig, one, random.Random(f"{seed} {one}"), ended), daemon=True)
            for one in rig.agents
        ]
        for life in lives:
            life.start()
        plan = Plan(SENDER, [one.identity for one in rig.agents], 1_000_000, per_second=1, seed=seed)
        with Pen(rig.plain.graph, plan) as pen:
            until = time.monotonic() + seconds
            while time.monotonic() < until and daemon.process.poll() is None:
                samples.append(_sample(process))
                time.sleep(SAMPLED_EVERY)
            sent = pen.stop()
        ended.set()
        for life in lives:
            life.join()
        for agent in rig.agents:
            agent.clear()
        rests = waits_until_at_rest(rig, 120)
        found = reckon(rig, sent)
        found.into(table, row)
        table.measures["dialogs that came up when Enter was on its way, and got it"] = str(found.overtaken)
        table.demand(daemon.process.poll() is None, row, f"the daemon ended:\n{daemon.log()[-3000:]}")
        table.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
        fell = [one["event"] for one in daemon.entries() if one["event"] in {"job_fell", "lane_failed", "chore_failed"}]
        table.demand(not fell, row, f"logged were {fell}")
    _judge(table, row, samples)
    table.seconds = time.monotonic() - began
    return table


def _lives(rig: Rig, agent: Agent, chance: random.Random, ended: threading.Event) -> None:
    """An agent that works, reads, writes and asks."""
    seen = 0
    while not ended.wait(0.5):
        submits = len(agent.fake.submits())
        if submits > seen:
            seen = submits
            agent.fake.shows("busy", keep=True)
            ended.wait(chance.uniform(0.5, 4))
            _reads(rig, agent, chance)
        elif chance.random() < 0.05:
            agent.fake.shows(chance.choice(("streaming", "approval", "menu")), keep=True)
            ended.wait(chance.uniform(1, 5))
        else:
            continue
        # what stands in the composer stays: nobody empties it in the instant between our look and our Enter
        agent.fake.shows("idle", keep=True)


def _reads(rig: Rig, agent: Agent, chance: random.Random) -> None:
    """The agent reads some of what it was told of."""
    with MemoryCore(rig.plain.graph) as core:
        core.sql("PRAGMA busy_timeout = 60000")
        rows = core.sql(
            "SELECT source FROM Edges WHERE type = 'SENT_TO' AND target = ? ORDER BY rowid DESC LIMIT 5", agent.identity
        )
        for (message,) in chance.sample(rows, k=min(2, len(rows))):
            core.mark_read(message)


def _sample(process: psutil.Process) -> Sample:
    with process.oneshot():
        return Sample(
            process.memory_info().rss / MEGABYTE, process.num_fds(), process.num_threads(), sum(process.cpu_times()[:2])
        )


def _judge(table: Table, row: str, samples: list[Sample]) -> None:
    warm = samples[int(len(samples) * WARM_AFTER) :]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    memory = [statistics.median(one.memory for one in part) for part in (first, last)]
    descriptors = [min(one.descriptors for one in part) for part in (first, last)]
    minutes = (len(warm) - third) * SAMPLED_EVERY / 60
    table.demand(memory[1] - memory[0] <= GROWS_AT_MOST, row, f"memory went from {memory[0]:.1f} to {memory[1]:.1f} MB")
    table.demand(
        descriptors[1] <= descriptors[0] + OPEN_NOW_AND_THEN,
        row,
        f"descriptors went from {descriptors[0]} to {descriptors[1]}",
    )
    each_minute = int(60 / SAMPLED_EVERY)
    table.details = {"megabytes each minute": [round(one.memory, 1) for one in samples[::each_minute]]}
    table.measures |= {
        "memory, first and last third": f"{memory[0]:.1f} and {memory[1]:.1f} MB,"
        f" {(memory[1] - memory[0]) / max(minutes, 0.1) * 60:+.2f} MB an hour",
        "descriptors at rest, first and last third": f"{descriptors[0]} and {descriptors[1]}",
        "threads at most": str(max(one.threads for one in samples)),
        "share of a processor": f"{(samples[-1].work - samples[0].work) / (len(samples) * SAMPLED_EVERY):.1%}",
    }
