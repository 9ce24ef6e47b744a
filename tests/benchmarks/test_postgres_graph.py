"""The same figures with the graph in PostgreSQL, on this machine: a wake, an idle daemon, a million rows."""

from __future__ import annotations

import random
import time
from collections import defaultdict
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
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.domain.names import Trigger
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.mailbox import Draft, send
from wake_bridge.storage.graph.nodes import Wish, put_identity, subscribe
from wake_bridge.storage.graph.opened import open_graph_to_write
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.system.clock import timestamp_now

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

WAKES: Final = 40
PANES: Final = 10
UNCHANGED: Final = 3.0
SETTLES: Final = 12.0
STRETCH: Final = 60.0
"""Seconds of one trial: the longest period of what an idle daemon asks by the clock."""

ROWS: Final = 1_000_000
TEXT: Final = "what was said and thought in one turn " * 8


class WrittenOffice(Office):
    """The set-up with a graph that commands write: in a database, or in a file of its own."""

    def __init__(self, directory: Path, tmux: PrivateTmux, program: tuple[str, ...], place: GraphPlace) -> None:
        super().__init__(directory, tmux, program)
        self.place = place
        self.configured()

    def configured(self, text: str = "") -> None:
        key = f'url = "{self.place.text}"' if isinstance(self.place, GraphUrl) else f'path = "{self.place}"'
        self.sandbox.configure(f"graph.{key}\n{text}")

    @contextmanager
    def writing(self) -> Iterator[WritableGraph]:
        """The graph as a command opens it; what was written is hinted at when it is closed."""
        with open_graph_to_write(self.place) as graph:
            yield graph

    def agent(self, name: str, *options: str) -> FakeHarness:
        harness = super().agent(name, *options)
        with self.writing() as graph:
            put_identity(graph, f"@{name}", NOW)
            subscribe(graph, f"@{name}", Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", window=0), NOW)
        return harness

    def first_byte(self, agent: FakeHarness, number: int, subject: str) -> float:
        """Milliseconds from a commit to the first byte of its wake, the agent's so-manieth, once its pane is at rest."""
        last = max(record["at"] for record in agent.records()) / 1000
        time.sleep(max(0.5, last + UNCHANGED + random.uniform(0.05, 1.0) - time.time()))
        with self.writing() as graph:
            send(graph, Draft("@person", f"@{agent.name}", subject), timestamp_now())
            committed = time.time() * 1000
        agent.waits_for("submit", number, timeout=60)
        return float(next(one["at"] for one in agent.events("bytes") if one["at"] > committed - 50) - committed)


class PostgresOffice(WrittenOffice):
    """The same with its graph in a database."""

    def __init__(self, directory: Path, tmux: PrivateTmux, program: tuple[str, ...], url: str) -> None:
        super().__init__(directory, tmux, program, GraphUrl(url))
        self.url = url

    def transactions(self) -> int:
        """Of the database, so far; a question of the daemon is one."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            [(count,)] = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            ).fetchall()
        return int(count)

    @contextmanager
    def without_autovacuum(self) -> Iterator[None]:
        """Its transactions would be counted with those of the daemon."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET autovacuum = off")
            connection.execute("SELECT pg_reload_conf()")
            try:
                yield
            finally:
                connection.execute("ALTER SYSTEM RESET autovacuum")
                connection.execute("SELECT pg_reload_conf()")


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


def test_row_committed_to_first_byte_from_postgresql(
    place: PostgresOffice, tmp_path: Path, tmux: PrivateTmux, program: tuple[str, ...], figures: Figures
) -> None:
    """Row committed → first byte in a pane that is idle: p50 ≤ 60 ms locally; in the same run the same from SQLite."""
    file = tmp_path / "graph.sqlite"
    create_embedded_graph(file, NOW)
    beside = WrittenOffice(tmp_path / "beside", tmux, program, file)
    offices, total = {"": place, ", SQLite": beside}, defaultdict[str, list[float]](list)
    agents = {}
    for which, office in offices.items():
        office.configured(LIMITS)
        agents[which] = [office.agent(f"agent{len(which)}x{number}", "--reply-after", "700") for number in range(PANES)]
        with office.writing() as graph:
            put_identity(graph, "@person", NOW, human=True)
        office.daemon()
    time.sleep(5)
    for number in range(WAKES):
        for which, office in offices.items():
            agent = agents[which][number % PANES]
            total[which].append(office.first_byte(agent, number // PANES + 1, f"Review request {number}"))
    beside.close()
    figures.add("commit → first byte", total[""], "ms", at_most=60)
    figures.add("commit → first byte", total[""], "ms", at_most=250, quantile=0.99)
    figures.add("commit → first byte, SQLite", total[", SQLite"], "ms")


def test_idle_cost_with_postgresql(place: PostgresOffice, figures: Figures) -> None:
    """Idle with 5 panes: ≤ 0.3 % of one core, children included, and ≤ 1.2 questions a second."""
    place.configured()
    place.agents(5)
    daemon, _ = place.daemon()
    process = psutil.Process(daemon.pid)
    used, asked = [], []
    with place.without_autovacuum():
        time.sleep(SETTLES)
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
