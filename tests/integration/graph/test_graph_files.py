"""The embedded file, foreign graphs, and files that are no graph."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.graph.mail import unread_mail_of
from wake_bridge.domain.errors import (
    OperationFailed,
    RefusedForSafety,
    SourceMissing,
    SourceNotAGraph,
    SourceUnavailable,
)
from wake_bridge.domain.names import BROADCAST
from wake_bridge.storage.graph import graph_file
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.graph_file import GraphFile, GraphWriter
from wake_bridge.storage.graph.mailbox import Draft, grant, move_task, send
from wake_bridge.storage.graph.nodes import put_identity
from wake_bridge.storage.graph.schema import APPLICATION_ID, create_embedded_graph
from wake_bridge.testing.memory_core import GraphEye, MemoryCore

NOW = "2026-11-27T21:53:52.502Z"
LATER = "2026-11-27T21:54:00.000Z"


def schema_of(path: Path) -> dict[str, Any]:
    """Tables with their columns, and the words of indexes and triggers."""
    eye = GraphEye(path)
    tables = [
        name for (name,) in eye.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    ]
    columns = {table: [tuple(row[1:6]) for row in eye.all(f"PRAGMA table_info({table})")] for table in tables}
    others = eye.all("SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL")
    return {"tables": columns, "others": {name: " ".join(sql.split()) for name, sql in others}}


def test_the_embedded_graph_has_the_real_schema_in_its_newest_form(path: Path, real: Path) -> None:
    """So that the memory core could take the file over; newer than the sample only where it is known to be."""
    ours, theirs = schema_of(path), schema_of(real)
    newer = {"event_id", "event_payload", "result_envelope", "result_encoding", "result_staged_at"}
    newer |= {"result_acknowledged_at", "result_last_replayed_at"}
    assert ours["tables"].keys() == theirs["tables"].keys()
    for table, columns in theirs["tables"].items():
        assert [column for column in ours["tables"][table] if column[0] not in newer] == columns, table
    log = [column[0] for column in ours["tables"]["GraphLog"]]
    assert log == ["log_id", "entity_id", "entity_type", "event_id", "event_payload"]
    unique = "CREATE UNIQUE INDEX idx_graph_log_event_id ON GraphLog(event_id) WHERE event_id IS NOT NULL"
    assert ours["others"] == theirs["others"] | {"idx_graph_log_event_id": unique}


def test_the_embedded_graph_is_marked_private_and_in_wal_mode(path: Path, real: Path) -> None:
    """`application_id` 0x57414B45 marks it; 0600 in a 0700 directory; schema version graph = 1."""
    eye = GraphEye(path)
    assert eye.all("PRAGMA application_id") == [(APPLICATION_ID,)] == [(0x57414B45,)]
    assert eye.all("PRAGMA journal_mode") == [("wal",)]
    assert eye.all("SELECT id, version FROM SchemaVersion") == GraphEye(real).all(
        "SELECT id, version FROM SchemaVersion"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert eye.properties(BROADCAST).keys() == GraphEye(real).properties(BROADCAST).keys()
    assert [file.name for file in path.parent.iterdir()] == ["graph.sqlite"]


def test_making_it_again_changes_nothing(path: Path) -> None:
    """`init`: safe to repeat; never touches a file that is not ours."""
    before = path.read_bytes()
    assert not create_embedded_graph(path, LATER)
    assert path.read_bytes() == before
    text = path.with_name("notes.txt")
    text.write_text("mine")
    assert not create_embedded_graph(text, NOW)
    assert text.read_text() == "mine"


def test_of_many_who_make_it_at_once_one_does(tmp_path: Path) -> None:
    """The file appears whole and once: nobody's first message is lost under somebody else's new graph."""
    place = tmp_path / "data/graph.sqlite"

    def make_and_write(number: int) -> bool:
        made = create_embedded_graph(place, NOW)
        with GraphWriter(place) as writer:
            put_identity(writer, f"@agent{number}", NOW)
        return made

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(make_and_write, range(16)))
    assert sum(made) == 1
    with GraphFile(place) as graph:
        assert len(graph.nodes("AgentIdentity")) == 16
    assert not [file.name for file in place.parent.iterdir() if file.name.startswith(".")]


def test_a_foreign_graph_is_not_written_unless_it_is_said(real: Path) -> None:
    """A foreign graph needs `--foreign`, else exit 7."""
    before = GraphEye(real).tip()
    with pytest.raises(RefusedForSafety) as caught:
        GraphWriter(real)
    assert caught.value.exit_code == 7
    assert "--foreign" in caught.value.hint
    assert GraphEye(real).tip() == before


def test_writing_a_foreign_graph_never_changes_its_schema(real: Path) -> None:
    """`--foreign`, never DDL; the old log columns get no typed row, and a move its two rows."""
    before = schema_of(real)
    eye = GraphEye(real)
    with GraphWriter(real, allow_foreign=True) as graph:
        task = send(graph, Draft("@neo-gpt", "@neo-opus-ada", "Fix", is_task=True), NOW)
        tip = eye.tip()
        move_task(graph, task, "Working", "@neo-opus-ada", LATER)
        grant(graph, "CAN_REPLY_TO", "@neo-fable", "@neo-gpt")
    assert schema_of(real) == before
    assert eye.log(tip) == ["MESSAGE", "MESSAGE", "CAN_REPLY_TO"]
    assert "taskAssignmentAuthority" not in eye.properties(task)


def test_a_graph_without_owner_columns_is_written_without_them(tmp_path: Path) -> None:
    """Older files lack `user_id`; the JSON still names the owner."""
    old = tmp_path / "old.sqlite"
    with contextlib.closing(sqlite3.connect(old)) as connection:
        connection.executescript(
            "CREATE TABLE Nodes (id TEXT PRIMARY KEY, data TEXT NOT NULL);"
            "CREATE TABLE Edges (id TEXT PRIMARY KEY, source TEXT, target TEXT, type TEXT, data TEXT NOT NULL);"
            "CREATE TABLE GraphLog (log_id INTEGER PRIMARY KEY AUTOINCREMENT, entity_id TEXT, entity_type TEXT);"
        )
    with GraphWriter(old, allow_foreign=True) as graph:
        put_identity(graph, "@ada", NOW)
        put_identity(graph, "@bob", NOW)
        message = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
        assert [mail.message.id for mail in unread_mail_of(graph, "@bob")] == [message]
    assert GraphEye(old).properties(message)["userId"] == "ada"


def test_each_file_that_is_no_graph_says_what_it_is(tmp_path: Path) -> None:
    """No graph, a text file as graph, a database without GraphLog: exit 4, each with a hint."""
    text = tmp_path / "notes.txt"
    text.write_text("this is no database, and long enough not to be taken for an empty one\n" * 20)
    other = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.executescript("CREATE TABLE Nodes (id TEXT, data TEXT); CREATE TABLE Edges (id TEXT)")
    for wrong, error, words in (
        (tmp_path / "none.sqlite", SourceMissing, "there is no graph"),
        (text, SourceNotAGraph, "not a graph"),
        (other, SourceNotAGraph, "it has no GraphLog"),
        (tmp_path, SourceNotAGraph, "this is a directory"),
    ):
        with pytest.raises(error, match=words) as caught:
            GraphFile(wrong)
        assert caught.value.exit_code == 4
        assert caught.value.hint


def test_a_graph_that_is_locked_is_unavailable_and_nothing_is_half_done(
    graph: WritableGraph, path: Path, eye: GraphEye, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locked graph is exit 4 after the busy time-out, not a traceback."""
    assert graph.is_embedded
    monkeypatch.setattr(graph_file, "BUSY_TIMEOUT", 0.1)
    tip = eye.tip()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with GraphWriter(path) as waiting, pytest.raises(SourceUnavailable, match="locked"):
            send(waiting, Draft("@ada", "@bob", "Hello"), NOW)
        holder.execute("ROLLBACK")
    assert eye.tip() == tip


