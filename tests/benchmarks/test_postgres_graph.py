"""The same figures with the graph in PostgreSQL, on this machine: a wake, an idle daemon, a million rows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import psycopg
import pytest

from tests.benchmarks.figures import MEGABYTE, Figures
from tests.benchmarks.office import LIMITS, Office
from tests.postgres import NOW, PostgresServer
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Trigger
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.mailbox import Draft, send
from wake_bridge.storage.graph.nodes import Wish, put_identity, subscribe
from wake_bridge.storage.graph.opened import open_graph_to_write
from wake_bridge.system.clock import timestamp_now

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

WAKES: Final = 60
PANES: Final = 10
UNCHANGED: Final = 3.0
SETTLES: Final = 12.0
STRETCH: Final = 60.0
"""Seconds of one trial: the longest period of what an idle daemon asks by the clock."""

ROWS: Final = 1_000_000
TEXT: Final = "what was said and thought in one turn " * 8


class PostgresOffice(Office):
    """The set-up with its graph in a database; commands write it."""

    def __init__(self, directory: Path, tmux: PrivateTmux, program: tuple[str, ...], url: str) -> None:
        super().__init__(directory, tmux, program)
        self.url = url
        self.sandbox.configure(f'graph.url = "{url}"')

    def configured(self, text: str = "") -> None:
        self.sandbox.configure(f'graph.url = "{self.url}"\n{text}')

    @contextmanager
    def writing(self) -> Iterator[WritableGraph]:
        """The graph as a command opens it; what was written is hinted at when it is closed."""
        with open_graph_to_write(GraphUrl(self.url)) as graph:
            yield graph

    def agent(self, name: str, *options: str) -> FakeHarness:
        harness = super().agent(name, *options)
        with self.writing() as graph:
            put_identity(graph, f"@{name}", NOW)
            subscribe(graph, f"@{name}", Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", window=0), NOW)
        return harness

    def transactions(self) -> int:
        """Of the database, so far; a question of the daemon is one."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            [(count,)] = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            ).fetchall()
        return int(count)


@pytest.fixture
def place(
    tmp_path: Path, tmux: PrivateTmux, program: tuple[str, ...], postgres: PostgresServer
) -> Iterator[PostgresOffice]:
    """A set-up without agents; all it starts is ended afterwards."""
    url = postgres.database()
    place = PostgresOffice(tmp_path, tmux, program, url)
    try:
        yield place
    finally:
        place.close()
        postgres.drop(url)


def test_row_committed_to_first_byte_from_postgresql(place: PostgresOffice, figures: Figures) -> None:
    """Row committed → first byte in a pane that is idle: p50 ≤ 60 ms locally."""
    place.configured(LIMITS)
    agents = place.agents(PANES, "--reply-after", "700")
    with place.writing() as graph:
        put_identity(graph, "@person", NOW, human=True)
    daemon, _ = place.daemon()
    time.sleep(5)
    total = []
    for number in range(WAKES):
        agent = agents[number % PANES]
        last = max(record["at"] for record in agent.records()) / 1000
        time.sleep(max(0.5, last + UNCHANGED + random.uniform(0.05, 1.0) - time.time()))
        with place.writing() as graph:
            send(graph, Draft("@person", f"@{agent.name}", f"Review request {number}"), timestamp_now())
            committed = time.time() * 1000
        agent.waits_for("submit", number // PANES + 1, timeout=60)
        first = next(one["at"] for one in agent.events("bytes") if one["at"] > committed - 50)
        total.append(first - committed)
    daemon.stop()
    figures.add("commit → first byte", total, "ms", at_most=60)
    figures.add("commit → first byte", total, "ms", at_most=250, quantile=0.99)


def test_idle_cost_with_postgresql(place: PostgresOffice, figures: Figures) -> None:
    """Idle with 5 panes: ≤ 0.3 % of one core, children included, and ≤ 1.2 questions a second."""
    place.configured()
    place.agents(5)
    daemon, _ = place.daemon()
    process = psutil.Process(daemon.pid)
    time.sleep(SETTLES)
    used, asked = [], []
    for _ in range(3):
        before, count, began = process.cpu_times(), place.transactions(), time.monotonic()
        time.sleep(STRETCH)
        after, seconds = process.cpu_times(), time.monotonic() - began
        used.append(100 * (sum(after[:4]) - sum(before[:4])) / seconds)
        # two of them are ours
        asked.append((place.transactions() - count - 2) / seconds)
    daemon.stop()
    figures.add("CPU, children included", used, "% core", at_most=0.3)
    figures.add("questions to the server", asked, "/s", at_most=1.2)


def test_backlog_of_postgresql(place: PostgresOffice, figures: Figures) -> None:
    """1,000,000 rows behind, 50 messages among them: at the tip in ≤ 15 s, with ≤ 120 MB."""
    place.configured(LIMITS)
    place.agents(1)
    place.daemon()[0].stop()
    with place.writing() as graph, psycopg.connect(place.url, autocommit=True) as other:
        put_identity(graph, "@person", NOW, human=True)
        for number in range(50):
            other.execute(
                "INSERT INTO wake_bridge.nodes (id, data) SELECT 'MEMORY:' || gen_random_uuid(), jsonb_build_object('label',"
                " 'AGENT_MEMORY', 'properties', jsonb_build_object('text', %s::text)) FROM generate_series(1, %s)",
                (TEXT, ROWS // 50 - 4),
            )
            send(graph, Draft("@person", "@agent0", f"Review request {number}"), timestamp_now())
    daemon, started = place.daemon()
    process = psutil.Process(daemon.pid)
    daemon.waits_for_log("caught_up", timeout=180)
    figures.add("1,000,000 rows: at the tip", [time.time() - started], "s", at_most=15)
    figures.add("1,000,000 rows: until then, CPU of the daemon", [sum(process.cpu_times()[:2])], "s")
    time.sleep(1)
    figures.add("1,000,000 rows: peak RSS", [_peak_of(daemon)], "MB", at_most=120, quantile=1.0)
    figures.add("1,000,000 rows: RSS afterwards", [process.memory_info().rss / MEGABYTE], "MB")
    daemon.stop()


def _peak_of(daemon: DaemonProcess) -> float:
    lines = Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
