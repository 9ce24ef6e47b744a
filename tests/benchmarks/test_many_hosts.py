"""What many hosts on one graph cost its server: leases on a turned clock, looks, wakes, and messages that all hosts read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import psutil
import psycopg
import pytest
from structlog.testing import capture_logs

from tests.benchmarks.figures import Figures
from tests.benchmarks.many_hosts_plot import Curve, crossing, plot
from tests.postgres import PostgresServer
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Identity
from wake_bridge.engine.deliver.host_leases import HostLeases
from wake_bridge.ports.ledger import Ledger
from wake_bridge.storage.graph.postgres import leases as module
from wake_bridge.storage.graph.postgres.change_log import PostgresGraph
from wake_bridge.storage.graph.postgres.connection import PostgresConnection
from wake_bridge.storage.graph.postgres.leases import PostgresLeases
from wake_bridge.testing.turned_clock import TurnedClock, live

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

HOSTS: Final = (10, 100, 1000)
EACH: Final = 100
"""Identities of one host."""

MINUTES: Final = 1.0
"""Of the turned clock, in which all hosts keep their leases; once a minute they look at all of them."""

MAIL: Final = 10
"""Messages a day for each identity, each of which becomes a wake."""

LOOKS: Final = 60 / 1.05
"""A minute and host, without a hint."""

DAY: Final = 24 * 60
TRIALS: Final = 300
CORES: Final = 2
CONNECTIONS: Final = 4
"""Of one daemon: the tail's, the questions', the leases', and one that listens."""

PLOT: Final = Path(__file__).parents[2] / "docs/scale-hosts.svg"


@dataclass(frozen=True, slots=True)
class Spent:
    """What the server used: seconds of processor time, transactions, MB of WAL; and the seconds of whoever asked."""

    server: float
    transactions: int
    wal: float
    asker: float


