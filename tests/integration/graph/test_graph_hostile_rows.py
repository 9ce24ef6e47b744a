"""Rows that nobody can read, before every reader of the graph: each is set aside and said, none hides another."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.graph.mail import unread_mail_of
from wake_bridge.domain.errors import NotFound, OperationFailed, SourceUnavailable
from wake_bridge.domain.names import Identity, Instant, LogId, Trigger
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.graph_file import GraphFile, GraphWriter
from wake_bridge.storage.graph.mailbox import (
    Draft,
    Mail,
    UnreadableMail,
    mailbox_of,
    mark_read,
    move_task,
    require_mail,
    send,
)
from wake_bridge.storage.graph.nodes import (
    Wish,
    find_identity,
    put_identity,
    require_subscription,
    shown_subscription,
    subscribe,
    update,
)
from wake_bridge.storage.graph.rows import LARGEST_VALUE

NOW: Final = "2026-11-28T10:00:00.000Z"
GOOD: Final = '{"label":"MESSAGE","properties":{"from":"@ada","to":"@bob","subject":"fine"}}'

UNREADABLE: Final[dict[str, object]] = {
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "nothing": "",
    "cut short": '{"label":"MESSAGE","prop',
    "properties a list": '{"label":"MESSAGE","properties":[1]}',
    "properties null": '{"label":"MESSAGE","properties":null}',
    "a number of 4,301 digits": '{"label":"MESSAGE","properties":{"from":"@ada","n":' + "7" * 4301 + "}}",
    "nested without end": '{"label":"MESSAGE","properties":{"from":"@ada","n":' + "[" * 100_000,
    "nested deep": '{"label":"MESSAGE","properties":{"from":"@ada","n":' + "[" * 1500 + "]" * 1500 + "}}",
    "no number": '{"label":"MESSAGE","properties":{"from":"@ada","n":NaN}}',
    "infinity": '{"label":"MESSAGE","properties":{"from":"@ada","n":-Infinity}}',
    "not UTF-8": b'{"label":"MESSAGE","properties":{"from":"@ada","subject":"\xff\xfe"}}',
    "a blob": b"\x00\xff\x00",
    "an integer": 42,
    "a float": 1.5,
    "no sender": '{"label":"MESSAGE","properties":{"to":"@bob"}}',
}
READABLE: Final[dict[str, str]] = {
    "lone surrogates": '{"label":"MESSAGE","properties":{"from":"@ada","subject":"half \\ud83d","task":{"state":"\\udc00"}}}',
    "a huge exponent": '{"label":"MESSAGE","properties":{"from":"@ada","task":{"state":"Submitted","n":1e999}}}',
    "names twice": '{"label":"X","label":"MESSAGE","properties":{},"properties":{"from":"@ada","from":"@ada"}}',
    "a date out of range": '{"label":"MESSAGE","properties":{"from":"@ada","sentAt":"9999-12-31T23:59:59-23:59"}}',
    "a date before all": '{"label":"MESSAGE","properties":{"from":"@ada","sentAt":"0001-01-01T00:00:00+23:59"}}',
    "everything of the wrong type": '{"label":"MESSAGE","properties":{"from":7,"subject":[],"sentAt":{},"task":1,'
    '"taggedConcepts":{"a":1},"readAt":0,"inReplyTo":[1],"wakePolicy":{},"userId":[]}}',
}


def put(path: Path, table: str, row: dict[str, object]) -> None:
    """Whatever SQLite can hold; a text that is no UTF-8 as text."""
    places = ", ".join("CAST(? AS TEXT)" if isinstance(one, bytes) and one[:1] == b"{" else "?" for one in row.values())
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"INSERT OR REPLACE INTO {table}({', '.join(row)}) VALUES ({places})", list(row.values()))


def addressed(path: Path, message_id: object, data: object, edge: object = '{"properties":{}}') -> None:
    """A message for @bob, and its edge."""
    put(path, "Nodes", {"id": message_id, "data": data})
    put(
        path,
        "Edges",
        {"id": f"edge {message_id}", "source": message_id, "target": "@bob", "type": "SENT_TO", "data": edge},
    )


def found(graph: GraphFile) -> tuple[list[str], list[str]]:
    """Ids in @bob's mailbox: what can be read, and what is set aside."""
    mail = list(mailbox_of(graph, "@bob"))
    return (
        [one.message.id for one in mail if isinstance(one, Mail)],
        [one.message_id for one in mail if isinstance(one, UnreadableMail)],
    )


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_message_that_cannot_be_read_is_set_aside_and_hides_none(graph: GraphWriter, path: Path, name: str) -> None:
    """`inbox` failed for ever at one such row, while wakes went on telling the agent to read it."""
    before = send(graph, Draft("@ada", "@bob", "before"), NOW)
    addressed(path, "MESSAGE:bad", UNREADABLE[name])
    after = send(graph, Draft("@ada", "@bob", "after"), NOW)

    assert found(graph) == ([before, after], ["MESSAGE:bad"])
    with pytest.raises((OperationFailed, NotFound)):
        require_mail(graph, "@bob", "MESSAGE:bad")
    mark_read(graph, unread_mail_of(graph, "@bob"), NOW)
    assert found(graph) == ([], ["MESSAGE:bad"])


