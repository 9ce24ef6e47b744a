"""Tasks move by right, guarded, with the rows that the real services write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wake_bridge.domain.errors import (
    NotFound,
    OperationFailed,
)
from wake_bridge.domain.names import BROADCAST
from wake_bridge.storage.graph import access
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.graph_file import GraphWriter
from wake_bridge.storage.graph.mailbox import Draft, move_task, send
from wake_bridge.testing.memory_core import GraphEye

NOW = "2026-11-27T21:53:52.502Z"
LATER = "2026-11-27T21:54:00.000Z"


def test_a_task_begins_submitted_with_its_assignee_and_the_real_keys(
    graph: WritableGraph, eye: GraphEye, real: Path
) -> None:
    """`properties.task`; where typed rows exist, the mark without which an assignee is not trusted."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    open_task = send(graph, Draft("@ada", BROADCAST, "Anyone", is_task=True), NOW)
    assert eye.properties(task)["task"] == {"state": "Submitted", "assignee": "@bob"}
    assert eye.properties(open_task)["task"] == {"state": "Submitted"}
    move_task(graph, task, "Working", "@bob", LATER)
    theirs = GraphEye(real).properties("MESSAGE:e96fc7ac-07d3-46a5-8526-2437eca74704")
    assert eye.properties(task).keys() - theirs.keys() == {"taskAssignmentAuthority"}
    assert theirs.keys() <= eye.properties(task).keys()
    assert eye.properties(task)["task"].keys() == theirs["task"].keys()
    assert eye.properties(task)["lastModifiedAt"] == LATER


def test_a_move_writes_the_guarded_row_the_typed_row_and_the_rewrite(graph: WritableGraph, eye: GraphEye) -> None:
    """The typed row is part of the move's transaction; its payload is exact."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    tip = eye.tip()
    move = move_task(graph, task, "Working", "@bob", LATER)
    assert (move.previous_state, move.new_state) == ("Submitted", "Working")
    rows = eye.all("SELECT entity_type, entity_id, event_id, event_payload FROM GraphLog WHERE log_id > ?", tip)
    assert [row[0] for row in rows] == ["nodes", "task_state_changed", "nodes"]
    assert {row[1] for row in rows} == {task}
    assert rows[0][2:] == rows[2][2:] == (None, None)
    assert rows[1][2]
    assert json.loads(rows[1][3]) == json.loads(
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
    graph: WritableGraph, eye: GraphEye, path_to: list[tuple[str, str]], state: str, actor: str, allowed: bool
) -> None:
    """The originator cancels a Submitted task and answers InputRequired; the assignee makes the others."""
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


def test_an_open_task_belongs_to_the_first_who_takes_it(graph: WritableGraph, eye: GraphEye) -> None:
    """A broadcast task can be claimed by any of its recipients, once."""
    task = send(graph, Draft("@ada", BROADCAST, "Anyone", is_task=True), NOW)
    for stranger in ("@ada", "@tobi"):
        with pytest.raises(OperationFailed):
            move_task(graph, task, "Working", stranger, NOW)
    move_task(graph, task, "Working", "@cyd", LATER)
    assert eye.properties(task)["task"] == {"state": "Working", "assignee": "@cyd"}
    with pytest.raises(OperationFailed):
        move_task(graph, task, "Completed", "@bob", LATER)
    move_task(graph, task, "Completed", "@cyd", LATER)


def test_a_move_that_somebody_made_meanwhile_is_not_made_twice(graph: WritableGraph, path: Path, eye: GraphEye) -> None:
    """The guard is the state that was seen: a race is lost with an error, and leaves no typed row."""
    task = send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW)
    seen = graph.node(task)
    move_task(graph, task, "Working", "@bob", NOW)
    tip = eye.tip()

    class Behind(GraphWriter):
        """A writer whose view of the task is older than the file."""

        def node(self, node_id: str) -> access.Node | None:
            """What was seen before."""
            return seen if node_id == task else super().node(node_id)

    with Behind(path) as late, pytest.raises(OperationFailed, match="somebody else moved the task first"):
        move_task(late, task, "Canceled", "@ada", LATER)
    assert eye.tip() == tip


def test_a_message_that_is_no_task_cannot_be_moved(graph: WritableGraph) -> None:
    """Not found is 8."""
    message = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    for wrong in (message, "MESSAGE:none", "@ada"):
        with pytest.raises(NotFound):
            move_task(graph, wrong, "Working", "@bob", NOW)