class Meter:
    """What is asked through one connection, and what the server's process behind it uses."""

    def __init__(self, url: str) -> None:
        self.base = PostgresConnection(GraphUrl(url))

    def _standing(self) -> tuple[float, int, float, float]:
        self.base.rows("SELECT pg_stat_force_next_flush()")
        [(pid, wal, asked)] = self.base.rows(
            "SELECT pg_backend_pid(), pg_current_wal_insert_lsn() - '0/0'::pg_lsn, xact_commit FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        return sum(psutil.Process(pid).cpu_times()[:2]), int(asked), float(wal) / 2**20, time.process_time()

    @contextmanager
    def measured(self, into: list[Spent]) -> Iterator[None]:
        """Add what is used meanwhile."""
        before = self._standing()
        yield
        server, asked, wal, own = (after - first for after, first in zip(self._standing(), before, strict=True))
        into.append(Spent(server, int(asked), wal, own))

    def each(self, question: Callable[[int], object], trials: int = TRIALS) -> Spent:
        """What one of many questions uses."""
        found: list[Spent] = []
        with self.measured(found):
            for number in range(trials):
                question(number)
        one = found[0]
        return Spent(one.server / trials, one.transactions // trials, one.wal / trials, one.asker / trials)


class Nothing:
    """The ledger of a host to which nothing happens."""

    def unsettled(self) -> Sequence[Any]:
        return ()

    def delivery(self, _: str) -> None:
        return None


def test_a_day_of_many_hosts(postgres: PostgresServer, figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 hosts and 100,000 identities: what leases cost the server, and what breaks first."""
    url = postgres.database()
    curves: dict[str, list[tuple[int, float]]] = {"leases": [], "looks": [], "wakes": [], "reading": []}
    with psycopg.connect(url, autocommit=True) as connection:
        _fill(connection)
    # the server's own clock is not turned: a host that renews each 5 s of the turned one must not lapse by it
    monkeypatch.setattr(module, "ALIVE_FOR", 24 * 3600)
    meter = Meter(url)
    log = PostgresGraph(GraphUrl(url))
    log._base = meter.base
    read = _read(meter, url, log)
    log.version()
    look = meter.each(lambda _: log.version())
    wake = _wake(meter, url, log)
    for hosts in HOSTS:
        kept = _keep(meter, url, hosts)
        a_minute = kept.server / MINUTES
        curves["leases"].append((hosts, a_minute / 60))
        curves["looks"].append((hosts, hosts * LOOKS * look.server / 60))
        mail = hosts * EACH * MAIL / DAY / 60
        curves["wakes"].append((hosts, mail * wake.server))
        curves["reading"].append((hosts, mail * hosts * (read.server + 2 * look.server)))
        name = f"{hosts:,} hosts, {hosts * EACH:,} identities"
        figures.add(f"{name}: leases, of the server", [100 * a_minute / 60], "% core")
        figures.add(f"{name}: leases, questions", [kept.transactions / MINUTES / 60], "/s")
        figures.add(f"{name}: leases, WAL a day", [kept.wal / MINUTES * DAY], "MB")
    figures.add("one look without news, of the server", [1e6 * look.server], "µs")
    figures.add("one wake, of the server", [1e6 * wake.server], "µs")
    figures.add("one message, read by one host, of the server", [1e6 * read.server], "µs")
    for name, points in curves.items():
        reached = crossing(Curve(name, points), CORES)
        figures.add(f"hosts with which {name} take {CORES} cores of the server", [reached], "")
    with psycopg.connect(url, autocommit=True) as connection:
        [(most, kept_back)] = connection.execute(
            "SELECT current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int"
        ).fetchall()
    full = (most - kept_back) // CONNECTIONS
    figures.add(f"hosts with which {most} connections are used up", [full], "")
    PLOT.write_text(
        plot([Curve(name, points) for name, points in curves.items()], full=full, cores=CORES), encoding="utf-8"
    )
    meter.base.close()


def _fill(connection: psycopg.Connection[Any]) -> None:
    """A graph with all identities, and what they were told in a day."""
    connection.execute(
        "INSERT INTO wake_bridge.nodes (id, data) SELECT '@a' || n, jsonb_build_object('label', 'AgentIdentity',"
        " 'properties', jsonb_build_object('name', 'a' || n)) FROM generate_series(0, %s) n",
        (HOSTS[-1] * EACH - 1,),
    )
    connection.execute(
        "INSERT INTO wake_bridge.told (identity, subject_key, delivery_id, host) SELECT '@a' || n %% %s, 'MESSAGE:' || n,"
        " 'd' || n, 'host' || n %% 1000 FROM generate_series(1, %s) n",
        (HOSTS[-1] * EACH, HOSTS[-1] * EACH * 2),
    )
    connection.execute("ANALYZE")


def _keep(meter: Meter, url: str, hosts: int) -> Spent:
    """All hosts keep their leases, by the code of the daemon on a turned clock; each sees its own agents."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE wake_bridge.hosts, wake_bridge.leases")
    clock = TurnedClock(1_000_000_000_000)
    found: list[Spent] = []

    def host_of(number: int) -> HostLeases:
        store = PostgresLeases(GraphUrl(url), f"host{number}", "here", "1")
        store._base = meter.base
        mine = {Identity(f"@a{one}") for one in range(number * EACH, (number + 1) * EACH)}
        return HostLeases(
            store,
            f"host{number}",
            cast("Ledger", Nothing()),
            clock,
            seen=lambda: mine,
            waiting=set,
            changed=lambda _: None,
            told=lambda _: None,
        )

    async def story() -> None:
        leases = [host_of(number) for number in range(hosts)]
        tasks = [asyncio.create_task(one.run()) for one in leases]
        # until all have taken theirs, and renew as hosts do that have long been there
        await asyncio.sleep(20)
        with meter.measured(found):
            await asyncio.sleep(MINUTES * 60)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # each lease that is taken is told
    with capture_logs():
        live(clock, story())
    return found[0]


def _wake(meter: Meter, url: str, log: PostgresGraph) -> Spent:
    """What one wake asks: how its mail stands, who it is for, who was told, the commit before the key, what became of it."""
    store = PostgresLeases(GraphUrl(url), "host0", "here", "1")
    store._base = meter.base
    store.renew([])
    one = Identity("@a1")
    token = store.take([one], [])[one]

    def wake(number: int) -> None:
        keys = [f"MESSAGE:new{number}"]
        if number % 1000 == 0:
            store.renew([])
        log.mail_states([(keys[0], one)])
        log.identities(one)
        store.told(one, keys)
        store.told(one, keys)
        assert store.commit_intent(one, token, f"new{number}", keys)
        store.open_intents()
        store.settle({f"new{number}": "submitted"})

    return meter.each(wake)


def _read(meter: Meter, url: str, log: PostgresGraph) -> Spent:
    """What one host asks for one message that was committed since its last look."""
    census = log.census()
    place = [(census.tip, census.snapshot)]
    log.version()

    with psycopg.connect(url, autocommit=True) as writer:

        def read(number: int) -> None:
            message = f"MESSAGE:read{number}"
            node = {"id": message, "label": "MESSAGE", "properties": {"subject": "Review", "from": "@a1", "to": "@a2"}}
            edge = {"id": f"{message}:to", "source": message, "target": "@a2", "type": "SENT_TO", "properties": {}}
            with writer.transaction():
                writer.execute("INSERT INTO wake_bridge.nodes (id, data) VALUES (%s, %s)", (message, json.dumps(node)))
                writer.execute(
                    "INSERT INTO wake_bridge.edges (id, source, target, type, data) VALUES (%s, %s, '@a2', 'SENT_TO', %s)",
                    (edge["id"], message, json.dumps(edge)),
                )
            log.version()
            log.bounds()
            cursor, snapshot = place[-1]
            log.fingerprint_at(cursor)
            page = log.read_after(cursor, 1000, snapshot)
            assert len(page.entries) == 1
            place.append((page.upto, page.snapshot))

        return meter.each(read)
