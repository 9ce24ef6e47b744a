"""Readers and writers in PostgreSQL: whose row it is decides; and twenty-five ways round that, each tried.

The server itself refuses, or shows nothing: whoever holds such a role need not use wake-bridge to ask.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.postgres import NOW, PostgresServer
from wake_bridge.domain.errors import SourceUnavailable
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Trigger
from wake_bridge.storage.graph.mailbox import Draft, Mail, mailbox_of, mark_read, move_task, send
from wake_bridge.storage.graph.nodes import Wish, put_identity, subscribe, unsubscribe
from wake_bridge.storage.graph.opened import open_graph_to_write
from wake_bridge.storage.graph.postgres.change_log import PostgresGraph

ROLES = {"ada": "writer", "bob": "writer", "eve": "writer", "rob": "reader", "dan": "daemon"}


class Office(NamedTuple):
    """A graph with mail of two people, roles for them, and ids of what is there."""

    server: PostgresServer
    database: str
    names: dict[str, str]
    ids: dict[str, str]

    def url(self, who: str) -> str:
        return self.server.at(self.database, self.names[who])

    def ask(self, who: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """One statement of theirs, in a transaction that is rolled back in the end."""
        said = statement.format(**self.names, **self.ids).encode()
        with psycopg.connect(self.url(who)) as connection:
            cursor = connection.execute(said, values or None)
            found = cursor.fetchall() if cursor.description else [("changed",)] * max(cursor.rowcount, 0)
            connection.rollback()
            return found


@pytest.fixture(scope="module")
def office(postgres: PostgresServer) -> Iterator[Office]:
    """Login roles that are named like the identities they speak for."""
    url, suffix = postgres.database(), uuid.uuid4().hex[:8]
    database = url.partition("?")[0].rpartition("/")[2]
    names = {who: f"{who}_{suffix}" for who in ROLES}
    with postgres.connected() as admin:
        for who, role in ROLES.items():
            admin.execute(f"CREATE ROLE {names[who]} LOGIN IN ROLE wake_bridge_{role}".encode())
    office = Office(postgres, database, names, {})
    ada, bob = (f"@{names[who]}" for who in ("ada", "bob"))
    with open_graph_to_write(GraphUrl(office.url("dan"))) as graph:
        for who in ("ada", "bob", "eve", "rob"):
            put_identity(graph, f"@{names[who]}", NOW)
    with open_graph_to_write(GraphUrl(office.url("ada"))) as graph:
        office.ids["mail"] = send(graph, Draft(ada, bob, "for bob"), NOW)
        office.ids["task"] = send(graph, Draft(ada, bob, "do it", is_task=True), NOW)
        office.ids["subscription"] = subscribe(
            graph, ada, Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux"), NOW
        ).subscription_id
        note = {"userId": names["ada"], "text": "a secret"}
        graph.put_node(f"NOTE:{suffix}", "NOTE", note)
        office.ids["note"] = f"NOTE:{suffix}"
    yield office
    with psycopg.connect(url) as admin:
        admin.execute(f"DROP OWNED BY {', '.join(names.values())}".encode())
    with postgres.connected() as admin:
        admin.execute(f"DROP ROLE {', '.join(names.values())}".encode())
    postgres.drop(url)


WAYS = {
    "see a private node": "SELECT FROM wake_bridge.nodes WHERE id = '{note}'",
    "see a subscription with its key": "SELECT FROM wake_bridge.nodes WHERE id = '{subscription}'",
    "see a private node through a join": "SELECT FROM wake_bridge.graphlog g JOIN wake_bridge.nodes n ON n.id = g.entity_id WHERE n.id = '{note}'",
    "see that it changed": "SELECT FROM wake_bridge.graphlog WHERE entity_id = '{note}'",
    "see it in the partition": "SELECT FROM wake_bridge.graphlog_rest",
    "see a private edge": "SELECT FROM wake_bridge.edges WHERE type = 'SUBSCRIBES_TO'",
    "leak it by a function that is asked first": "SELECT FROM wake_bridge.nodes WHERE id = '{note}' AND pg_notify('x', data::text) IS NOT NULL",
    "change a private node": "UPDATE wake_bridge.nodes SET data = data WHERE id = '{note}'",
    "change another one's message": "UPDATE wake_bridge.nodes SET data = jsonb_set(data, '{{properties,subject}}', '\"x\"') WHERE id = '{mail}'",
    "mark another one's mail read": "UPDATE wake_bridge.nodes SET data = jsonb_set(data, '{{properties,readAt}}', '\"x\"') WHERE id = '{mail}'",
    "delete a message": "DELETE FROM wake_bridge.nodes WHERE id = '{mail}'",
    "delete its edges": "DELETE FROM wake_bridge.edges WHERE source = '{mail}'",
    "turn an identity off": "UPDATE wake_bridge.nodes SET data = jsonb_set(data, '{{properties,participationStatus}}', '\"operator_benched\"') WHERE id = '@{bob}'",
    "delete an identity": "DELETE FROM wake_bridge.nodes WHERE id = '@{bob}'",
    "take a row over": "UPDATE wake_bridge.nodes SET user_id = '{eve}' WHERE id = '{mail}'",
    "write in another one's name": 'INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (\'MESSAGE:x\', \'{eve}\', \'{{"label": "MESSAGE", "properties": {{"userId": "{eve}", "from": "@{ada}"}}}}\')',
    "own what another one writes": 'INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (\'MESSAGE:x\', \'{ada}\', \'{{"label": "MESSAGE", "properties": {{"userId": "{ada}", "from": "@{ada}"}}}}\')',
    "say another owner inside": 'INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (\'NOTE:x\', \'{eve}\', \'{{"label": "NOTE", "properties": {{"userId": "{ada}"}}}}\')',
    "write what belongs to nobody": 'INSERT INTO wake_bridge.nodes (id, data) VALUES (\'WAKE_SUB:x\', \'{{"label": "WAKE_SUBSCRIPTION", "properties": {{}}}}\')',
    "subscribe another identity": 'INSERT INTO wake_bridge.nodes (id, user_id, data) VALUES (\'WAKE_SUB:x\', \'{eve}\', \'{{"label": "WAKE_SUBSCRIPTION", "properties": {{"userId": "{eve}", "agentIdentity": "@{ada}"}}}}\')',
    "give oneself a right": "INSERT INTO wake_bridge.edges (id, user_id, source, target, type, data) VALUES ('x', '{eve}', '@{eve}', '@{ada}', 'CAN_READ_INBOX_OF', '{{\"properties\": {{\"userId\": \"{eve}\"}}}}')",
    "sign by an edge": "INSERT INTO wake_bridge.edges (id, user_id, source, target, type, data) VALUES ('x', '{eve}', '{mail}', '@{ada}', 'SENT_BY', '{{\"properties\": {{\"userId\": \"{eve}\"}}}}')",
    "forge a move of a task": "INSERT INTO wake_bridge.graphlog (entity_id, entity_type) VALUES ('{task}', 'task_state_changed')",
    "forge a row of the log": "INSERT INTO wake_bridge.graphlog (entity_id, entity_type, xid) VALUES ('{mail}', 'nodes', '3')",
    "empty the log": "TRUNCATE wake_bridge.graphlog",
    "speak for somebody": "INSERT INTO wake_bridge.members VALUES ('{eve}', '{ada}')",
    "prune for everybody": "SELECT wake_bridge.note_reader('x', pg_current_snapshot(), 9)",
    "pass for the owner by another role": "SET ROLE wake_bridge_writer; INSERT INTO wake_bridge.graphlog (entity_id, entity_type) VALUES ('{mail}', 'nodes')",
    "become a daemon": "SET ROLE wake_bridge_daemon",
    "switch the rules off": "ALTER TABLE wake_bridge.nodes DISABLE ROW LEVEL SECURITY",
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_round_whose_row_it_is(office: Office, way: str) -> None:
    """A writer who is neither sender nor recipient sees nothing there, changes nothing, and cannot write as another one."""
    try:
        found = office.ask("eve", WAYS[way])
    except psycopg.errors.InsufficientPrivilege:
        found = []
    assert found == []


def test_a_reader_sees_what_is_shared_and_writes_nothing(office: Office) -> None:
    """`sharedEntity` mail and identities are everybody's to see; what is private its owner's; a reader's words change nothing."""
    assert office.ask("rob", "SELECT id FROM wake_bridge.nodes WHERE id IN ('{mail}', '{note}', '{subscription}')") == [
        (office.ids["mail"],)
    ]
    assert office.ask("ada", "SELECT id FROM wake_bridge.nodes WHERE id = '{note}'") == [(office.ids["note"],)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        office.ask("rob", "UPDATE wake_bridge.nodes SET data = data")
    rob = f"@{office.names['rob']}"
    with (
        open_graph_to_write(GraphUrl(office.url("rob"))) as graph,
        pytest.raises(SourceUnavailable, match="may not do that"),
    ):
        send(graph, Draft(rob, f"@{office.names['ada']}", "x"), NOW)


def test_writers_do_all_that_the_commands_do_with_their_own(office: Office) -> None:
    """Mail is sent, read and marked, a task moved by its assignee, a subscription made and taken away: by the roles alone."""
    ada, bob = (f"@{office.names[who]}" for who in ("ada", "bob"))
    with open_graph_to_write(GraphUrl(office.url("bob"))) as graph:
        mail = [one for one in mailbox_of(graph, bob) if isinstance(one, Mail)]
        assert {one.message.id for one in mail} >= {office.ids["mail"], office.ids["task"]}
        mark_read(graph, mail, NOW)
        assert list(mailbox_of(graph, bob)) == []
        assert move_task(graph, office.ids["task"], "Working", bob, NOW).new_state == "Working"
        done = subscribe(graph, bob, Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="b"), NOW)
        unsubscribe(graph, done.subscription_id)
        send(graph, Draft(bob, ada, "Re: for bob", reply_to=office.ids["mail"], tags=("a2a",)), NOW)


def test_a_daemon_follows_all_of_it(office: Office) -> None:
    """The role of daemons is no superuser, and reads, marks its cursor and finds every subscription."""
    log = PostgresGraph(GraphUrl(office.url("dan")))
    log.version()
    assert office.ids["subscription"] in dict(log.subscriptions())
    page = log.read_after(log.bounds().lowest, 1000)
    log.note_reader("here", page.upto, page.snapshot)
    log.close()
    assert json.dumps(page.fingerprint)
