"""Several hosts on one graph in PostgreSQL: their daemons, tmux servers, ways to the database, and what they were sent.

All of it is real. The database writes down every lease and every commit, the fake harness every Enter.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.namespaces import Cable, Namespaces
from tests.postgres import QUICK_SERVER, PostgresServer
from tests.postgres_line import PostgresLine
from tests.postgres_standby import Standby
from tests.wall_clock import WallClock
from wake_bridge.demo.sandbox import QUICK, DaemonProcess
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Trigger
from wake_bridge.domain.subscriptions import BRIDGE_TARGET
from wake_bridge.storage.graph.nodes import Wish, put_identity, subscribe
from wake_bridge.storage.graph.opened import open_graph_to_write
from wake_bridge.system.clock import timestamp_now
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.crash_points import COMMAND
from wake_bridge.testing.playground import AgentPane, Playground

_SETTINGS: Final = f"{QUICK}limits.storm = 10000\nlimits.wakes_per_hour = 10000\nlimits.wakes_per_day = 100000\n"
MARK: Final = re.compile(r"Wake: ([0-9A-HJKMNP-TV-Z]{26})")
"""A wake's id, as its digest tells it."""

STARTS_WITHIN: Final = 600.0
"""Seconds after which a daemon that does not tail hangs: many of them start at a time, on a machine that may be busy."""

_HISTORY: Final = """
    CREATE TABLE lease_history (at timestamptz DEFAULT clock_timestamp(), identity text, host text, token bigint);
    CREATE TABLE commit_history (at timestamptz DEFAULT clock_timestamp(), delivery_id text, identity text, host text,
        token bigint, alive_until timestamptz);
    CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO lease_history (identity, host, token) VALUES (NEW.identity, NEW.host, NEW.token); RETURN NULL;
    END $$;
    CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO commit_history (delivery_id, identity, host, token, alive_until)
        SELECT NEW.delivery_id, NEW.identity, NEW.host, NEW.token, h.alive_until
        FROM wake_bridge.hosts h WHERE h.host = NEW.host AND NEW.outcome IS NULL;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE OF host, token ON wake_bridge.leases
        FOR EACH ROW EXECUTE FUNCTION note_lease();
    CREATE TRIGGER note AFTER INSERT OR UPDATE OF begun_at ON wake_bridge.intents
        FOR EACH ROW EXECUTE FUNCTION note_commit();
"""


@dataclass(frozen=True)
class Message:
    """One that was committed: the row of the table that it counts in, and its node."""

    row: str
    id: str
    agent: str


@dataclass(frozen=True)
class History:
    """What one server has written down of leases and commits; a failover leaves the first one's behind."""

    leases: Sequence[tuple[float, str, str, int]]
    """When (seconds), identity, host, token; in order."""
    commits: Sequence[tuple[float, str, str, str, int, float]]
    """When, delivery, identity, host, token, until when the host was alive; in order."""
    messages: frozenset[str]

    @classmethod
    def of(cls, url: str) -> History:
        """Read it."""
        with psycopg.connect(url, autocommit=True) as connection:
            leases = connection.execute(
                "SELECT extract(epoch FROM at)::float, identity, host, token FROM lease_history ORDER BY at"
            ).fetchall()
            commits = connection.execute(
                "SELECT extract(epoch FROM at)::float, delivery_id, identity, host, token,"
                " extract(epoch FROM alive_until)::float FROM commit_history ORDER BY at"
            ).fetchall()
            nodes = connection.execute("SELECT id FROM wake_bridge.nodes").fetchall()
        return cls(leases, commits, frozenset(one for (one,) in nodes))


@dataclass
class Host:
    """One of them; `line` or `cable` is its way to the database."""

    world: Playground
    line: PostgresLine | None
    cable: Cable | None
    clock: WallClock | None
    agents: dict[str, AgentPane] = field(default_factory=dict)

    def starts(self, environment: Mapping[str, str] | None = None) -> None:
        """Its daemon, on its own clock."""
        clock = self.clock.environment if self.clock is not None else {}
        self.daemon: DaemonProcess = self.world.sandbox.daemon_under_way(environment={**clock, **(environment or {})})
        self.daemon.waits_until_tailing(STARTS_WITHIN)

    def restarts(self, environment: Mapping[str, str] | None = None) -> None:
        """Its daemon anew, whatever became of the last one."""
        if self.daemon.process.poll() is None:
            self.daemon.kill()
        self.starts(environment)

    def last_word(self) -> str:
        """Whether the graph is away or back, by its daemon's log; empty where it never was away."""
        words = [str(one["event"]) for one in self.daemon.entries()]
        return next((one for one in reversed(words) if one in {"graph_away", "graph_back"}), "")

    @cached_property
    def name(self) -> str:
        """How it is called on the graph."""
        text = (self.world.sandbox.state_dir / "hosts.json").read_text(encoding="utf-8")
        return str(json.loads(text)["own"])

    def ledger(self, statement: str) -> list[tuple[Any, ...]]:
        """Asked of the file, past the daemon."""
        with closing(sqlite3.connect(self.world.sandbox.state_dir / "state.sqlite", timeout=60)) as ledger:
            return ledger.execute(statement).fetchall()

    def told_in(self, wakes: Collection[str]) -> dict[str, list[str]]:
        """Which messages each of these wakes tells of: a digest of several names the latest alone."""
        found: dict[str, list[str]] = defaultdict(list)
        if wakes:
            among = ", ".join(f"'{one}'" for one in wakes)
            statement = f"SELECT d.delivery_id, e.subject_key FROM delivery_event d JOIN wake_event e ON e.id = d.event_id WHERE d.delivery_id IN ({among})"
            for wake, message in self.ledger(statement):
                found[wake].append(message)
        return found


