"""Mail and tasks in the graph: sends them, finds what is unread, marks it read, as the real services do."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal

from wake_bridge.domain.errors import NotFound, OperationFailed
from wake_bridge.domain.messages import MESSAGE_LABEL, Unusable, message_from, read_mark
from wake_bridge.domain.names import BROADCAST, Priority, WakePolicy
from wake_bridge.domain.subscriptions import plain_tag
from wake_bridge.domain.tasks import ASSIGNMENT_AUTHORITY, PAYLOAD_VERSION
from wake_bridge.domain.values import dataclass
from wake_bridge.storage.graph.access import REPAIR, Graph, Node, StoredLetter, WritableGraph, owner_of
from wake_bridge.storage.graph.nodes import IDENTITY_LABEL
from wake_bridge.storage.graph.rows import Unreadable


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be sent.

    `window` are the seconds it may wait for company, and `ack_within` those in which it has to be answered; None where the
    subscription and the configuration decide.
    """

    sender: str
    recipient: str
    subject: str
    body: str = ""
    priority: Priority = Priority.NORMAL
    tags: tuple[str, ...] = ()
    reply_to: str | None = None
    is_task: bool = False
    policy: WakePolicy | None = None
    window: int | None = None
    suppress_wake: bool = False
    ack_within: int | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """A message as it lies in somebody's mailbox.

    `table` and `row_id` say what carries its read state: the recipient's own edge for a broadcast, else the node.
    `recipient` is whose mailbox it is.
    """

    message: Node
    table: Literal["Nodes", "Edges"]
    row_id: str
    is_read: bool
    recipient: str

    def without_text(self) -> Mail:
        """The same, for whoever has shown it: many at once may not fit into memory."""
        return replace(self, message=replace(self.message, properties={}))


@dataclass(frozen=True, slots=True)
class UnreadableMail:
    """Mail that is addressed to somebody and cannot be read: the message, the row that is at fault, and why."""

    message_id: str
    row_id: str
    why: str


def send(graph: WritableGraph, draft: Draft, now: str) -> str:
    """Send a message: node, SENT_BY, SENT_TO, DELIVERED_TO to each recipient of a broadcast, thread, tags.

    Each step is a transaction of its own, as the real services commit.

    Returns:
        The message's id.

    Raises:
        NotFound: sender, recipient or the message it answers does not exist; nothing was written.
    """
    parent = require_message(graph, draft.reply_to) if draft.reply_to else None
    thread = (parent.properties.get("partOfThread") or parent.id) if parent is not None else None
    tags = tuple(dict.fromkeys(tag for tag in (plain_tag(tag.strip()) for tag in draft.tags) if tag))
    for end in (draft.sender, draft.recipient):
        if graph.node(end) is None:
            raise NotFound("the graph has no such node", end, hint="`wake-bridge agent list` shows them")
    message_id = f"MESSAGE:{uuid.uuid4()}"
    graph.put_node(message_id, MESSAGE_LABEL, _message(graph, draft, thread, tags, now))

    ownership = {"userId": owner_of(draft.sender), "sharedEntity": True}
    stamped = {"timestamp": now, **ownership}
    graph.link(message_id, draft.sender, "SENT_BY", stamped)
    graph.link(message_id, draft.recipient, "SENT_TO", stamped)
    if draft.recipient == BROADCAST:
        for recipient in audience(graph, draft.sender):
            receipt = {"deliveredAt": now, "readAt": None, "deliveryKind": "broadcast", **ownership}
            graph.link(message_id, recipient, "DELIVERED_TO", receipt)
    if parent is not None:
        graph.link(message_id, parent.id, "IN_REPLY_TO", stamped)
        if graph.node(str(thread)) is not None:
            graph.link(message_id, str(thread), "PART_OF_THREAD", stamped)
    for tag in tags:
        if graph.node(tag) is None:
            concept = {"name": tag, "description": "", "canonicalConceptId": tag, "userId": None}
            graph.put_node(tag, "CONCEPT", concept)
        graph.link(message_id, tag, "TAGGED_CONCEPT", stamped)
    return message_id


def audience(graph: Graph, sender: str) -> list[str]:
    """Who receives a broadcast: every agent but its sender, benched ones included."""
    agents = (node for node in graph.nodes(IDENTITY_LABEL) if node.properties.get("accountType") == "agent")
    return [node.id for node in agents if node.id != sender]


def require_message(graph: Graph, message_id: str) -> Node:
    """A message that must exist.

    Raises:
        NotFound: there is none.
    """
    node = graph.node(message_id)
    if node is None or node.label != MESSAGE_LABEL:
        raise NotFound("there is no such message", message_id, hint="`wake-bridge inbox @ID` lists unread ones")
    return node


def mailbox_of(graph: Graph, identity: str) -> Iterator[Mail | UnreadableMail]:
    """What an identity has neither read nor put away, in the order it was sent; its own broadcasts are not.

    A row that cannot be read is set aside, and hides none behind it. Rows are loaded a few at a time.
    """
    for letter in graph.letters(identity):
        one = _mail(letter, identity)
        if isinstance(one, UnreadableMail) or (one and not one.is_read and not _is_own_broadcast(one)):
            yield one


def require_mail(graph: Graph, identity: str, message_id: str) -> Mail:
    """One message in an identity's mailbox, read or not.

    Raises:
        NotFound: there is no such message, or it is not addressed to the identity.
        OperationFailed: it cannot be read.
    """
    require_message(graph, message_id)
    for letter in graph.letters(identity, message_id):
        one = _mail(letter, identity)
        if isinstance(one, UnreadableMail):
            raise OperationFailed(f"the message cannot be read: {one.why}", one.row_id, hint=REPAIR)
        if one is not None:
            return one
    raise NotFound(
        f"the message is not addressed to {identity}", message_id, hint=f"try `wake-bridge inbox {identity}`"
    )