@pytest.mark.parametrize("name", [name for name in UNREADABLE if name != "no sender"])
def test_an_edge_that_cannot_be_read_sets_its_mail_aside(graph: GraphWriter, path: Path, name: str) -> None:
    """An edge property `[1]`; the daemon quarantines the same row."""
    good = send(graph, Draft("@ada", "@bob", "good"), NOW)
    addressed(path, "MESSAGE:bad", GOOD, UNREADABLE[name])

    assert found(graph) == ([good], ["MESSAGE:bad"])
    (row,) = [one for one in mailbox_of(graph, "@bob") if isinstance(one, UnreadableMail)]
    assert row.row_id == "edge MESSAGE:bad"


@pytest.mark.parametrize("name", READABLE)
def test_what_is_odd_and_can_be_read_is_mail(graph: GraphWriter, path: Path, name: str) -> None:
    """Odd values get their harmless defaults; nothing of them is lost."""
    addressed(path, "MESSAGE:odd", READABLE[name])
    assert found(graph) == (["MESSAGE:odd"], [])
    mark_read(graph, unread_mail_of(graph, "@bob"), NOW)


def test_mail_that_is_too_large_is_read_once(graph: GraphWriter, path: Path) -> None:
    """Its node cannot be changed, so an edge of the recipient's own says that it was read, as with a broadcast."""
    text = "x" * (LARGEST_VALUE + 1)
    addressed(path, "MESSAGE:large", '{"label":"MESSAGE","properties":{"from":"@ada","subject":"s","bodyText":"' + text)
    small = send(graph, Draft("@ada", "@bob", "small"), NOW)

    assert found(graph) == (["MESSAGE:large", small], [])
    mark_read(graph, unread_mail_of(graph, "@bob"), NOW)
    assert found(graph) == ([], [])
    assert require_mail(graph, "@bob", "MESSAGE:large").is_read
    (receipt,) = graph.edges("DELIVERED_TO", source="MESSAGE:large", target="@bob")
    assert receipt.properties["readAt"] == NOW
    with pytest.raises(OperationFailed, match="too large"):
        move_task(graph, "MESSAGE:large", "Working", "@bob", NOW)


