"""Eight hosts on one graph in PostgreSQL: the rate of messages that they keep up with, and what the hint costs who writes."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest

from tests.benchmarks.desk_adapter import HERE, DeskAdapter, desk_program
from tests.benchmarks.figures import MEGABYTE, Figures, quantile_of
from tests.benchmarks.office import LIMITS
from tests.postgres import PostgresServer
from tests.postgres_graph import PostgresCore
from tests.postgres_line import SOCKET
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.storage.graph.postgres.connection import PostgresConnection
from wake_bridge.storage.graph.postgres.graph import hint
from wake_bridge.system.clock import timestamp_now
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.webhook_receiver import WebhookReceiver

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

HOSTS: Final = 8
IDENTITIES: Final = 10_000
POSTED: Final = 25
"""One of so many has a receiver, which any host may serve; each of the others has an agent on one of the hosts."""

WRITTEN_TO: Final = 500
"""Identities to which mail goes, in turn, and on all hosts alike: the default window gathers it for 30 s."""

RATES: Final = (25, 50, 100, 150, 200, 300)
"""Messages a second."""

STRETCH: Final = 45.0
"""Seconds of each rate: longer than a window, so that wakes go on as mail comes."""

SETTLES: Final = 10.0
APART: Final = 19
"""Between two identities that are written to; it has nothing in common with the number of hosts."""

LOOKED_FOR: Final = 36
"""Stretches of that length in which all places are looked for the first time: ten in each round, four rounds a second."""

LAG: Final = 1.0
"""Seconds from a commit until a host has the message in its ledger; which the 99th of a hundred must not exceed."""

PATIENCE: Final = 4.0
WRITES: Final = 0.75
TRIALS: Final = 20
"""Each so many seconds long, without the hint and with it in turn, beside daemons that listen and stand still: what the server tidies
up meanwhile lasts longer than one."""

AT_REST: Final = 40.0
"""Percent of a core: what all daemons use when nothing is left to do, and somewhat more."""
SETTINGS: Final = f'{LIMITS}[adapters.webhook]\nallow = ["127.0.0.1"]\nper_minute = 0\n'


@dataclass
class Fleet:
    """All hosts, and when what was sent was committed."""

    url: str
    hosts: list[tuple[Sandbox, DaemonProcess]]
    writer: psycopg.Connection[Any]
    server: PostgresServer
    identities: int
    sent: dict[str, float] = field(default_factory=dict)
    _number: int = 0

    def send(self) -> str:
        """One message, to another identity each time, as a program of its own writes it."""
        self._number += 7919
        to = f"@r{self._number % WRITTEN_TO * APART % self.identities}"
        message = f"MESSAGE:{new_ulid()}"
        properties = {"subject": "Review", "from": "@writer", "to": to, "sentAt": timestamp_now()}
        node = {"id": message, "label": "MESSAGE", "properties": properties}
        with self.writer.transaction():
            self.writer.execute("INSERT INTO wake_bridge.nodes (id, data) VALUES (%s, %s)", (message, json.dumps(node)))
            for kind, target in (("SENT_BY", "@writer"), ("SENT_TO", to)):
                edge = {"id": f"{message}:{kind}", "source": message, "target": target, "type": kind, "properties": {}}
                self.writer.execute(
                    "INSERT INTO wake_bridge.edges (id, source, target, type, data) VALUES (%s, %s, %s, %s, %s)",
                    (edge["id"], message, target, kind, json.dumps(edge)),
                )
        self.sent[message] = time.time()
        return message

    def lags(self, messages: list[str]) -> list[float]:
        """Seconds until each host had each of them; as long as was waited for one that is not there."""
        lags: list[float] = []
        for sandbox, _ in self.hosts:
            with contextlib.closing(sqlite3.connect(sandbox.state_dir / "state.sqlite", timeout=30)) as ledger:
                found = dict(ledger.execute("SELECT subject_key, matched_at FROM wake_event"))
            lags += [found[one] / 1000 - self.sent[one] if one in found else STRETCH + PATIENCE for one in messages]
        return lags

    def used(self) -> tuple[float, float, float]:
        """Seconds of processor time of all daemons so far, of the database server, and of who writes."""
        daemons = sum(_seconds(psutil.Process(daemon.pid)) for _, daemon in self.hosts)
        server = self.server.postmaster if self.server.data else None
        of_server = sum(map(_seconds, (server, *server.children(recursive=True)))) if server else 0.0
        return daemons, of_server, sum(psutil.Process().cpu_times()[:2])

    def rests(self) -> None:
        """Wait until what was sent is worked off, five minutes at most."""
        deadline, seen = time.monotonic() + 300, float("inf")
        while seen > AT_REST and time.monotonic() < deadline:
            before = self.used()[0]
            time.sleep(SETTLES)
            seen = 100 * (self.used()[0] - before) / SETTLES

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """The daemons listen, and take no processor meanwhile: on machines of their own they would take none from who writes."""
        processes = [psutil.Process(daemon.pid) for _, daemon in self.hosts]
        try:
            for one in processes:
                one.suspend()
            yield
        finally:
            for one in processes:
                one.resume()

    def settled(self) -> float:
        """Wait until all have looked for every identity's place once; answers what they then use, in percent of a core."""
        seen = [float("inf")]
        while len(seen) < LOOKED_FOR or seen[-1] < 0.8 * seen[-2]:
            before = self.used()[0]
            time.sleep(SETTLES)
            seen.append(100 * (self.used()[0] - before) / SETTLES)
        return seen[-1]


