"""What other identities' subscriptions add to the cost of an event (issue 2, "Speed and size")."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from wake_bridge.domain.matching import MatchingRules
from wake_bridge.edges.cursor_file import LastSyncId
from wake_bridge.edges.ledger_store import LedgerStore
from wake_bridge.edges.sqlite_graph import SqliteGraph
from wake_bridge.edges.sqlite_signal import SilentSignal
from wake_bridge.edges.steady_clock import SteadyClock
from wake_bridge.edges.ulids import new_ulid
from wake_bridge.engine.tail import Tail
from wake_bridge.testing.memory_core import MemoryCore

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Figures, Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

FEW: Final = 10
MANY: Final = 10_000
EVENTS: Final = 500
TRIALS: Final = 7
MEGABYTE: Final = 1024 * 1024
SETTLES: Final = 10.0
STRETCH: Final = 20.0


def test_cost_of_an_event(tmp_path: Path, figures: Figures) -> None:
    """The cost of an event with 10,000 subscriptions is at most 1.5 × that with 10."""
    costs = {count: asyncio.run(_costs(tmp_path / str(count), count)) for count in (FEW, MANY)}
    for count, found in costs.items():
        figures.add(f"an event, read, matched and stored, {count:,} subscriptions", found, "µs CPU")
    ratio = sorted(costs[MANY])[TRIALS // 2] / sorted(costs[FEW])[TRIALS // 2]
    figures.add("ratio of the medians", [ratio], "", at_most=1.5)


async def _costs(directory: Path, subscriptions: int) -> list[float]:
    """Microseconds of CPU for each event of a batch, batch by batch."""
    directory.mkdir()
    graph = directory / "graph.sqlite"
    with MemoryCore.create(graph) as core:
        _subscribe(core, subscriptions)
        ledger = LedgerStore.open(directory)
        tail = Tail(
            SqliteGraph(graph),
            ledger,
            SilentSignal(),
            LastSyncId(directory),
            SteadyClock(),
            new_ulid,
            rules=MatchingRules,
            poll_interval=3600,
            on_events=lambda: None,
        )
        following = asyncio.create_task(tail.run())
        await tail.begun.wait()
        assert tail.active_routes == subscriptions
        try:
            return [await _cost(core, tail) for _ in range(TRIALS)]
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            await tail.close()
            ledger.close()


def _subscribe(core: MemoryCore, subscriptions: int) -> None:
    core.sql("BEGIN IMMEDIATE")
    core.identity("@person", accountType="human")
    for number in range(subscriptions):
        core.identity(f"@agent{number}")
        core.subscribe(f"@agent{number}")
    core.sql("COMMIT")


async def _cost(core: MemoryCore, tail: Tail) -> float:
    for number in range(EVENTS):
        core.send("@person", f"@agent{number % FEW}", f"Review request {number}")
    before = time.process_time()
    tail.poke()
    while tail.cursor < core.tip():
        await asyncio.sleep(0.01)
    return (time.process_time() - before) / EVENTS * 1e6


def test_idle_cost_of_subscriptions(office: Office, figures: Figures) -> None:
    """What 10,000 subscriptions, none of whose agents has a pane, cost an idle daemon, beside 10."""
    office.sandbox.configure()
    office.agent("somebody")
    known = 0
    for count in (FEW, MANY):
        with office.core() as core:
            core.sql("BEGIN IMMEDIATE")
            for number in range(known, count):
                core.identity(f"@agent{number}")
                core.subscribe(f"@agent{number}", harnessTargetMetadata={"adapter": "tmux", "tmuxSession": f"s{number}"})
            core.sql("COMMIT")
        known = count
        daemon, _ = office.daemon()
        process = psutil.Process(daemon.pid)
        time.sleep(SETTLES)
        before, began = sum(process.cpu_times()[:4]), time.monotonic()
        time.sleep(STRETCH)
        spent = (sum(process.cpu_times()[:4]) - before) / (time.monotonic() - began)
        figures.add(f"{count:,} subscriptions without a pane: idle CPU, children included", [100 * spent], "% core")
        figures.add(f"{count:,} subscriptions: RSS", [process.memory_info().rss / MEGABYTE], "MB")
        daemon.stop()
