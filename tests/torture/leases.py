"""Several hosts on one graph in PostgreSQL: kills at any step, standstills, lines that are cut, leases that are moved.

The daemons, their tmux servers and the database are real. The database writes down every lease and every commit, the fake
harness every Enter; a model judges the history of all hosts together.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.postgres import PostgresServer
from tests.postgres_line import PostgresLine
from tests.torture.oracle import comes_true
from tests.torture.report import Table, Verdict
from wake_bridge.demo.sandbox import QUICK, DaemonProcess
from wake_bridge.ports.leases import KEY_WITHIN
from wake_bridge.testing.crash_points import COMMAND, CRASH
from wake_bridge.testing.playground import AgentPane, Playground

ABOUT: Final = (
    "Every host sees a pane of every agent. Mail is committed for all agents, and something happens to a host or to the database."
    " Then each message must be told once, or be the one of which nobody can know. *told*: submitted once. *unknown*: its daemon died"
    " in the middle of it, and nobody types it again. Violations: told twice, told nowhere, an Enter without a commit of"
    " its host, later than 2 s after it, or under a token that was not the latest."
)
RESULTS: Final = ("told", "unknown")
STEPS: Final = (
    *(
        f"{step}:{when}"
        for step in ("intent_stage", "staged", "intent_submit", "submitted")
        for when in ("before", "after")
    ),
    *(f"{step}:before" for step in ("matched", "opened", "dispatched", "locked", "probed", "settled")),
    "settled:after",
)
"""Where a daemon is killed: fifteen moments of a wake."""

LONGEST: Final = 90.0
_SUBJECT: Final = re.compile(r'"(\d+ for x\d+)"')
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


@dataclass
class Host:
    """One of them."""

    world: Playground
    line: PostgresLine
    agents: dict[str, AgentPane]
    daemon: DaemonProcess

    def restarts(self, environment: dict[str, str] | None = None) -> None:
        """Its daemon anew, whatever became of the last one."""
        if self.daemon.process.poll() is None:
            self.daemon.kill()
        self.daemon = self.world.sandbox.daemon(environment=environment)

    @property
    def name(self) -> str:
        """How it is called on the graph."""
        text = (self.world.sandbox.state_dir / "hosts.json").read_text(encoding="utf-8")
        return str(json.loads(text)["own"])


@dataclass
class Fleet:
    """All hosts, and what was sent."""

    hosts: list[Host]
    url: str
    names: Sequence[str]
    server: PostgresServer
    sent: dict[str, str] = field(default_factory=dict)
    """The row of the table, by subject."""
    _told: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _read: dict[Path, int] = field(default_factory=lambda: defaultdict(int))

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Asked past all lines."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def told(self) -> dict[str, int]:
        """How often each subject was submitted, on all hosts together."""
        for log in (agent.fake.log for host in self.hosts for agent in host.agents.values()):
            with log.open("rb") as stream:
                stream.seek(self._read[log])
                new = stream.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[log] += len(whole)
            for line in whole.splitlines():
                if b'"event": "submit"' in line:
                    for subject in _SUBJECT.findall(json.loads(line)["text"]):
                        self._told[subject] += 1
        return self._told

    def clear_composers(self) -> None:
        """What a person does with text that was left unsent: another host told of it meanwhile."""
        for host in self.hosts:
            for agent in host.agents.values():
                if agent.fake.state()["composer"]:
                    agent.fake.shows("idle")


Blow = Callable[[Fleet, Host, random.Random], None]


def nothing(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Mail alone."""
    del fleet, host, chance


