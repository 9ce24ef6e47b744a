"""What other identities' subscriptions add to the cost of an event."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest
from structlog.testing import capture_logs

from tests.benchmarks.figures import MEGABYTE, Figures
from tests.benchmarks.office import Office
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.engine.tail.tail import Tail
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.signal import SilentSignal
from wake_bridge.storage.graph.upstream import LastSyncId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.memory_core import MemoryCore

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

FEW: Final = 10
MANY: Final = 10_000
EVENTS: Final = 500
TRIALS: Final = 7
SETTLES: Final = 10.0
STRETCH: Final = 20.0


def test_cost_of_an_event(tmp_path: Path, figures: Figures) -> None:
    """The cost of an event with 10,000 subscriptions is at most 1.5 × that with 10."""
    costs = {}
    for count in (FEW, MANY):
        directory = tmp_path / str(count)
        directory.mkdir()
        with MemoryCore.create(directory / "graph.sqlite") as core:
            _subscribe(core, count)
            with capture_logs():
                costs[count] = asyncio.run(_costs(core, directory, count))
        figures.add(f"an event, read, matched and stored, {count:,} subscriptions", costs[count], "µs CPU")
    ratio = sorted(costs[MANY])[TRIALS // 2] / sorted(costs[FEW])[TRIALS // 2]
    figures.add("ratio of the medians", [ratio], "", at_most=1.5)


async def _costs(core: MemoryCore, directory: Path, subscriptions: int) -> list[float]:
    """Microseconds of CPU for each event of a batch, batch by batch."""
    ledger = LedgerStore.open(directory)
    tail = Tail(
        SqliteGraph(directory / "graph.sqlite"),
        ledger,
        SilentSignal(),
        LastSyncId(directory),
        SteadyClock(),
        new_ulid,
        rules=MatchingRules,
        poll_interval=3600,
        on_events=lambda: None,
        on_rerouted=lambda _: None,
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
    tip = core.tip()
    before = time.process_time()
    tail.poke()
    while tail.cursor < tip:  # noqa: ASYNC110 - the tail tells nobody where it stands
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
                core.subscribe(
                    f"@agent{number}", harnessTargetMetadata={"adapter": "tmux", "tmuxSession": f"s{number}"}
                )
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