def test_a_broken_row_is_left_out_and_hides_nothing_else(graph: WritableGraph, path: Path) -> None:
    """Broken JSON is guarded with json_valid; one bad row must not take the commands down."""
    send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO Nodes(id, data) VALUES ('broken', '{not json')")
        connection.execute(
            'INSERT INTO Nodes(id, data) VALUES (\'MESSAGE:odd\', \'{"label":"MESSAGE","properties":[]}\')'
        )
        connection.execute(
            "INSERT INTO Edges(id, source, target, type, data) VALUES ('e', 'MESSAGE:odd', '@bob', 'SENT_TO', '{}')"
        )
    assert len(unread_mail_of(graph, "@bob")) == 1
    assert len(graph.nodes("AgentIdentity")) == 4
    with pytest.raises(OperationFailed, match="cannot be read"):
        graph.node("broken")


def test_a_path_with_odd_characters_is_opened_as_it_is(tmp_path: Path) -> None:
    """The address given to SQLite is escaped: `?`, `#`, `%` and spaces are part of the name."""
    odd = tmp_path / "a b?c#d%20" / os.fsdecode(b"gr\xffaph.sqlite")
    assert create_embedded_graph(odd, NOW)
    with GraphFile(odd) as graph:
        assert graph.is_embedded


@pytest.mark.parametrize(
    ("label", "ids", "way"),
    [
        ("AgentIdentity", ["@a", "@b"], "SEARCH Nodes USING INDEX sqlite_autoindex_Nodes_1 (id>? AND id<?)"),
        ("WAKE_SUBSCRIPTION", ["WAKE_SUB:1"], "SCAN Nodes"),
    ],
)
def test_nodes_of_a_label_are_found_by_one_walk(tmp_path: Path, label: str, ids: list[str], way: str) -> None:
    """Identities lie side by side in the index of ids; for all else the walk along it takes ten times as long as by the file."""
    with MemoryCore.create(tmp_path / "graph.sqlite") as core:
        core.identity("@b")
        core.identity("@a")
        core.put("WAKE_SUB:1", "WAKE_SUBSCRIPTION", {"agentIdentity": "@a"})
        core.put("MEMORY:1", "AGENT_MEMORY", {"text": "an AgentIdentity is spoken of, and a WAKE_SUBSCRIPTION"})
    asked: list[str] = []
    with GraphFile(tmp_path / "graph.sqlite") as graph:
        graph._connection.set_trace_callback(asked.append)
        found = [node.id for node in graph.nodes(label)]
        graph._connection.set_trace_callback(None)
        (statement,) = asked
        plan = [step for *_, step in graph.query(f"EXPLAIN QUERY PLAN {statement}")]

    assert found == ids
    assert plan[0] == way