def kill(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Kill -9 of a daemon, and a new one a moment later."""
    del fleet
    time.sleep(chance.random())
    host.daemon.kill()
    time.sleep(chance.random() * 2)
    host.restarts()


def stop_of(seconds: float) -> Blow:
    """SIGSTOP of a daemon."""

    def stop(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet
        time.sleep(chance.random())
        os.kill(host.daemon.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(host.daemon.pid, signal.SIGCONT)

    return stop


def cut_for(seconds: float) -> Blow:
    """A partition between a host and the database."""

    def cut(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet
        time.sleep(chance.random())
        host.line.cut()
        time.sleep(seconds)
        host.line.mend()

    return cut


def end_backends(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Every connection is ended by the server, also within a transaction."""
    del host
    time.sleep(chance.random())
    fleet.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def kill_server(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Kill -9 of the database server, which recovers."""
    del host
    time.sleep(chance.random())
    fleet.server.kill()
    time.sleep(chance.random())
    fleet.server.restart()


def move(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """A person moves an agent."""
    identity = f"@{chance.choice(fleet.names)}"
    with contextlib.suppress(AssertionError):
        fleet.hosts[0].world.sandbox.run("hosts", "move", identity, host.name)


def stop_tmux(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """SIGSTOP of a host's tmux server for longer than a key may take."""
    del fleet
    server = int(host.world.tmux.run("display-message", "-p", "#{pid}"))
    time.sleep(chance.random())
    os.kill(server, signal.SIGSTOP)
    time.sleep(KEY_WITHIN + 0.5)
    os.kill(server, signal.SIGCONT)


def _kill_at(point: str) -> Blow:
    def crash(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet, chance
        comes_true(lambda: host.daemon.process.poll() is not None, 6.0)
        host.restarts()

    crash.__doc__ = point
    return crash


BLOWS: Final[dict[str, Blow]] = {
    "nothing": nothing,
    "kill -9 of a daemon": kill,
    "SIGSTOP of a daemon for 3 s": stop_of(3.0),
    "line cut for 3 s": cut_for(3.0),
    "every connection ended": end_backends,
    "kill -9 of the database server": kill_server,
    "an agent moved": move,
    "SIGSTOP of a tmux server": stop_tmux,
    **{f"kill -9 {point}": _kill_at(point) for point in STEPS},
}
LONG: Final[dict[str, Blow]] = {
    "SIGSTOP of a daemon for 25 s": stop_of(25.0),
    "line cut for 25 s": cut_for(25.0),
}


def strike_all(directory: Path, *, hosts: int, agents: int, messages: int, seed: int) -> Table:
    """At least so many messages, with everything that can happen to a host."""
    chance = random.Random(seed)
    names = [f"x{number}" for number in range(agents)]
    table = Table("Several hosts on one graph", ABOUT, "what happens", RESULTS, [*BLOWS, *LONG])
    began = time.monotonic()
    rounds = -(-messages // agents)
    blows = [name for _ in range(-(-rounds // len(BLOWS))) for name in BLOWS]
    chance.shuffle(blows)
    if len(blows) > 2 * len(BLOWS):
        blows = [*LONG, *blows]
    with ExitStack() as stack:
        fleet = _fleet(stack, directory, hosts, names)
        for number, name in enumerate(blows):
            _round(fleet, table, number, name, chance)
        _judge(fleet, table)
    table.seconds = time.monotonic() - began
    return table


def _fleet(stack: ExitStack, directory: Path, hosts: int, names: Sequence[str]) -> Fleet:
    server = PostgresServer.started(f"torture{os.getpid()}")
    url = server.database()
    stack.callback(server.drop, url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_HISTORY)
    near = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wbl")))
    made: list[Host] = []
    for number in range(hosts):
        line = stack.enter_context(PostgresLine(url, near / str(number)))
        world = stack.enter_context(Playground(directory / f"host{number}", (sys.executable, *COMMAND)))
        world.sandbox.configure(
            f'graph.url = "{line.url}"\n{QUICK}limits.storm = 10000\nlimits.wakes_per_hour = 10000\nlimits.wakes_per_day = 100000\n'
        )
        agents = world.together(world.agent, names)
        if not made:
            world.sandbox.run("agent", "add", "@me", "--human")
            for name in names:
                world.sandbox.enlist(f"@{name}", name)
        made.append(Host(world, line, agents, world.sandbox.daemon()))
    return Fleet(made, url, names, server)


def _round(fleet: Fleet, table: Table, number: int, name: str, chance: random.Random) -> None:
    host = chance.choice(fleet.hosts)
    # nobody waits for what is open in another database
    other = psycopg.connect(fleet.server.url)
    other.execute("SELECT pg_current_xact_id()")
    if name.startswith("kill -9 ") and name.removeprefix("kill -9 ") in STEPS:
        host.restarts({CRASH: name.removeprefix("kill -9 ")})
    subjects = []
    for agent in fleet.names:
        subject = f"{number} for {agent}"
        with psycopg.connect(fleet.url) as connection:
            _send(connection, f"@{agent}", subject)
        fleet.sent[subject] = name
        subjects.append(subject)
    (BLOWS | LONG)[name](fleet, host, chance)
    cleared = time.monotonic() + 20

    def is_settled() -> bool:
        told = fleet.told()
        missing = [one for one in subjects if not told[one]]
        if missing and time.monotonic() > cleared:
            fleet.clear_composers()
        return all(_may_be_told(fleet, one) for one in missing)

    is_at_rest = comes_true(is_settled, LONGEST, 0.2)
    other.close()
    if not is_at_rest:
        told = fleet.told()
        missing = [one for one in subjects if not told[one] and not _may_be_told(fleet, one)]
        table.demand(holds=False, row=name, broken=f"never told: {missing} {_standing(fleet)}")


def _send(connection: psycopg.Connection[Any], to: str, subject: str) -> None:
    """Mail as another program would write it, which outlives the server's end once it is committed."""
    connection.execute("SET synchronous_commit = on")
    from wake_bridge.system.clock import timestamp_now
    from wake_bridge.system.ulids import new_ulid

    message, now = f"MESSAGE:{new_ulid()}", timestamp_now()
    properties = {"subject": subject, "from": "@me", "to": to, "sentAt": now, "userId": "me"}
    node = {"id": message, "label": "MESSAGE", "properties": properties}
    connection.execute(
        "INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (%s, 'me', %s)", (message, json.dumps(node))
    )
    edge = {"id": new_ulid(), "source": message, "target": to, "type": "SENT_TO", "properties": {"userId": "me"}}
    connection.execute(
        "INSERT INTO wake_bridge.edges (id, user_id, source, target, type, data) VALUES (%s, 'me', %s, %s, 'SENT_TO', %s)",
        (edge["id"], message, to, json.dumps(edge)),
    )


def _may_be_told(fleet: Fleet, subject: str) -> bool:
    """Whether a commit says so that nobody has taken back, or the ledger of a host that set out to paste it."""
    rows = fleet.rows(
        "SELECT i.outcome FROM wake_bridge.nodes n JOIN wake_bridge.told t ON t.subject_key = n.id"
        " JOIN wake_bridge.intents i USING (delivery_id) WHERE n.data #>> '{properties,subject}' = %s",
        (subject,),
    )
    if any(outcome == "unknown" for (outcome,) in rows):
        return True
    [(message,)] = fleet.rows("SELECT id FROM wake_bridge.nodes WHERE data #>> '{properties,subject}' = %s", (subject,))
    for host in fleet.hosts:
        with contextlib.closing(sqlite3.connect(host.world.sandbox.state_dir / "state.sqlite", timeout=30)) as ledger:
            statement = "SELECT 1 FROM wake_event JOIN delivery ON delivery.id = delivery_id WHERE subject_key = ? AND outcome = 'unknown'"
            if ledger.execute(statement, (message,)).fetchone():
                return True
    return False


def _standing(fleet: Fleet) -> str:
    leases = fleet.rows("SELECT identity, host, token FROM wake_bridge.leases")
    held = [
        (host.name, one["agentIdentity"], one["state"], one["cause"], one["holdDetail"])
        for host in fleet.hosts
        for one in host.world.sandbox.deliveries()
        if one["state"] not in {"DELIVERED", "FAILED"}
    ]
    return f"{leases} {held}"


def _judge(fleet: Fleet, table: Table) -> None:
    """The history of all hosts together, against the model: one owner at a time, one Enter for a commit of its own."""
    told = fleet.told()
    for subject, row in fleet.sent.items():
        if told[subject] > 1:
            table.add(row, Verdict("twice", (f"{subject} was told {told[subject]} times",)))
        elif told[subject]:
            table.add(row, Verdict("told"))
        elif _may_be_told(fleet, subject):
            table.add(row, Verdict("unknown"))
        else:
            table.add(row, Verdict("lost", (f"{subject} was told nowhere",)))
    commits = _judge_commits(fleet, table)
    ages = _judge_enters(fleet, table, commits)
    table.measures |= {
        "hosts": str(len(fleet.hosts)),
        "Enters": str(len(ages)),
        "commits": str(sum(map(len, commits.values()))),
        "leases taken": str(fleet.rows("SELECT count(*) FROM lease_history WHERE host IS NOT NULL")[0][0]),
        "latest Enter after its commit": f"{max(ages, default=0) * 1000:.0f} ms",
    }


Commits = dict[str, list[tuple[float, str]]]
"""When and by which host each delivery was committed."""


def _judge_commits(fleet: Fleet, table: Table) -> Commits:
    """Each was made by the latest owner, under its token, while that was alive."""
    leases: dict[str, list[tuple[datetime, str, int]]] = defaultdict(list)
    for at, identity, host, token in fleet.rows("SELECT at, identity, host, token FROM lease_history ORDER BY at"):
        leases[identity].append((at, host, token))
    commits: Commits = defaultdict(list)
    for at, delivery, identity, host, token, alive in fleet.rows(
        "SELECT at, delivery_id, identity, host, token, alive_until FROM commit_history ORDER BY at"
    ):
        commits[delivery].append((at.timestamp(), host))
        owner = [one[1:] for one in leases[identity] if one[0] <= at][-1:]
        if owner != [(host, token)] or alive <= at:
            table.demand(holds=False, row="all", broken=f"{host} committed {delivery} without the lease: {owner}")
    return commits


def _judge_enters(fleet: Fleet, table: Table, commits: Commits) -> list[float]:
    """Each followed a commit of its own host in time; answers after how many seconds."""
    ages = []
    for host in fleet.hosts:
        for record in (one for agent in host.agents.values() for one in agent.fake.events("submit")):
            mark, at = record["text"].split("Wake: ")[-1].split()[0], float(record["at"]) / 1000
            own = [committed for committed, by in commits[mark] if by == host.name and committed <= at]
            if not own:
                table.demand(holds=False, row="all", broken=f"an Enter of {mark} at {host.name} without a commit")
                continue
            ages.append(at - own[-1])
            # what stood still after tmux had pressed it comes a little later
            table.demand(ages[-1] <= KEY_WITHIN + 0.1, "all", f"an Enter of {mark} {ages[-1]:.3f} s after its commit")
    return ages