@dataclass
class Fleet:
    """All hosts, and what was sent."""

    server: PostgresServer
    database: str
    names: Sequence[str]
    hosts: list[Host] = field(default_factory=list)
    sent: dict[str, Message] = field(default_factory=dict)
    """By subject."""
    left_behind: list[History] = field(default_factory=list)
    send_more: Callable[[], None] = field(default=lambda: None)
    """Begins with more mail, for a trouble that chooses when."""
    cleared: int = 0
    """Composers that a person had to clear."""
    broken: list[str] = field(default_factory=list)
    """Rules that a trouble found broken."""
    held: Counter[str] = field(default_factory=Counter)
    """Why wakes waited on hosts that were cut off, and how many did."""
    submits: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """What each host's panes submitted so far, by host.

    Each with the name of its `pane`, the `mark` of its wake, and the `messages` that the wake tells of.
    """
    _read: dict[Path, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def url(self) -> str:
        """Of the graph, past all lines."""
        return self.server.at(self.database)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Asked past all lines."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def send(self, agent: str, subject: str, row: str) -> None:
        """Mail as another program would write it, which outlives the server's end once it is committed."""
        message, to = f"MESSAGE:{new_ulid()}", f"@{agent}"
        properties = {"subject": subject, "from": "@me", "to": to, "sentAt": timestamp_now(), "userId": "me"}
        node = {"id": message, "label": "MESSAGE", "properties": properties}
        edge = {"id": new_ulid(), "source": message, "target": to, "type": "SENT_TO", "properties": {"userId": "me"}}
        with psycopg.connect(self.url) as connection:
            connection.execute("SET synchronous_commit = on")
            connection.execute(
                "INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (%s, 'me', %s)", (message, json.dumps(node))
            )
            connection.execute(
                "INSERT INTO wake_bridge.edges (id, user_id, source, target, type, data) VALUES (%s, 'me', %s, %s, 'SENT_TO', %s)",
                (edge["id"], message, to, json.dumps(edge)),
            )
        self.sent[subject] = Message(row, message, agent)

    def read_panes(self) -> None:
        """Bring `submits` up to date."""
        for host in self.hosts:
            new = [one for pane in host.agents for one in self._new_submits(host, pane)]
            told = host.told_in({one["mark"] for one in new})
            self.submits[host.name] += [{**one, "messages": told.get(one["mark"], [])} for one in new]

    def _new_submits(self, host: Host, pane: str) -> list[dict[str, Any]]:
        log = host.agents[pane].fake.log
        with log.open("rb") as stream:
            stream.seek(self._read[log])
            new = stream.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read[log] += len(whole)
        found = [json.loads(line) for line in whole.splitlines() if b'"event": "submit"' in line]
        return [{**one, "pane": pane, "mark": next(iter(MARK.findall(one["text"])), "")} for one in found]

    def unknown(self) -> set[str]:
        """Messages of which nobody can know: by the database, or by the ledger of a host that set out to paste them."""
        found = self.rows(
            "SELECT t.subject_key FROM wake_bridge.told t JOIN wake_bridge.intents i USING (delivery_id) WHERE i.outcome = 'unknown'"
        )
        statement = (
            "SELECT subject_key FROM wake_event JOIN delivery ON delivery.id = delivery_id WHERE outcome = 'unknown'"
        )
        return {one for (one,) in [*found, *(row for host in self.hosts for row in host.ledger(statement))]}

    def serving(self) -> dict[str, int]:
        """How many identities each host serves."""
        return dict(self.rows("SELECT host, count(*) FROM wake_bridge.leases WHERE host IS NOT NULL GROUP BY host"))

    def standing(self) -> str:
        """Who holds which lease, and what waits where."""
        leases = self.rows("SELECT identity, host, token FROM wake_bridge.leases ORDER BY identity")
        hosts = self.rows("SELECT host, alive_until > clock_timestamp() FROM wake_bridge.hosts")
        statement = (
            "SELECT identity, id, state, hold_reason, hold_cause, hold_detail FROM delivery WHERE settled_at IS NULL"
        )
        held = {host.name: host.ledger(statement) for host in self.hosts}
        composers = {
            f"{host.name} {name}": composer
            for host in self.hosts
            for name, agent in host.agents.items()
            if (composer := agent.fake.state()["composer"])
        }
        return f"\nleases {leases}\nhosts {hosts}\nwaiting {held}\ncomposers {composers}"

    def fails_over(self, standby: Standby) -> None:
        """The standby leads, and every host's line leads there; what the first server has written down is kept."""
        self.server = standby.takes_over()
        for host in self.hosts:
            assert host.line is not None
            host.line.leads_to(self.url)
        first = standby.left_behind()
        self.left_behind.append(History.of(first.at(self.database)))
        first.kill()

    def clear_composers(self) -> None:
        """What a person does with text of ours that was left unsent because another host told of it meanwhile."""
        for host in self.hosts:
            for agent in host.agents.values():
                if agent.fake.state()["composer"]:
                    agent.fake.shows("idle")
                    self.cleared += 1


@contextlib.contextmanager
def fleet_of(
    directory: Path, *, hosts: int, agents: int, has_clocks: bool = False, has_cables: bool = False
) -> Iterator[Fleet]:
    """So many hosts, on each of which every agent has a pane.

    Args:
        directory: an empty one.
        hosts: how many.
        agents: how many.
        has_clocks: whether the wall clock of each host can be set.
        has_cables: whether each daemon, and the server, is in a network namespace of its own.
    """
    names = [f"x{number}" for number in range(agents)]
    with ExitStack() as stack:
        near = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wbl")))
        net = stack.enter_context(Namespaces(hosts)) if has_cables else None
        server = _server_in(net, near, stack) if net else PostgresServer.started(f"torture{os.getpid()}")
        url = server.database()
        stack.callback(server.drop, url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_HISTORY)
        _enlist(url, names)
        fleet = Fleet(server, url.partition("?")[0].rpartition("/")[2], names)
        for number in range(hosts):
            cable = net.cables[number] if net else None
            line = None if net else stack.enter_context(PostgresLine(url, near / str(number)))
            command = (*(cable.prefix if cable else ()), sys.executable, *COMMAND)
            world = stack.enter_context(Playground(directory / f"host{number}", command))
            world.sandbox.configure(f'graph.url = "{line.url if line else _over(cable, fleet.database)}"\n{_SETTINGS}')
            clock = WallClock(directory / f"clock{number}") if has_clocks else None
            if clock is not None:
                clock.starts(world.tmux)
            host = Host(world, line, cable, clock, world.together(world.agent, names))
            host.starts()
            fleet.hosts.append(host)
        _share(fleet)
        yield fleet


def _server_in(net: Namespaces, near: Path, stack: ExitStack) -> PostgresServer:
    """A server that all cables lead to; its socket, past them, is for whoever judges."""
    # its user lives below
    near.chmod(0o755)
    server = PostgresServer.made(near / "data", (*QUICK_SERVER, "listen_addresses = '*'"), prefix=net.prefix(0))
    with (near / "data/pg_hba.conf").open("a", encoding="utf-8") as rules:
        rules.write("host all all 10.99.0.0/16 trust\n")
    server.start()
    stack.callback(server.kill)
    return server


def _over(cable: Cable | None, database: str) -> str:
    assert cable is not None
    return f"postgresql://postgres@{cable.address}/{database}?sslmode=disable"


def _enlist(url: str, names: Sequence[str]) -> None:
    """What `agent add` and `subscribe` write, without a command for each."""
    now = timestamp_now()
    with open_graph_to_write(GraphUrl(url)) as graph:
        put_identity(graph, "@me", now, human=True)
        for name in names:
            put_identity(graph, f"@{name}", now)
            subscribe(
                graph,
                f"@{name}",
                Wish(trigger=Trigger.SENT_TO_ME, harness_target=BRIDGE_TARGET, pane=name, window=0),
                now,
            )


def _share(fleet: Fleet) -> None:
    """Give each host a part of the agents: the first one to start has all of them."""
    for number, name in enumerate(fleet.names):
        host = fleet.hosts[number % len(fleet.hosts)]
        fleet.rows(
            "UPDATE wake_bridge.leases SET wanted = %s, wanted_until = clock_timestamp() + interval '60 s'"
            " WHERE identity = %s RETURNING 1",
            (host.name, f"@{name}"),
        )
    deadline = time.monotonic() + 60
    share = len(fleet.names) // len(fleet.hosts)
    while time.monotonic() < deadline:
        serving = fleet.serving()
        if all(serving.get(host.name, 0) >= share for host in fleet.hosts):
            return
        time.sleep(0.2)
