"""Moving a task from state to state, and granting rights, as the real services do."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.errors import NotFound, OperationFailed
from wake_bridge.domain.names import BROADCAST
from wake_bridge.domain.tasks import ASSIGNMENT_AUTHORITY, PAYLOAD_VERSION
from wake_bridge.storage.graph.file import GraphFile, Node, owner_of
from wake_bridge.storage.graph.mailbox import require_message
from wake_bridge.storage.graph.writer import GraphWriter, as_stored

RIGHTS: Final = {
    "originator": frozenset({("Submitted", "Canceled"), ("InputRequired", "Working")}),
    "assignee": frozenset(
        {
            ("Submitted", "Working"),
            ("Working", "InputRequired"),
            ("Working", "Completed"),
            ("Working", "Failed"),
        }
    ),
}
"""Who may make which move; the sweeper's Expired is nobody's."""

_GUARDED_MOVE: Final = """
    UPDATE Nodes SET data = json_set(data,
        '$.properties.task.state', :state,
        '$.properties.task.assignee', :assignee,
        '$.properties.lastModifiedAt', :now)
    WHERE id = :id AND json_extract(data, '$.properties.task.state') = :previous
"""
_GUARDED_TYPED_MOVE: Final = """
    UPDATE Nodes SET data = json_set(data,
        '$.properties.task.state', :state,
        '$.properties.task.assignee', :assignee,
        '$.properties.taskAssignmentAuthority', :authority,
        '$.properties.lastModifiedAt', :now)
    WHERE id = :id AND json_extract(data, '$.properties.task.state') = :previous
"""
_TYPED_ROW: Final = "INSERT INTO GraphLog(entity_id, entity_type, event_id, event_payload) VALUES (?, ?, ?, ?)"
_REWRITE: Final = "UPDATE Nodes SET data = data WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Move:
    """A move that was made."""

    task_id: str
    previous_state: str
    new_state: str


@dataclass(frozen=True, slots=True)
class _Task:
    message: Node
    state: str
    originator: str
    assignee: str | None
    is_broadcast: bool


def move_task(graph: GraphWriter, task_id: str, new_state: str, actor: str, now: str) -> Move:
    """Move a task if `actor` has the right, guarded against a move made meanwhile.

    A broadcast task is taken by whoever of its recipients moves it to Working first. Where the graph has typed rows,
    the row for this move is part of the same transaction.

    Raises:
        NotFound: no such message, or it is no task.
        OperationFailed: the actor has no right to this move, or somebody moved the task first.
    """
    task = _read(graph, task_id)
    _check_right(graph, task, new_state, actor)
    claims = task.is_broadcast and (task.state, new_state) == ("Submitted", "Working")
    assignee = actor if claims else task.assignee
    with graph.transaction():
        values = {"id": task_id, "previous": task.state, "state": new_state, "assignee": assignee, "now": now}
        if graph.has_events:
            moved = graph.run(_GUARDED_TYPED_MOVE, values | {"authority": ASSIGNMENT_AUTHORITY})
        else:
            moved = graph.run(_GUARDED_MOVE, values)
        if moved and graph.has_events:
            _append_typed_row(graph, task, new_state, assignee, now)
    if not moved:
        raise OperationFailed("somebody moved the task first", task_id, hint="look at it again, then decide")
    # the services write the node once more after the guarded move: two rows for one move
    graph.run(_REWRITE, (task_id,))
    return Move(task_id, task.state, new_state)


def grant(graph: GraphWriter, scope: str, grantee: str, granter: str) -> str:
    """Give `grantee` a right over `granter`'s things; granting again reinforces the edge.

    Returns:
        The edge's id. It runs from the grantee to the granter, and carries no time.
    """
    return graph.link(grantee, granter, scope, {"userId": owner_of(granter)})


def _read(graph: GraphFile, task_id: str) -> _Task:
    message = require_message(graph, task_id)
    if not message.is_whole:
        raise OperationFailed("the message is too large to be changed", task_id, hint="make it smaller in the graph")
    task = message.properties.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("state"), str):
        raise NotFound("this message is not a task", task_id, hint="`wake-bridge send --task` makes one")
    recipients = [edge.target for edge in graph.edges("SENT_TO", source=task_id)]
    assignee = task.get("assignee")
    return _Task(
        message,
        state=task["state"],
        originator=str(message.properties.get("from", "")),
        assignee=assignee if isinstance(assignee, str) else None,
        is_broadcast=BROADCAST in recipients,
    )


def _check_right(graph: GraphFile, task: _Task, new_state: str, actor: str) -> None:
    roles = [
        role
        for role, holds in (
            ("originator", actor == task.originator),
            ("assignee", actor == task.assignee or _may_claim(graph, task, actor)),
        )
        if holds
    ]
    if not roles:
        raise OperationFailed(
            f"{actor} is neither originator nor assignee of this task",
            task.message.id,
            hint=f"it was given by {task.originator} to {task.assignee or 'whoever takes it first'}",
        )
    if any((task.state, new_state) in RIGHTS[role] for role in roles):
        return
    allowed = sorted(after for role in roles for before, after in RIGHTS[role] if before == task.state)
    raise OperationFailed(
        f"{actor}, as {' and '.join(roles)}, may not move it from {task.state} to {new_state}",
        task.message.id,
        hint=f"allowed now: {', '.join(allowed)}" if allowed else "no move of theirs is open in this state",
    )


def _may_claim(graph: GraphFile, task: _Task, actor: str) -> bool:
    """An open broadcast task belongs to whoever of its recipients comes first."""
    if not task.is_broadcast or task.state != "Submitted" or actor == task.originator:
        return False
    recipients = {edge.target for edge in graph.edges("DELIVERED_TO", source=task.message.id)}
    return not recipients or actor in recipients


def _append_typed_row(graph: GraphWriter, task: _Task, new_state: str, assignee: str | None, now: str) -> None:
    payload = {
        "schemaVersion": PAYLOAD_VERSION,
        "taskId": task.message.id,
        "previousState": task.state,
        "newState": new_state,
        "originator": task.originator,
        "assignee": assignee,
        "assignmentAuthority": ASSIGNMENT_AUTHORITY,
        "lastModifiedAt": now,
    }
    graph.run(_TYPED_ROW, (task.message.id, "task_state_changed", str(uuid.uuid4()), as_stored(payload)))
