"""DESIGN §2: what the graph commands write has the real services' schema, shapes and commit order.

Judged against `fixtures/neo-real.sqlite`, a file that the real services wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.errors import (
    NotFound,
    OperationFailed,
    RefusedForSafety,
    SourceMissing,
    SourceNotAGraph,
    SourceUnavailable,
)
from wake_bridge.domain.names import BROADCAST, Priority, Trigger, WakePolicy
from wake_bridge.edges import graph_file
from wake_bridge.edges.graph_file import GraphFile
from wake_bridge.edges.graph_schema import APPLICATION_ID, create_embedded_graph
from wake_bridge.edges.graph_writer import GraphWriter
from wake_bridge.edges.identity_nodes import put_identity
from wake_bridge.edges.mailbox import Draft, mark_read, require_mail, send, unread_mail_of
from wake_bridge.edges.subscription_nodes import Wish, subscribe, unsubscribe, update
from wake_bridge.edges.task_moves import grant, move_task

REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
NOW = "2026-11-27T21:53:52.502Z"
LATER = "2026-11-27T21:54:00.000Z"


class Eye:
    """Looks at a graph file from outside, as another program would."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows."""
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement, values).fetchall()

    def properties(self, node_id: str) -> dict[str, Any]:
        """A node's inner object."""
        ((data,),) = self.all("SELECT data FROM Nodes WHERE id = ?", node_id)
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties

    def edge(self, kind: str, source: str) -> dict[str, Any]:
        """The first edge of a type from a source, as stored."""
        data = self.all("SELECT data FROM Edges WHERE type = ? AND source = ? ORDER BY rowid", kind, source)[0][0]
        edge: dict[str, Any] = json.loads(data)
        return edge

    def log(self, after: int = 0) -> list[str]:
        """The log's rows after an id: what they point at, in words."""
        rows = self.all(
            "SELECT l.entity_type, l.entity_id, e.type, json_extract(n.data, '$.label') FROM GraphLog l"
            " LEFT JOIN Edges e ON e.id = l.entity_id LEFT JOIN Nodes n ON n.id = l.entity_id"
            " WHERE l.log_id > ? ORDER BY l.log_id",
            after,
        )
        return [kind or label or f"{table}:gone" for table, _, kind, label in rows]

    def tip(self) -> int:
        """The highest id ever given."""
        rows = self.all("SELECT seq FROM sqlite_sequence WHERE name = 'GraphLog'")
        return int(rows[0][0]) if rows else 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new embedded graph."""
    place = tmp_path / "data/graph.sqlite"
    assert create_embedded_graph(place, NOW)
    return place


@pytest.fixture
def graph(path: Path) -> Iterator[GraphWriter]:
    """The embedded graph, opened for writing, with three agents and a person."""
    with GraphWriter(path) as writer:
        for name in ("@ada", "@bob", "@cyd"):
            put_identity(writer, name, NOW)
        put_identity(writer, "@tobi", NOW, human=True)
        yield writer


@pytest.fixture
def eye(path: Path) -> Eye:
    """Looks at the embedded graph from outside."""
    return Eye(path)


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A copy of the file that the real services wrote."""
    copy = tmp_path / "real.sqlite"
    shutil.copy(REAL, copy)
    return copy


def schema_of(path: Path) -> dict[str, Any]:
    """Tables with their columns, and the words of indexes and triggers."""
    eye = Eye(path)
    tables = [
        name for (name,) in eye.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    ]
    columns = {table: [tuple(row[1:6]) for row in eye.all(f"PRAGMA table_info({table})")] for table in tables}
    others = eye.all("SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL")
    return {"tables": columns, "others": {name: " ".join(sql.split()) for name, sql in others}}