def mark_read(graph: WritableGraph, mails: Iterable[Mail], now: str) -> None:
    """Set `readAt` where each message's read state lies; one that was read before keeps its time."""
    for mail in mails:
        if mail.is_read or (mail.message.is_whole and graph.set_property(mail.table, mail.row_id, "readAt", now)):
            continue
        if mail.table == "Nodes":
            # what is too large cannot be changed: an edge of the recipient's own says it, as with a broadcast
            receipt = {"deliveredAt": now, "readAt": now, "deliveryKind": "direct", "userId": owner_of(mail.recipient)}
            graph.link(mail.message.id, mail.recipient, "DELIVERED_TO", receipt)


def _mail(letter: StoredLetter, identity: str) -> Mail | UnreadableMail | None:
    """The mail that an edge addresses; None where it starts from something else."""
    message, edge, message_id = letter.message, letter.edge, letter.message_id
    if isinstance(message, Unreadable):
        return UnreadableMail(message_id, message_id, str(message))
    if message.label != MESSAGE_LABEL:
        return None
    if isinstance(edge, Unreadable):
        return UnreadableMail(message_id, letter.edge_id, str(edge))
    by_edge = letter.kind == "DELIVERED_TO"
    if isinstance(unusable := message_from(message_id, message.properties), Unusable):
        return UnreadableMail(message_id, message_id, unusable.why)
    return Mail(
        Node(message_id, MESSAGE_LABEL, dict(message.properties), is_whole=message.is_whole),
        "Edges" if by_edge else "Nodes",
        letter.edge_id if by_edge else message_id,
        is_read=read_mark(edge.properties if by_edge else message.properties) is not None,
        recipient=identity,
    )


def _is_own_broadcast(mail: Mail) -> bool:
    properties = mail.message.properties
    return properties.get("to") == BROADCAST and properties.get("from") == mail.recipient


def _message(graph: Graph, draft: Draft, thread: str | None, tags: tuple[str, ...], now: str) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "name": draft.subject,
        "description": "",
        "subject": draft.subject,
        "bodyText": draft.body,
        "priority": draft.priority.value,
        "sentAt": now,
        "readAt": None,
        "from": draft.sender,
        "to": draft.recipient,
        "inReplyTo": draft.reply_to,
        "partOfThread": thread,
        "taggedConcepts": list(tags),
        "wakeSuppressed": draft.suppress_wake,
        "userId": owner_of(draft.sender),
        "sharedEntity": True,
    }
    if draft.policy is not None:
        properties["wakePolicy"] = draft.policy.value
    if draft.window is not None:
        properties["wakeWindow"] = draft.window
    if draft.ack_within is not None:
        properties["ackWithin"] = draft.ack_within
    if draft.is_task:
        direct = draft.recipient != BROADCAST
        properties["task"] = {"state": "Submitted", **({"assignee": draft.recipient} if direct else {})}
        # services that write typed task rows trust an assignee only with this mark beside it
        if direct and graph.has_events:
            properties["taskAssignmentAuthority"] = ASSIGNMENT_AUTHORITY
    return properties


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


@dataclass(frozen=True, slots=True)
class TaskMove:
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


def move_task(graph: WritableGraph, task_id: str, new_state: str, actor: str, now: str) -> TaskMove:
    """Move a task if `actor` has the right, guarded against a move made meanwhile.

    A broadcast task is taken by whoever of its recipients moves it to Working first. Where the graph has typed rows,
    the row for this move is part of the same transaction.

    Raises:
        NotFound: no such message, or it is no task.
        OperationFailed: the actor has no right to this move, or somebody else moved the task first.
    """
    task = _read(graph, task_id)
    _check_right(graph, task, new_state, actor)
    claims = task.is_broadcast and (task.state, new_state) == ("Submitted", "Working")
    assignee = actor if claims else task.assignee
    with graph.transaction():
        changed = {"task.state": new_state, "task.assignee": assignee, "lastModifiedAt": now}
        if graph.has_events:
            changed["taskAssignmentAuthority"] = ASSIGNMENT_AUTHORITY
        moved = graph.move_task(task_id, task.state, changed)
        if moved and graph.has_events:
            _append_typed_row(graph, task, new_state, assignee, now)
    if not moved:
        raise OperationFailed("somebody else moved the task first", task_id, hint="read the task again, then decide")
    # the services write the node once more after the guarded move: two rows for one move
    graph.rewrite(task_id)
    return TaskMove(task_id, task.state, new_state)


def grant(graph: WritableGraph, scope: str, grantee: str, granter: str) -> str:
    """Give `grantee` a right over `granter`'s things; granting again reinforces the edge.

    Returns:
        The edge's id. It runs from the grantee to the granter, and carries no time.
    """
    return graph.link(grantee, granter, scope, {"userId": owner_of(granter)})


def _read(graph: Graph, task_id: str) -> _Task:
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


def _check_right(graph: Graph, task: _Task, new_state: str, actor: str) -> None:
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


def _may_claim(graph: Graph, task: _Task, actor: str) -> bool:
    """An open broadcast task belongs to whoever of its recipients comes first."""
    if not task.is_broadcast or task.state != "Submitted" or actor == task.originator:
        return False
    recipients = {edge.target for edge in graph.edges("DELIVERED_TO", source=task.message.id)}
    return not recipients or actor in recipients


def _append_typed_row(graph: WritableGraph, task: _Task, new_state: str, assignee: str | None, now: str) -> None:
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
    graph.append_event(task.message.id, "task_state_changed", str(uuid.uuid4()), payload)
