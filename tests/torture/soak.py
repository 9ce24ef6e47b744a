"""A daemon that lives for a while: its memory, its descriptors, and what becomes of the mail."""

from __future__ import annotations

import contextlib
import functools
import operator
import random
import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.torture.oracle import RESULTS, reckon, waits_until_at_rest
from tests.torture.pen import Pen, Plan
from tests.torture.report import Table
from tests.torture.rig import SENDER, Agent, Rig
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.memory_core import MemoryCore

MEGABYTE: Final = 1024 * 1024
SAMPLED_EVERY: Final = 1.0
WARM_AFTER: Final = 0.3
"""The part of the time after which the daemon has all it needs."""

GROWS_AT_MOST: Final = 3.0
"""Megabytes between the first and the last third of the rest."""

ABOUT: Final = (
    "Five agents get a message every second in all; they work for a while after each wake, read their mail, stream or ask"
    " now and then. Memory and open descriptors of the daemon are read every second. After a third of the time for"
    " warming up no file may stay open more often than it ever was before, the fewest descriptors beside files may not rise,"
    " and the memory by 3 MB at most. No message may be lost."
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The daemon at one moment: megabytes, open files by name, other descriptors, threads, seconds of work."""

    memory: float
    files: Counter[str]
    others: int
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
            threading.Thread(
                target=_lives, args=(rig, one, random.Random(f"{seed} {one.identity}"), ended), daemon=True
            )
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
    files, others = _open(process.pid)
    with process.oneshot():
        return Sample(
            process.memory_info().rss / MEGABYTE,
            files,
            others,
            process.num_threads(),
            sum(process.cpu_times()[:2]),
        )


def _open(pid: int) -> tuple[Counter[str], int]:
    """Open files by name, and how many descriptors are something else, as sockets and pipes are."""
    files: Counter[str] = Counter()
    others = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = descriptor.readlink()
            if target.is_absolute():
                # a connection is closed with its like when the graph's file changes, and opened when it is used
                files[target.name] += 1
            else:
                others += 1
    return files, others


def _judge(table: Table, row: str, samples: list[Sample]) -> None:
    warm = samples[int(len(samples) * WARM_AFTER) :]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    memory = [statistics.median(one.memory for one in part) for part in (first, last)]
    most = functools.reduce(operator.or_, (one.files for one in first))
    fewest = functools.reduce(operator.and_, (one.files for one in last))
    others = [min(one.others for one in part) for part in (first, last)]
    minutes = (len(warm) - third) * SAMPLED_EVERY / 60
    table.demand(memory[1] - memory[0] <= GROWS_AT_MOST, row, f"memory went from {memory[0]:.1f} to {memory[1]:.1f} MB")
    table.demand(fewest <= most, row, f"open files went from {most} at most to {fewest} at the least")
    table.demand(others[1] <= others[0], row, f"descriptors beside files went from {others[0]} to {others[1]}")
    each_minute = int(60 / SAMPLED_EVERY)
    table.details = {"megabytes each minute": [round(one.memory, 1) for one in samples[::each_minute]]}
    table.measures |= {
        "memory, first and last third": f"{memory[0]:.1f} and {memory[1]:.1f} MB,"
        f" {(memory[1] - memory[0]) / max(minutes, 0.1) * 60:+.2f} MB an hour",
        "files always open in the last third": f"{fewest.total()}",
        "fewest other descriptors, first and last third": f"{others[0]} and {others[1]}",
        "threads at most": str(max(one.threads for one in samples)),
        "share of a processor": f"{(samples[-1].work - samples[0].work) / (len(samples) * SAMPLED_EVERY):.1%}",
    }
