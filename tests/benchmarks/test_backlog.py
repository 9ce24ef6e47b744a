"""What is waiting when the daemon starts: 100,000 and 1,000,000 rows with 50 messages among them."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks.figures import MEGABYTE, Figures
from tests.benchmarks.office import Office
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.storage.ledger import LedgerStore

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

MESSAGES: Final = 50
PATIENCE: Final = 180.0
"""Seconds to wait for what must come, on a machine with much else to do."""

TEXT: Final = "what was said and thought in one turn " * 8
"""A memory's node is then as large as the real ones: about 640 bytes of file for each row of log."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start into a backlog: seconds since the process was started, and megabytes; `cpu` is seconds until the tip."""

    at_tip: float
    cpu: float
    first_key: float
    peak: float
    resident: float


@pytest.mark.parametrize(
    ("rows", "trials", "at_tip", "first_key", "memory"),
    [(100_000, 5, 1.0, 2.4, 90), (1_000_000, 3, 3.0, None, 100)],
    ids=["100000 rows", "1000000 rows"],
)
def test_backlog(
    office: Office, figures: Figures, rows: int, trials: int, at_tip: float, first_key: float | None, memory: float
) -> None:
    """At the tip with every event in the ledger ≤ 1 s, first key ≤ 2.4 s, RSS ≤ 90 MB; ten times the rows ≤ 3 s, 100 MB."""
    office.sandbox.configure(
        "[coalesce]\nrefractory = 0\n[limits]\nstorm = 100\nwakes_per_hour = 1000\nthread_wakes = 1000"
    )
    agent = office.agent("agent")
    office.daemon()[0].stop()
    _write_backlog(office, rows)
    before = _copied_ledger(office)
    starts = []
    for trial in range(trials):
        _go_back_to(office, before)
        starts.append(_start_into_backlog(office, agent, trial + 1))
    name = f"{rows:,} rows"
    size = office.sandbox.graph.stat().st_size
    figures.add(f"{name}: size of the graph", [size / MEGABYTE], "MB")
    figures.add(f"{name}: at the tip, {MESSAGES} events stored", [one.at_tip for one in starts], "s", at_most=at_tip)
    figures.add(f"{name}: until then, CPU", [one.cpu for one in starts], "s")
    figures.add(f"{name}: first key", [one.first_key for one in starts], "s", at_most=first_key)
    figures.add(f"{name}: peak RSS", [one.peak for one in starts], "MB", at_most=memory, quantile=1.0)
    figures.add(f"{name}: RSS afterwards", [one.resident for one in starts], "MB")
    for words in ("status", "inbox @agent", "list"):
        figures.add(f"{name}: `wake-bridge {words}`, CPU", [_cpu_of(office, words) for _ in range(trials)], "s")
    figures.add(f"{name}: rows read in a second", [rows / one.at_tip for one in starts], "/s")


def _write_backlog(office: Office, rows: int) -> None:
    """Memories in batches, as a session's turns are written, with the messages spread among them."""
    with office.core() as core:
        core.identity("@person", accountType="human")
        core.sql("PRAGMA synchronous = OFF")
        for number in range(MESSAGES):
            core.sql("BEGIN IMMEDIATE")
            for _ in range(rows // MESSAGES - 3):
                memory = f"MEMORY:{uuid.uuid4()}"
                core.put(memory, "AGENT_MEMORY", {"agentIdentity": "@somebody", "sessionId": memory, "text": TEXT})
            core.sql("COMMIT")
            core.send("@person", "@agent", f"Review request {number}")
        core.sql("PRAGMA wal_checkpoint(TRUNCATE)")


def _copied_ledger(office: Office) -> Path:
    """The ledger as it stood before the backlog was written."""
    copy = office.directory / "state-before.sqlite"
    source, target = sqlite3.connect(office.sandbox.state_dir / "state.sqlite"), sqlite3.connect(copy)
    source.backup(target)
    target.close()
    source.close()
    return copy


def _go_back_to(office: Office, before: Path) -> None:
    for old in office.sandbox.state_dir.glob("*"):
        old.unlink()
    ledger = office.sandbox.state_dir / "state.sqlite"
    ledger.write_bytes(before.read_bytes())
    ledger.chmod(0o600)


def _start_into_backlog(office: Office, agent: FakeHarness, trial: int) -> Start:
    """Start the daemon, wait for its first wake, end it; what its log and the agent's log say of it."""
    daemon, started = office.daemon()
    process = psutil.Process(daemon.pid)
    daemon.waits_for_log("caught_up", timeout=PATIENCE)
    cpu = sum(process.cpu_times()[:2])
    agent.waits_for("submit", trial, timeout=PATIENCE)
    keys = [record["at"] / 1000 for record in agent.events("bytes") if record["at"] / 1000 > started]
    time.sleep(1)
    peak, resident = _peak_of(daemon), process.memory_info().rss / MEGABYTE
    daemon.stop()
    (caught_up,) = daemon.entries("caught_up")
    at_tip = datetime.fromisoformat(caught_up["timestamp"]).timestamp()
    _check_ledger(office, caught_up["cursor"], at_tip)
    return Start(at_tip - started, cpu, keys[0] - started, peak, resident)


def _check_ledger(office: Office, cursor: int, at_tip: float) -> None:
    """Every event was stored by then, and the cursor that was told is the tip."""
    with office.core() as core:
        assert cursor == core.tip()
    ledger = LedgerStore.open(office.sandbox.state_dir, read_only=True)
    events = [
        event for one in ledger.deliveries(state=None, identity=None, limit=100) for event in ledger.events_of(one.id)
    ]
    ledger.close()
    assert len(events) == MESSAGES
    assert max(event.matched_at for event in events) <= at_tip * 1000 + 1


def _cpu_of(office: Office, words: str) -> float:
    """Seconds that the processor works for one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # a child of this process: what the nursery runs is not counted
    subprocess.run(
        [*office.sandbox.command, *words.split()], env=office.sandbox.environment, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _peak_of(daemon: DaemonProcess) -> float:
    lines = Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