def _seconds(process: psutil.Process) -> float:
    """Of processor time; none of one that has ended meanwhile."""
    with contextlib.suppress(psutil.Error):
        return float(sum(process.cpu_times()[:4]))
    return 0.0


@pytest.fixture
def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, program: tuple[str, ...], postgres: PostgresServer
) -> Iterator[tuple[Fleet, WebhookReceiver]]:
    """Eight daemons, each with a state of its own, on one graph with all identities: as many as the parameter says."""
    url, identities = postgres.database(), getattr(request, "param", IDENTITIES)
    with ExitStack() as stack:
        live = stack.enter_context(WebhookReceiver(tmp_path / "live"))
        with contextlib.closing(PostgresCore(url)) as core:
            core.sql("BEGIN")
            core.identity("@writer")
            for number in range(identities):
                core.identity(f"@r{number}")
                if number % POSTED == 0:
                    metadata = {"url": live.url, "signingKey": "whsec_a2V5", "coalesceWindow": 0}
                    core.subscribe(f"@r{number}", harnessTarget="a2a-webhook", harnessTargetMetadata=metadata)
                else:
                    core.subscribe(f"@r{number}", harnessTargetMetadata={"adapter": DeskAdapter.name})
            core.sql("COMMIT")
            core.sql("ANALYZE")
        near = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wbh")))
        head, _, there = url.partition("?host=")
        hosts = []
        desks = desk_program(tmp_path / "desks")
        for number in range(HOSTS):
            # on one machine a second daemon for the same URL would be refused
            (near / f"{number}").mkdir()
            (near / f"{number}" / SOCKET).symlink_to(f"{there}/{SOCKET}")
            sandbox = Sandbox(tmp_path / f"host{number}", f"wbh-none-{number}", program)
            sandbox.configure(f'graph.url = "{head}?host={near}/{number}"\ngraph.serve = ["a2a-webhook"]\n{SETTINGS}')
            stack.callback(sandbox.close)
            hosts.append((sandbox, sandbox.daemon_under_way(environment={**desks, HERE: f"{number}/{HOSTS}"})))
        for _, daemon in hosts:
            daemon.waits_until_tailing(timeout=120)
            assert daemon.process.poll() is None, daemon.log()
        writer = stack.enter_context(psycopg.connect(url, autocommit=True))
        yield Fleet(url, hosts, writer, postgres, identities), live
    shutil.rmtree(near, ignore_errors=True)
    postgres.drop(url)


def test_eight_hosts_on_one_graph(fleet: tuple[Fleet, WebhookReceiver], figures: Figures) -> None:
    """The highest rate at which host lag p99 ≤ 1 s."""
    hosts, live = fleet
    figures.add("8 idle hosts, 10,000 identities: CPU of all", [hosts.settled()], "% core")
    base, highest = PostgresConnection(GraphUrl(hosts.url)), 0.0
    for rate in RATES:
        posts, used, began = len(live.received()), hosts.used(), time.monotonic()
        messages: list[str] = []
        while (passed := time.monotonic() - began) < STRETCH:
            while len(messages) < passed * rate and time.monotonic() - began < STRETCH:
                messages.append(hosts.send())
            hint(base)
            time.sleep(0.005)
        spent = [after - before for before, after in zip(used, hosts.used(), strict=True)]
        time.sleep(PATIENCE)
        lags = hosts.lags(messages)
        figures.add(f"{rate} messages/s: host lag", lags, "s", quantile=0.99)
        figures.add("  sent", [len(messages) / passed], "/s")
        figures.add("  of these posted to receivers", [(len(live.received()) - posts) / passed], "/s")
        for whose, seconds in zip(("all daemons", "the database server", "the writer"), spent, strict=True):
            figures.add(f"  CPU of {whose}", [100 * seconds / passed], "% core")
        figures.add("  CPU of a daemon for each message", [1000 * spent[0] / len(messages) / HOSTS], "ms")
        if quantile_of(lags, 0.99) > LAG:
            break
        highest = len(messages) / passed
    figures.add("highest rate with host lag p99 ≤ 1 s", [highest], "/s")
    base.close()
    figures.add("RSS of a host", [psutil.Process(one.pid).memory_info().rss / MEGABYTE for _, one in hosts.hosts], "MB")


@pytest.mark.parametrize("fleet", [1000], indirect=True, ids=[""])
def test_what_the_hint_costs_who_writes(fleet: tuple[Fleet, WebhookReceiver], figures: Figures) -> None:
    """Writers commit at least 90 % as often with the hint as without it: short turns, one after the other."""
    hosts, _ = fleet
    hosts.rests()
    base = PostgresConnection(GraphUrl(hosts.url))
    rates: dict[bool, list[float]] = {False: [], True: []}
    with hosts.stopped():
        for trial in range(2 * TRIALS):
            is_hinted, count, began = bool(trial % 2), 0, time.monotonic()
            while time.monotonic() - began < WRITES:
                hosts.send()
                count += 1
                if is_hinted:
                    hint(base)
            rates[is_hinted].append(count / (time.monotonic() - began))
    base.close()
    figures.add("messages committed without the hint", rates[False], "/s")
    figures.add("messages committed with the hint", rates[True], "/s")
    ratio = quantile_of(rates[False], 0.5) / quantile_of(rates[True], 0.5)
    figures.add("without / with the hint", [ratio], "×", at_most=1 / 0.9)
