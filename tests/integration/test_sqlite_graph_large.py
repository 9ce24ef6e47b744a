"""Values above the limit, before every question that the daemon asks: none is loaded, none fails a page, no mail is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from wake_bridge.domain.errors import SourceNotAGraph, SourceUnavailable
from wake_bridge.domain.names import Identity, Instant, LogId, parse_instant
from wake_bridge.storage.graph import rows as bounds
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.storage.graph.mailbox import Mail, mailbox_of
from wake_bridge.storage.graph.rows import LARGEST_VALUE, Budget, Large
from wake_bridge.testing.memory_core import BROADCAST, MemoryCore

A, B = Identity("@a"), Identity("@b")
HUGE: Final = "x" * (LARGEST_VALUE + 1)
MOST: Final = "x" * (LARGEST_VALUE - 2000)
LONG_VIEW: Final = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more LIMIT 3000000) SELECT n AS id, n AS data FROM more"


@pytest.fixture
def core(tmp_path: Path) -> Iterator[MemoryCore]:
    """A memory core with two agents and typed rows."""
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B], with_events=True) as one:
        yield one


@pytest.fixture
def graph(core: MemoryCore, tmp_path: Path) -> Iterator[SqliteGraph]:  # noqa: ARG001 - makes the file
    """The reader under test."""
    one = SqliteGraph(tmp_path / "graph.sqlite")
    yield one
    one.close()


def page(graph: SqliteGraph, since: int) -> tuple[dict[str, Any], list[str]]:
    """Messages by id as mail edges tell of them, and what is broken."""
    read = graph.read_after(LogId(since), 1000)
    return {one.edge.source: one.message for one in read.entries if one.edge}, [one.entity_id for one in read.broken]


def test_mail_that_is_too_large_is_told_by_its_edges_and_its_beginning(core: MemoryCore, graph: SqliteGraph) -> None:
    """The wake must not vanish; who wrote to whom, when, and about what is known without the body."""
    since = core.tip()
    before, large, after = (core.send(B, A, name, bodyText=text) for name, text in (("1", ""), ("2", HUGE), ("3", "")))
    found, broken = page(graph, since)

    assert list(found) == [before, large, after]
    assert broken == []
    message = found[large]
    assert (message["from"], message["to"], message["subject"]) == (B, A, "2")
    assert abs((parse_instant(message["sentAt"]) or 0) - time.time() * 1000) < 600_000
    node = graph.node(large)
    assert node is not None
    assert node["bodyText"] == f"(1.0 MB: too large to show; id {large})"
    assert graph.recent_mail(Instant(1)) == [before, large, after]
    assert [one.edge.source for one in graph.mail_edges([large, after]) if one.edge] == [large, after]
    assert {one[0] for one in graph.unread_mail(A, None)} == {before, large, after}
    assert graph.mail_states([(large, A)])[large, A].addressed
    assert [one.edge.source for one in graph.traces_of(large).entries if one.edge and one.message] == [large]


def test_a_subject_that_is_too_large_is_said_to_be(core: MemoryCore, graph: SqliteGraph) -> None:
    """Nothing of an endless subject is made up."""
    since = core.tip()
    large = core.send(B, A, HUGE)
    found, _ = page(graph, since)
    assert found[large]["subject"] == "(2.1 MB: too large to show)"


def test_a_large_broadcast_is_read_by_each_for_themselves(core: MemoryCore, graph: SqliteGraph, tmp_path: Path) -> None:
    """The edge carries its read state, and is small."""
    large = core.send(B, BROADCAST, "all", [A], bodyText=HUGE)
    assert not graph.mail_states([(large, A)])[large, A].is_read
    with GraphFile(tmp_path / "graph.sqlite") as file:
        assert [one.message.id for one in mailbox_of(file, A) if isinstance(one, Mail)] == [large]
        core.mark_read(large, A)
        assert list(mailbox_of(file, A)) == []
    assert graph.mail_states([(large, A)])[large, A].is_read
    assert graph.unread_mail(A, None) == []


def test_what_is_large_and_concerns_nobody_is_dismissed(core: MemoryCore, graph: SqliteGraph) -> None:
    """An embedding or a memory of megabytes is no fault: it fills neither memory nor the quarantine."""
    since = core.tip()
    core.put("EMBEDDING:1", "EMBEDDING", {"vector": HUGE})
    core.put("MEMORY:1", "AGENT_MEMORY", {"text": f'a MESSAGE, a "task", a WAKE_SUBSCRIPTION, an AgentIdentity {HUGE}'})
    core.sql("INSERT INTO Nodes(id, data) VALUES ('BLOB:1', zeroblob(?))", LARGEST_VALUE + 1)
    core.link("MEMORY:1", "EMBEDDING:1", "HAS", {"why": HUGE})
    core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES (?, 'heartbeat')", HUGE)
    task = core.give_task(B, A, "do it")

    found, broken = page(graph, since)
    assert list(found) == [task]
    assert broken == []
    assert [one for one, _ in graph.census().tasks] == [task]
    assert set(graph.identities()) == {A, B}


def test_a_subscription_an_edge_or_a_payload_that_is_too_large_is_set_aside(
    core: MemoryCore, graph: SqliteGraph
) -> None:
    """Each would have told something: it is counted and named, and the others go on."""
    since = core.tip()
    kept = core.subscribe(A)
    large = core.subscribe(A, filters={"senderFilter": [HUGE]})
    message = core.send(B, A, "its edge is too large")
    core.sql("UPDATE Edges SET data = '{' || data || ? WHERE source = ? AND type = 'SENT_TO'", HUGE, message)
    (edge,), *_ = core.sql("SELECT id FROM Edges WHERE source = ? AND type = 'SENT_TO'", message)
    core.sql(
        "INSERT INTO GraphLog(entity_id, entity_type, event_payload) VALUES (?, 'task_state_changed', ?)", message, HUGE
    )
    _, broken = page(graph, since)

    assert set(broken) == {large, edge, message}
    assert [one for one, _ in graph.subscriptions()] == [kept]
    assert graph.subscription(large) is None


def test_a_person_whose_node_is_too_large_is_known_still(core: MemoryCore, graph: SqliteGraph) -> None:
    """What the beginning says of them holds."""
    core.identity(A, notes=HUGE, accountType="human")
    assert graph.identities()[A].account_type == "human"


def test_message_and_edge_that_fit_only_by_themselves_are_read(
    core: MemoryCore, graph: SqliteGraph, tmp_path: Path
) -> None:
    """The limit is for packed rows, too: nothing may sort the two side by side."""
    since = core.tip()
    message = core.send(B, A, "just fits", bodyText=MOST)
    core.sql("UPDATE Edges SET data = json_set(data, '$.properties.note', ?) WHERE source = ?", MOST, message)
    found, broken = page(graph, since)
    assert found[message]["subject"] == "just fits"
    assert broken == []
    assert [one[0] for one in graph.unread_mail(A, None)] == [message]
    with GraphFile(tmp_path / "graph.sqlite") as file:
        (mail,) = mailbox_of(file, A)
    assert isinstance(mail, Mail)
    assert mail.message.properties["bodyText"] == MOST


@pytest.mark.parametrize(
    ("text", "of_node", "properties"),
    [
        ('{"label":"X","properties":{"a":1,"b":{"c":[2]},"d":"cut', {"label": "X"}, {"a": 1, "b": {"c": [2]}}),
        ('{"properties":{"a":1},"label":"X","z":[', {"label": "X"}, {"a": 1}),
        ('{"properties":{},"label":"X","z":[', {"label": "X"}, {}),
        ('{"id":"\\"label\\":\\"Y\\"","label":"X', {"id": '"label":"Y"'}, {}),
        ('{"properties":[1],"label":"X",', {"properties": [1], "label": "X"}, {}),
        ("{" * 100_000, {}, {}),
        ('{"n":' + "7" * 5000 + ',"label":"X",', {}, {}),
        ("no JSON", {}, {}),
    ],
)
def test_a_json_that_breaks_off_says_what_it_said_before(
    text: str, of_node: dict[str, Any], properties: dict[str, Any]
) -> None:
    """The beginning of a large value is read as far as it is whole."""
    assert Large(10**8, text.encode()).members() == (of_node, properties)


def test_a_view_is_no_graph(core: MemoryCore, graph: SqliteGraph, tmp_path: Path) -> None:
    """A view computes what it likes, for as long as it likes."""
    core.sql("ALTER TABLE Nodes RENAME TO Kept")
    core.sql(f"CREATE VIEW Nodes AS {LONG_VIEW}")
    with pytest.raises(SourceNotAGraph, match="its Nodes is a view"):
        graph.bounds()
    with pytest.raises(SourceNotAGraph, match="its Nodes is a view"):
        GraphFile(tmp_path / "graph.sqlite")


def test_a_question_without_end_is_ended_and_said(
    core: MemoryCore, graph: SqliteGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By processor time, so that a slow disk or a busy machine ends nothing; the next question is answered."""
    monkeypatch.setattr(bounds, "SECONDS_AT_LEAST", 0.05)
    tip = graph.bounds().highest
    with GraphFile(tmp_path / "graph.sqlite") as file, pytest.raises(SourceUnavailable, match="processor time") as told:
        file.query(f"SELECT COUNT(*) FROM ({LONG_VIEW})")
    assert ".schema" in told.value.hint
    with pytest.raises(SourceUnavailable, match="processor time"):
        graph._source.each(len, f"SELECT * FROM ({LONG_VIEW})")
    assert graph.bounds().highest == tip
    assert core.tip() == tip


def test_a_larger_file_has_more_time(tmp_path: Path, graph: SqliteGraph) -> None:
    """A walk through all of a large graph is no stall."""
    graph.bounds()
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(2_000_000_000)
    source = graph._source
    connection = source._connection
    assert connection is not None
    assert Budget(connection, large).seconds == pytest.approx(43)
    assert Budget(connection, tmp_path / "missing").seconds == pytest.approx(3)