def test_mail_without_room_for_its_mark_is_read_once(graph: GraphWriter, path: Path) -> None:
    """A message that can just be read cannot grow by a time; it must not fail the marks behind it."""
    head = '{"label":"MESSAGE","properties":{"from":"@ada","readAt":null,"bodyText":"'
    row = len("MESSAGE:full") + 20
    addressed(path, "MESSAGE:full", head + "x" * (LARGEST_VALUE - len(head) - row - 3) + '"}}')
    small = send(graph, Draft("@ada", "@bob", "small"), NOW)

    assert found(graph) == (["MESSAGE:full", small], [])
    mark_read(graph, unread_mail_of(graph, "@bob"), NOW)
    assert found(graph) == ([], [])
    assert graph.edges("DELIVERED_TO", source="MESSAGE:full", target="@bob")


def test_a_change_of_several_that_never_ends_is_undone_and_said(
    graph: GraphWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has rolled back what it ended; that must not hide what stalled."""
    monkeypatch.setattr(graph._budget, "seconds", 0.05)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER endless AFTER INSERT ON Edges BEGIN SELECT COUNT(*) FROM (WITH RECURSIVE more(n) AS"
            " (SELECT 1 UNION ALL SELECT n + 1 FROM more LIMIT 3000000) SELECT n FROM more); END"
        )
    with pytest.raises(SourceUnavailable, match="processor time"):
        graph.link("@ada", "@bob", "KNOWS", {})
    assert graph.edges("KNOWS") == []


def test_an_identity_whose_node_cannot_be_read_has_its_mailbox(graph: GraphWriter, path: Path) -> None:
    """One row must not silence an agent: its mail is delivered, so its inbox opens; its node is not written over."""
    mail = send(graph, Draft("@ada", "@bob", "hello"), NOW)
    put(path, "Nodes", {"id": "@bob", "data": "[]"})
    node = find_identity(graph, "@bob")
    assert node is not None
    assert not node.is_whole
    assert found(graph) == ([mail], [])
    with pytest.raises(OperationFailed, match="does not overwrite it"):
        put_identity(graph, "@bob", NOW)


@pytest.mark.parametrize("odd", [[1], "text", 5, None, {"senderFilter": 5}, {"priority": [[]]}])
def test_a_subscription_with_odd_parts_stops_no_other(graph: GraphWriter, path: Path, odd: object) -> None:
    """`subscribe` looks at all that are there, to make none twice; `update` mends what it is told to."""
    properties = {"agentIdentity": "@bob", "trigger": "SENT_TO_ME", "harnessTarget": "degraded"}
    data = {"label": "WAKE_SUBSCRIPTION", "properties": {**properties, "filters": odd, "harnessTargetMetadata": odd}}
    put(path, "Nodes", {"id": "WAKE_SUB:odd", "data": json.dumps(data)})

    made = subscribe(graph, "@bob", Wish(trigger=Trigger.SENT_TO_ME, harness_target="bridge-daemon"), NOW)
    assert made.created
    shown_subscription(require_subscription(graph, "WAKE_SUB:odd"))
    update(graph, "WAKE_SUB:odd", Wish(pane="work:0", recover=True), NOW)


def readers(path: Path) -> list[Callable[[], Any]]:
    """Every question that a command or the daemon asks a graph."""
    log, graph = SqliteGraph(path), GraphWriter(path, allow_foreign=True)
    bob = Identity("@bob")
    return [
        lambda: log.read_after(LogId(0), 1000),
        log.census,
        log.subscriptions,
        log.identities,
        lambda: log.subscription("WAKE_SUB:x"),
        lambda: log.node("MESSAGE:x"),
        lambda: log.node("@bob"),
        lambda: log.mail_states([("MESSAGE:x", bob)]),
        lambda: log.unread_mail(bob, None),
        lambda: log.recent_mail(Instant(0)),
        lambda: log.mail_edges(["MESSAGE:x"]),
        lambda: log.traces_of("MESSAGE:x"),
        lambda: log.traces_of("edge SENT_TO"),
        lambda: list(mailbox_of(graph, "@bob")),
        lambda: _told(lambda: require_mail(graph, "@bob", "MESSAGE:x")),
        lambda: [graph.nodes(label) for label in ("AgentIdentity", "WAKE_SUBSCRIPTION", "MESSAGE")],
        lambda: graph.edges("SENT_TO", target="@bob"),
        lambda: _told(lambda: move_task(graph, "MESSAGE:x", "Working", "@bob", NOW)),
        lambda: _told(lambda: require_subscription(graph, "WAKE_SUB:x")),
        lambda: _told(lambda: find_identity(graph, "@bob")),
        log.close,
        graph.close,
    ]


def _told(question: Callable[[], object]) -> None:
    """It answers, or says what is wrong."""
    with contextlib.suppress(OperationFailed, NotFound):
        question()


NAMES = st.sampled_from(
    ["from", "to", "subject", "task", "readAt", "sentAt", "taggedConcepts", "filters", "state", "agentIdentity"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("@bob"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
LABELS = st.sampled_from(["MESSAGE", "WAKE_SUBSCRIPTION", "AgentIdentity", "AGENT", "", "X"]) | VALUES
WHOLE = st.fixed_dictionaries({"label": LABELS, "properties": st.dictionaries(NAMES, VALUES, max_size=6) | VALUES})
STORED = (
    st.sampled_from([*UNREADABLE.values(), *READABLE.values(), None])
    | WHOLE.map(json.dumps)
    | VALUES.map(json.dumps)
    | WHOLE.map(json.dumps).flatmap(lambda text: st.integers(0, len(text)).map(lambda at: text[:at]))
    | st.binary(max_size=20)
)


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose columns take anything, NULL as well."""
    place = tmp_path_factory.mktemp("hostile") / "graph.sqlite"
    with contextlib.closing(sqlite3.connect(place)) as connection, connection:
        connection.executescript(
            "CREATE TABLE Nodes(id TEXT PRIMARY KEY, user_id TEXT, data TEXT);"
            "CREATE TABLE Edges(id TEXT PRIMARY KEY, user_id TEXT, source TEXT, target TEXT, type TEXT, data TEXT);"
            "CREATE TABLE GraphLog(log_id INTEGER PRIMARY KEY AUTOINCREMENT, entity_id TEXT, entity_type TEXT,"
            " event_id TEXT, event_payload TEXT);"
        )
    return place


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(node=STORED, edge=STORED, person=STORED, subscription=STORED, payload=STORED)
def test_no_reader_fails_at_whatever_is_stored(
    lenient: Path, node: object, edge: object, person: object, subscription: object, payload: object
) -> None:
    """All readers share one decoder; what it refuses is one row less, for every one of them."""
    messages: list[tuple[object, object]] = [("MESSAGE:x", node), ("@bob", person), ("WAKE_SUB:x", subscription)]
    kinds = ("SENT_TO", "DELIVERED_TO", "SENT_BY", "CAN_REPLY_TO", None)
    entities: list[tuple[str, object]] = [
        ("nodes", "MESSAGE:x"),
        ("nodes", "@bob"),
        ("nodes", "WAKE_SUB:x"),
        ("nodes", None),
        *(("edges", f"edge {kind}") for kind in kinds),
        ("heartbeat_pulse", node),
        ("task_state_changed", "MESSAGE:x"),
    ]
    with contextlib.closing(sqlite3.connect(lenient)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table in ("Nodes", "Edges", "GraphLog"):
            connection.execute(f"DELETE FROM {table}")
        connection.executemany(
            "INSERT INTO Nodes(id, data) VALUES (?, ?)", [*messages, (b"\xff\x00", node), (None, person)]
        )
        connection.executemany(
            "INSERT INTO Edges(id, source, target, type, data) VALUES (?, 'MESSAGE:x', '@bob', ?, ?)",
            [(f"edge {kind}", kind, edge) for kind in kinds],
        )
        connection.executemany(
            "INSERT INTO GraphLog(entity_type, entity_id, event_id, event_payload) VALUES (?, ?, 'e', ?)",
            [(kind, entity, payload) for kind, entity in entities],
        )
    for ask in readers(lenient):
        ask()
