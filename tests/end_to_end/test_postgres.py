"""The graph in PostgreSQL, with a real server: commands write there, the daemon tails it, and a pane gets its key.

One daemon serves all tests of this page; each has an agent of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.postgres import PostgresServer
from wake_bridge.demo.sandbox import QUICK, DaemonProcess
from wake_bridge.system.clock import timestamp_now
from wake_bridge.testing.playground import Playground

AGENTS = ("first", "late", "patient")


@dataclass
class House:
    """A daemon at work on a database."""

    world: Playground
    daemon: DaemonProcess
    url: str


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
    postgres: PostgresServer,
) -> Iterator[House]:
    """A daemon on a database in which `init --graph URL` has made the graph, and which it has written down."""
    url = postgres.database(is_empty=True)
    with Playground(tmp_path_factory.mktemp("postgres"), program) as world:
        world.sandbox.config_file.unlink()
        world.sandbox.run("init", "--graph", url)
        assert f'url = "{url}"' in world.sandbox.config_file.read_text(encoding="utf-8")
        world.sandbox.configure(f'graph.url = "{url}"\n{QUICK}')
        world.together(world.enlisted, AGENTS)
        yield House(world, world.sandbox.daemon(), url)
    postgres.drop(url)


def test_a_message_in_the_database_becomes_a_key_in_a_pane(house: House) -> None:
    """`graph.url` beside `graph.path`: identity, subscription and mail by commands, the wake by the daemon that tails them."""
    sandbox, agent = house.world.sandbox, house.world.agents["first"]
    sandbox.send("@first", "from the database")
    agent.fake.waits_for("submit")
    sandbox.waits_for_delivery(target="@first", outcome="submitted")

    assert ['"from the database"' in text for text in agent.fake.submits()] == [True]
    assert sandbox.ask("status")["graph"] == house.url
    [mail] = sandbox.lines("inbox", "@first", "--consume")
    assert (mail["subject"], sandbox.lines("inbox", "@first")) == ("from the database", [])


def test_a_row_that_is_committed_late_wakes(house: House) -> None:
    """Order: log ids are given before the commit. What a transaction wrote before others, and committed after them, is read."""
    sandbox, agent = house.world.sandbox, house.world.agents["late"]
    with psycopg.connect(house.url) as open_one:
        message = {"subject": "late", "from": "@me", "to": "@late", "sentAt": timestamp_now(), "userId": "me"}
        put(open_one, "nodes", {"id": "MESSAGE:late"}, label="MESSAGE", properties=message)
        ends = {"id": "late-sent", "source": "MESSAGE:late", "target": "@late", "type": "SENT_TO"}
        put(open_one, "edges", ends, properties={"timestamp": message["sentAt"], "userId": "me"})
        # it stays open while another one is committed, read and told
        sandbox.send("@late", "early")
        agent.fake.waits_for("submit")
    agent.fake.waits_for("submit", 2)

    assert ['"late"' in text for text in agent.fake.submits()] == [False, True]


def put(connection: psycopg.Connection[Any], table: str, columns: dict[str, str], **data: object) -> None:
    """A row as another program would write it."""
    row = {**columns, "user_id": "me", "data": json.dumps({**columns, **data})}
    places = ", ".join("%s" for _ in row)
    connection.execute(
        f"INSERT INTO wake_bridge.{table} ({', '.join(row)}) VALUES ({places})".encode(), [*row.values()]
    )


def test_a_server_that_refuses_is_waited_for_and_commands_say_what_to_do(
    house: House, postgres: PostgresServer
) -> None:
    """The daemon says that the graph is away and why, and goes on where it was; a command ends with 4 and a hint."""
    sandbox, agent = house.world.sandbox, house.world.agents["patient"]
    name = house.url.partition("?")[0].rpartition("/")[2]
    with postgres.connected() as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        [away] = house.daemon.waits_for_log("graph_away")
        refused = sandbox.run("send", "@patient", "--from", "@me", "--subject", "x", expect=4)
        listed = sandbox.run("hosts", "list")
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
    house.daemon.waits_for_log("graph_back")
    sandbox.send("@patient", "after that")
    agent.fake.waits_for("submit")

    assert "is not currently accepting connections" in away["reason"]
    assert "the daemon tries again by itself" in away["hint"]
    assert refused.stderr.startswith("error: the graph cannot be used now (database ")
    assert "which hosts share the graph cannot be told" in listed.stderr
    assert "no hosts" not in listed.stdout, "that is not known"
    assert ['"after that"' in text for text in agent.fake.submits()] == [True]
    assert len(house.daemon.entries("epoch_began")) == 1