def test_the_embedded_graph_has_the_real_schema_in_its_newest_form(path: Path, real: Path) -> None:
    """DESIGN §2: so that the memory core could take the file over; newer than the sample only where it is known to be."""
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
    """DESIGN §1: application_id 0x57414B45 marks it; 0600 in a 0700 directory; schema version graph = 1."""
    eye = Eye(path)
    assert eye.all("PRAGMA application_id") == [(APPLICATION_ID,)] == [(0x57414B45,)]
    assert eye.all("PRAGMA journal_mode") == [("wal",)]
    assert eye.all("SELECT id, version FROM SchemaVersion") == Eye(real).all("SELECT id, version FROM SchemaVersion")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert eye.properties(BROADCAST).keys() == Eye(real).properties(BROADCAST).keys()
    assert [file.name for file in path.parent.iterdir()] == ["graph.sqlite"]


def test_making_it_again_changes_nothing(path: Path) -> None:
    """CONTRACT, `init`: safe to repeat; never touches a file that is not ours."""
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


def test_an_identity_has_the_real_shape(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """DESIGN §2: AgentIdentity with label and properties as the real roster, owner null."""
    theirs = Eye(real)
    assert eye.properties("@tobi").keys() == theirs.properties("@tobiu").keys()
    assert (
        theirs.properties("@tobiu").keys()
        <= eye.properties("@ada").keys()
        <= theirs.properties("@neo-gemini-pro").keys()
    )
    assert eye.all("SELECT user_id, json_extract(data, '$.label') FROM Nodes WHERE id = '@ada'") == [
        (None, "AgentIdentity")
    ]
    tip = eye.tip()
    put_identity(graph, "@ada", LATER)
    assert eye.tip() == tip
    put_identity(graph, "@ada", LATER, display_name="Ada")
    assert (eye.properties("@ada")["displayName"], eye.properties("@ada")["createdAt"]) == ("Ada", NOW)


def test_a_message_has_exactly_the_real_keys(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """DESIGN §2: MESSAGE, SENT_BY, SENT_TO, reply and tag edges, field by field."""
    first = send(graph, Draft("@ada", "@bob", "Review", "Please.", tags=("concept:wake-substrate", "a2a", "a2a")), NOW)
    answer = send(graph, Draft("@bob", "@ada", "Re: Review", "On it.", Priority.HIGH, reply_to=first), LATER)
    theirs = Eye(real)
    their_answer = "MESSAGE:52d0eb09-fff3-45e5-910f-f54b987020a0"
    assert list(eye.properties(answer)) == list(theirs.properties(their_answer))
    assert eye.properties(first) == {
        "name": "Review",
        "description": "",
        "subject": "Review",
        "bodyText": "Please.",
        "priority": "normal",
        "sentAt": NOW,
        "readAt": None,
        "from": "@ada",
        "to": "@bob",
        "inReplyTo": None,
        "partOfThread": None,
        "taggedConcepts": ["wake-substrate", "a2a"],
        "wakeSuppressed": False,
        "userId": "ada",
        "sharedEntity": True,
    }
    assert (eye.properties(answer)["inReplyTo"], eye.properties(answer)["partOfThread"]) == (first, first)
    assert eye.all("SELECT user_id FROM Nodes WHERE id = ?", answer) == [("bob",)]
    for kind in ("SENT_BY", "SENT_TO", "IN_REPLY_TO", "PART_OF_THREAD"):
        ours, real_edge = eye.edge(kind, answer), theirs.edge(kind, their_answer)
        assert list(ours) == list(real_edge)
        assert list(ours["properties"]) == list(real_edge["properties"])
    assert list(eye.edge("TAGGED_CONCEPT", first)["properties"]) == list(
        theirs.edge("TAGGED_CONCEPT", their_answer)["properties"]
    )
    assert eye.properties("a2a") == theirs.properties("a2a")


def test_an_answer_to_an_answer_stays_in_the_thread(graph: GraphWriter, eye: Eye) -> None:
    """A reply's partOfThread is its parent's, or the parent itself: one conversation, however long."""
    root = send(graph, Draft("@ada", "@bob", "1"), NOW)
    second = send(graph, Draft("@bob", "@ada", "2", reply_to=root), NOW)
    third = send(graph, Draft("@ada", "@bob", "3", reply_to=second), NOW)
    assert [eye.properties(one)["partOfThread"] for one in (root, second, third)] == [None, root, root]
    with pytest.raises(NotFound):
        send(graph, Draft("@ada", "@bob", "4", reply_to="MESSAGE:none"), NOW)


def test_a_send_commits_in_the_real_order_each_step_for_itself(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """DESIGN §2: one send is 4–12 transactions; the log shows the order that the real services leave."""
    first = send(graph, Draft("@ada", "@bob", "Review"), NOW)
    tip = eye.tip()
    send(graph, Draft("@bob", "@ada", "Re", tags=("wake-substrate", "a2a"), reply_to=first), NOW)
    theirs = Eye(real).log(39)[:9]
    assert (
        eye.log(tip)
        == theirs
        == [
            "MESSAGE",
            "SENT_BY",
            "SENT_TO",
            "IN_REPLY_TO",
            "PART_OF_THREAD",
            "CONCEPT",
            "TAGGED_CONCEPT",
            "CONCEPT",
            "TAGGED_CONCEPT",
        ]
    )


def test_a_broadcast_is_delivered_to_every_agent_but_its_sender(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """DESIGN §2: DELIVERED_TO edges after SENT_TO, for accountType agent; people receive none."""
    tip = eye.tip()
    message = send(graph, Draft("@ada", BROADCAST, "All hands"), NOW)
    assert eye.log(tip) == ["MESSAGE", "SENT_BY", "SENT_TO", "DELIVERED_TO", "DELIVERED_TO"]
    recipients = eye.all("SELECT target FROM Edges WHERE type = 'DELIVERED_TO' AND source = ?", message)
    assert recipients == [("@bob",), ("@cyd",)]
    theirs = Eye(real).edge("DELIVERED_TO", "MESSAGE:e0e0f41a-e5c1-494a-ac60-49c541ba8e9f")["properties"]
    ours = eye.edge("DELIVERED_TO", message)["properties"]
    assert list(ours) == list(theirs)
    assert ours | {"userId": ""} == theirs | {"userId": "", "deliveredAt": NOW}


def test_what_is_said_about_the_wake_stands_on_the_message(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §7: MESSAGE.properties.wakePolicy; `wakeSuppressed` is silent; a window of its own."""
    loud = send(graph, Draft("@ada", "@bob", "x", policy=WakePolicy.IMMEDIATE, window=0), NOW)
    quiet = send(graph, Draft("@ada", "@bob", "x", suppress_wake=True), NOW)
    assert (eye.properties(loud)["wakePolicy"], eye.properties(loud)["wakeWindow"]) == ("immediate", 0)
    assert eye.properties(quiet)["wakeSuppressed"] is True
    assert "wakePolicy" not in eye.properties(quiet)


def test_any_text_can_be_sent_and_is_stored_as_the_real_services_store_it(graph: GraphWriter, eye: Eye) -> None:
    """The graph keeps what was written, hostile or not; what is shown is made harmless elsewhere."""
    text = 'Zażółć 漢字 🚀 "quotes" \\ $(touch x) `id`\n\x1b[2J\x00 \udc80'
    message = send(graph, Draft("@ada", "@bob", text, text), NOW)
    assert eye.properties(message)["subject"] == text
    ((stored,),) = eye.all("SELECT data FROM Nodes WHERE id = ?", message)
    assert "Zażółć 漢字 🚀" in stored
    assert "\\udc80" in stored


def test_linking_the_same_pair_again_reinforces_the_edge(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §2 and the real linkNodes: no second edge, a heavier one, one more row in the log, at most 5."""
    first = grant(graph, "CAN_REPLY_TO", "@ada", "@bob")
    assert eye.edge("CAN_REPLY_TO", "@ada")["properties"] == {"weight": 1, "userId": "bob"}
    tip = eye.tip()
    assert grant(graph, "CAN_REPLY_TO", "@ada", "@bob") == first
    assert eye.log(tip) == ["CAN_REPLY_TO"]
    assert eye.edge("CAN_REPLY_TO", "@ada")["properties"]["weight"] == pytest.approx(1.1)
    for _ in range(50):
        grant(graph, "CAN_REPLY_TO", "@ada", "@bob")
    assert eye.edge("CAN_REPLY_TO", "@ada")["properties"]["weight"] == 5


def test_a_right_runs_from_grantee_to_granter_in_the_real_shape(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """DESIGN §2: grantee → granter, owned by the granter, without a time."""
    grant(graph, "CAN_READ_INBOX_OF", "@ada", "@bob")
    ours, theirs = eye.edge("CAN_READ_INBOX_OF", "@ada"), Eye(real).edge("CAN_READ_INBOX_OF", "@neo-opus-ada")
    assert list(ours) == list(theirs)
    assert ours["target"] == "@bob"
    assert ours["properties"].keys() == theirs["properties"].keys()


def test_a_subscription_has_the_real_shape(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """CONTRACT: `--tmux P` is bridge-daemon with adapter, tmuxSession and coalesceWindow; DESIGN §2: the rest."""
    wish = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="agents:1.0", window=5)
    done = subscribe(graph, "@ada", wish, NOW)
    ours = eye.properties(done.subscription_id)
    theirs = Eye(real).properties("WAKE_SUB:a825c12e-d8c5-4081-98e6-793aa690835d")
    assert list(ours) == list(theirs)
    assert ours["harnessTargetMetadata"] == {"adapter": "tmux", "tmuxSession": "agents:1.0", "coalesceWindow": 5}
    assert ours | {"name": "", "harnessTargetMetadata": {}} == {
        "name": "",
        "description": "",
        "updatedAt": NOW,
        "agentIdentity": "@ada",
        "trigger": "SENT_TO_ME",
        "filters": {},
        "harnessTarget": "bridge-daemon",
        "harnessTargetMetadata": {},
        "createdAt": NOW,
        "userId": "ada",
        "sharedEntity": False,
        "status": "active",
    }
    edge, their_edge = eye.edge("SUBSCRIBES_TO", "@ada"), Eye(real).edge("SUBSCRIBES_TO", "@neo-opus-ada")
    assert (list(edge), list(edge["properties"])) == (list(their_edge), list(their_edge["properties"]))
    assert eye.log()[-2:] == ["WAKE_SUBSCRIPTION", "SUBSCRIBES_TO"]


def test_there_are_never_two_active_subscriptions_alike(graph: GraphWriter, eye: Eye) -> None:
    """Two alike would be one wake with two voices: the older is updated; another pane or filter is another one."""
    wish = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a", window=5, senders=("@bob", "@cyd"))
    first = subscribe(graph, "@ada", wish, NOW)
    again = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a", window=9, senders=("@cyd", "@bob"))
    second = subscribe(graph, "@ada", again, LATER)
    assert (second.subscription_id, second.created) == (first.subscription_id, False)
    stored = eye.properties(first.subscription_id)
    assert (stored["harnessTargetMetadata"]["coalesceWindow"], stored["updatedAt"], stored["createdAt"]) == (
        9,
        LATER,
        NOW,
    )
    elsewhere = subscribe(graph, "@ada", Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="b"), NOW)
    assert elsewhere.created


def test_an_update_changes_what_was_named_and_keeps_the_rest(graph: GraphWriter, eye: Eye) -> None:
    """CONTRACT, `update`: same flags; a blank entry empties a filter; `--recover` makes it active again."""
    wish = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a", tags=("x",), priority="high")
    done = subscribe(graph, "@ada", wish, NOW)
    update(graph, done.subscription_id, Wish(window=0, tags=("",), policy=WakePolicy.NEXT_TURN), LATER)
    stored = eye.properties(done.subscription_id)
    assert stored["filters"] == {"taggedConcepts": [], "priority": "high"}
    assert stored["harnessTargetMetadata"] == {"adapter": "tmux", "tmuxSession": "a", "coalesceWindow": 0}
    assert stored["wakePolicy"] == "next_turn"
    graph.set_property("Nodes", done.subscription_id, "status", "degraded")
    update(graph, done.subscription_id, Wish(recover=True), LATER)
    assert eye.properties(done.subscription_id)["status"] == "active"
    with pytest.raises(NotFound):
        update(graph, "WAKE_SUB:none", Wish(), LATER)


def test_a_new_pane_wins_over_an_old_instance_address(real: Path) -> None:
    """DESIGN §6.1: the instance address comes before the session, so `--tmux` must take it away."""
    route = "WAKE_SUB:4f7ac9bc-7c98-4378-a329-c4ab112fd911"
    with GraphWriter(real, allow_foreign=True) as graph:
        update(graph, route, Wish(pane="other"), LATER)
    metadata = Eye(real).properties(route)["harnessTargetMetadata"]
    assert metadata == {"appName": "Antigravity", "adapter": "tmux", "tmuxSession": "other"}


def test_unsubscribing_removes_edge_then_node_as_the_real_service_does(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §2: status removed = node deleted; both deletions leave their rows."""
    done = subscribe(graph, "@ada", Wish(Trigger.SENT_TO_ME, "none"), NOW)
    tip = eye.tip()
    unsubscribe(graph, done.subscription_id)
    rows = eye.all("SELECT entity_type FROM GraphLog WHERE log_id > ? ORDER BY log_id", tip)
    assert rows == [("edges",), ("nodes",)]
    assert eye.all("SELECT count(*) FROM Edges WHERE type = 'SUBSCRIBES_TO'") == [(0,)]
    with pytest.raises(NotFound):
        unsubscribe(graph, done.subscription_id)


# -- tasks -----------------------------------------------------------------------------------------------------------


def test_a_task_begins_submitted_with_its_assignee_and_the_real_keys(graph: GraphWriter, eye: Eye, real: Path) -> None:
    """DESIGN §2: `properties.task`; where typed rows exist, the mark without which an assignee is not trusted."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    open_task = send(graph, Draft("@ada", BROADCAST, "Anyone", is_task=True), NOW)
    assert eye.properties(task)["task"] == {"state": "Submitted", "assignee": "@bob"}
    assert eye.properties(open_task)["task"] == {"state": "Submitted"}
    move_task(graph, task, "Working", "@bob", LATER)
    theirs = Eye(real).properties("MESSAGE:e96fc7ac-07d3-46a5-8526-2437eca74704")
    assert eye.properties(task).keys() - theirs.keys() == {"taskAssignmentAuthority"}
    assert theirs.keys() <= eye.properties(task).keys()
    assert eye.properties(task)["task"].keys() == theirs["task"].keys()
    assert eye.properties(task)["lastModifiedAt"] == LATER


def test_a_move_writes_the_guarded_row_the_typed_row_and_the_rewrite(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §2: the typed row is part of the move's transaction; its payload is exact."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    tip = eye.tip()
    move = move_task(graph, task, "Working", "@bob", LATER)
    assert (move.previous_state, move.new_state) == ("Submitted", "Working")
    rows = eye.all("SELECT entity_type, entity_id, event_id, event_payload FROM GraphLog WHERE log_id > ?", tip)
    assert [row[0] for row in rows] == ["nodes", "task_state_changed", "nodes"]
    assert {row[1] for row in rows} == {task}
    assert rows[0][2:] == rows[2][2:] == (None, None)
    assert rows[1][2]
    assert rows[1][3] == (
        '{"schemaVersion":"task-state-change.v1","taskId":"' + task + '","previousState":"Submitted",'
        '"newState":"Working","originator":"@ada","assignee":"@bob","assignmentAuthority":"memory-core.v1",'
        '"lastModifiedAt":"' + LATER + '"}'
    )


@pytest.mark.parametrize(
    ("path_to", "state", "actor", "allowed"),
    [
        ([], "Working", "@bob", True),
        ([], "Canceled", "@ada", True),
        ([], "Working", "@ada", False),
        ([], "Canceled", "@bob", False),
        ([], "Completed", "@bob", False),
        ([], "Working", "@cyd", False),
        ([], "Expired", "@ada", False),
        ([("Working", "@bob")], "InputRequired", "@bob", True),
        ([("Working", "@bob")], "Completed", "@bob", True),
        ([("Working", "@bob")], "Failed", "@bob", True),
        ([("Working", "@bob")], "Completed", "@ada", False),
        ([("Working", "@bob")], "Canceled", "@ada", False),
        ([("Working", "@bob")], "Working", "@bob", False),
        ([("Working", "@bob"), ("InputRequired", "@bob")], "Working", "@ada", True),
        ([("Working", "@bob"), ("InputRequired", "@bob")], "Working", "@bob", False),
        ([("Working", "@bob"), ("Completed", "@bob")], "Working", "@bob", False),
    ],
)
def test_only_who_has_the_right_makes_a_move(
    graph: GraphWriter, eye: Eye, path_to: list[tuple[str, str]], state: str, actor: str, allowed: bool
) -> None:
    """DESIGN §2: the originator cancels a Submitted task and answers InputRequired; the assignee makes the others."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    for before, by in path_to:
        move_task(graph, task, before, by, NOW)
    if allowed:
        move_task(graph, task, state, actor, LATER)
        assert eye.properties(task)["task"]["state"] == state
        return
    was, tip = eye.properties(task), eye.tip()
    with pytest.raises(OperationFailed) as caught:
        move_task(graph, task, state, actor, LATER)
    assert caught.value.exit_code == 1
    assert caught.value.hint
    assert (eye.properties(task), eye.tip()) == (was, tip)


def test_an_open_task_belongs_to_the_first_who_takes_it(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §2: a broadcast task can be claimed by any of its recipients, once."""
    task = send(graph, Draft("@ada", BROADCAST, "Anyone", is_task=True), NOW)
    for stranger in ("@ada", "@tobi"):
        with pytest.raises(OperationFailed):
            move_task(graph, task, "Working", stranger, NOW)
    move_task(graph, task, "Working", "@cyd", LATER)
    assert eye.properties(task)["task"] == {"state": "Working", "assignee": "@cyd"}
    with pytest.raises(OperationFailed):
        move_task(graph, task, "Completed", "@bob", LATER)
    move_task(graph, task, "Completed", "@cyd", LATER)


def test_a_move_that_somebody_made_meanwhile_is_not_made_twice(graph: GraphWriter, path: Path, eye: Eye) -> None:
    """The guard is the state that was seen: a race is lost with an error, and leaves no typed row."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    seen = graph.node(task)
    move_task(graph, task, "Working", "@bob", NOW)
    tip = eye.tip()

    class Behind(GraphWriter):
        """A writer whose view of the task is older than the file."""

        def node(self, node_id: str) -> graph_file.Node | None:
            """What was seen before."""
            return seen if node_id == task else super().node(node_id)

    with Behind(path) as late, pytest.raises(OperationFailed, match="somebody moved the task first"):
        move_task(late, task, "Canceled", "@ada", LATER)
    assert eye.tip() == tip


def test_a_message_that_is_no_task_cannot_be_moved(graph: GraphWriter) -> None:
    """CONTRACT: not found is 8."""
    message = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    for wrong in (message, "MESSAGE:none", "@ada"):
        with pytest.raises(NotFound):
            move_task(graph, wrong, "Working", "@bob", NOW)


# -- read state ------------------------------------------------------------------------------------------------------


def test_direct_mail_is_marked_on_the_message(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §2: `MESSAGE.properties.readAt`; nothing else of the node changes, and one row tells it."""
    message = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    before, tip = eye.properties(message), eye.tip()
    (mail,) = unread_mail_of(graph, "@bob")
    mark_read(graph, [mail], LATER)
    assert eye.properties(message) == before | {"readAt": LATER}
    assert eye.log(tip) == ["MESSAGE"]
    assert unread_mail_of(graph, "@bob") == []
    mark_read(graph, [require_mail(graph, "@bob", message)], NOW)
    assert eye.properties(message)["readAt"] == LATER


def test_a_broadcast_is_marked_on_the_recipients_own_edge(graph: GraphWriter, eye: Eye) -> None:
    """DESIGN §2: `DELIVERED_TO.properties.readAt` per recipient; the others still have it unread."""
    message = send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    mark_read(graph, unread_mail_of(graph, "@bob"), LATER)
    states = eye.all(
        "SELECT target, json_extract(data, '$.properties.readAt') FROM Edges WHERE type = 'DELIVERED_TO' AND source = ?",
        message,
    )
    assert states == [("@bob", LATER), ("@cyd", None)]
    assert eye.properties(message)["readAt"] is None
    assert [mail.message.id for mail in unread_mail_of(graph, "@cyd")] == [message]


def test_nobody_finds_mail_that_is_not_theirs(graph: GraphWriter) -> None:
    """A mailbox holds what is addressed to it; own broadcasts are not mail."""
    direct = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    assert unread_mail_of(graph, "@ada") == unread_mail_of(graph, "@tobi") == []
    with pytest.raises(NotFound):
        require_mail(graph, "@cyd", direct)


def test_an_old_broadcast_without_recorded_recipients_is_everybodys_but_its_senders(graph: GraphWriter) -> None:
    """DESIGN §2: SENT_TO → AGENT:* without any DELIVERED_TO; own broadcasts never."""
    for other in ("@bob", "@cyd"):
        put_identity(graph, other, NOW, human=True)
    message = send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    assert [mail.message.id for mail in unread_mail_of(graph, "@bob")] == [message]
    assert unread_mail_of(graph, "@ada") == []


def test_what_was_put_away_is_not_unread(graph: GraphWriter, eye: Eye) -> None:
    """Upstream's archive is per recipient, where the read state lies: done with, though never marked read."""
    direct = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    everyone = send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    graph.set_property("Nodes", direct, "archivedAt", LATER)
    graph.set_property("Edges", eye.edge("DELIVERED_TO", everyone)["id"], "archivedAt", LATER)
    assert unread_mail_of(graph, "@bob") == []
    assert [mail.message.id for mail in unread_mail_of(graph, "@cyd")] == [everyone]


def test_the_real_mailboxes_are_read_as_the_real_services_left_them(real: Path) -> None:
    """`fixtures/neo-real.sqlite`: read and archived mail is gone, broadcasts are found by their edges."""
    with GraphFile(real) as graph:
        assert not graph.is_embedded
        assert not graph.has_events
        subjects = [mail.message.properties["subject"][:20] for mail in unread_mail_of(graph, "@neo-opus-ada")]
    assert subjects == [
        "[lane-claim] taking ",
        'Unicode ✓ "quotes" \\',
        "[sunset] handover",
        "x" * 20,
        "Task: review",
        "Task: open to anyone",
        "Task: short-lived",
    ]


# -- foreign graphs --------------------------------------------------------------------------------------------------


def test_a_foreign_graph_is_not_written_unless_it_is_said(real: Path) -> None:
    """CONTRACT: a foreign graph needs `--foreign`, else exit 7."""
    before = Eye(real).tip()
    with pytest.raises(RefusedForSafety) as caught:
        GraphWriter(real)
    assert caught.value.exit_code == 7
    assert "--foreign" in caught.value.hint
    assert Eye(real).tip() == before


def test_writing_a_foreign_graph_never_changes_its_schema(real: Path) -> None:
    """DESIGN §9: `--foreign`, never DDL; the old log columns get no typed row, and a move its two rows."""
    before = schema_of(real)
    eye = Eye(real)
    with GraphWriter(real, allow_foreign=True) as graph:
        task = send(graph, Draft("@neo-gpt", "@neo-opus-ada", "Fix", is_task=True), NOW)
        tip = eye.tip()
        move_task(graph, task, "Working", "@neo-opus-ada", LATER)
        grant(graph, "CAN_REPLY_TO", "@neo-fable", "@neo-gpt")
    assert schema_of(real) == before
    assert eye.log(tip) == ["MESSAGE", "MESSAGE", "CAN_REPLY_TO"]
    assert "taskAssignmentAuthority" not in eye.properties(task)


def test_a_graph_without_owner_columns_is_written_without_them(tmp_path: Path) -> None:
    """DESIGN §2: older files lack `user_id`; the JSON still names the owner."""
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
    assert Eye(old).properties(message)["userId"] == "ada"


# -- what is no graph ------------------------------------------------------------------------------------------------


def test_each_file_that_is_no_graph_says_what_it_is(tmp_path: Path) -> None:
    """Issue, bad input: no graph, a text file as graph, a database without GraphLog: exit 4, each with a hint."""
    text = tmp_path / "notes.txt"
    text.write_text("this is no database, and long enough not to be taken for an empty one\n" * 20)
    other = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.executescript("CREATE TABLE Nodes (id TEXT, data TEXT); CREATE TABLE Edges (id TEXT)")
    for wrong, error, words in (
        (tmp_path / "none.sqlite", SourceMissing, "there is no graph"),
        (text, SourceNotAGraph, "not a graph"),
        (other, SourceNotAGraph, "it has no GraphLog"),
        (tmp_path, SourceUnavailable, "cannot be used now"),
    ):
        with pytest.raises(error, match=words) as caught:
            GraphFile(wrong)
        assert caught.value.exit_code == 4
        assert caught.value.hint


def test_a_graph_that_is_locked_is_unavailable_and_nothing_is_half_done(
    graph: GraphWriter, path: Path, eye: Eye, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue, bad input: a locked graph is exit 4 after the busy time-out, not a traceback."""
    assert graph.is_embedded
    monkeypatch.setattr(graph_file, "BUSY_TIMEOUT", 0.1)
    tip = eye.tip()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with GraphWriter(path) as waiting, pytest.raises(SourceUnavailable, match="locked"):
            send(waiting, Draft("@ada", "@bob", "Hello"), NOW)
        holder.execute("ROLLBACK")
    assert eye.tip() == tip


def test_two_commands_that_link_the_same_pairs_at_once_make_one_edge_each(
    path: Path, graph: GraphWriter, eye: Eye
) -> None:
    """A link is looked for and made in one transaction: two writers cannot both find it missing."""
    names = [f"@agent{number}" for number in range(20)]
    for name in names:
        put_identity(graph, name, NOW)

    def give_all(_: int) -> list[str]:
        with GraphWriter(path) as writer:
            return [grant(writer, "CAN_REPLY_TO", name, "@bob") for name in names]

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(give_all, range(2))
    assert first == second
    assert eye.all("SELECT count(*) FROM Edges WHERE type = 'CAN_REPLY_TO'") == [(20,)]


def test_a_broken_row_is_left_out_and_hides_nothing_else(graph: GraphWriter, path: Path) -> None:
    """DESIGN §2: broken JSON is guarded with json_valid; one bad row must not take the commands down."""
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
