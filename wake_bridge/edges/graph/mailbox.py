"""Mail in the graph: sent in the real services' shapes and order, found unread, marked read (DESIGN §2)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import BROADCAST, Priority, WakePolicy
from wake_bridge.domain.subscriptions import plain_tag
from wake_bridge.domain.tasks import ASSIGNMENT_AUTHORITY
from wake_bridge.edges.graph.graph_file import GraphFile, Node, owner_of
from wake_bridge.edges.graph.graph_writer import GraphWriter
from wake_bridge.edges.graph.identity_nodes import IDENTITY_LABEL

_ADDRESSED: Final = """
    SELECT n.id, n.data, e.id, e.type, e.data
    FROM Edges e JOIN Nodes n ON n.id = e.source
    WHERE json_valid(n.data) AND json_valid(e.data) AND (
        (e.type = 'DELIVERED_TO' AND e.target = :identity)
        OR (e.type = 'SENT_TO' AND e.target = :identity AND NOT EXISTS (
            SELECT 1 FROM Edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO' AND d.target = :identity))
        OR (e.type = 'SENT_TO' AND e.target = 'AGENT:*' AND NOT EXISTS (
            SELECT 1 FROM Edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO')))
"""
_UNREAD: Final = f"""{_ADDRESSED}
    AND CASE WHEN json_valid(n.data) AND json_valid(e.data) THEN
        json_extract(CASE e.type WHEN 'DELIVERED_TO' THEN e.data ELSE n.data END, '$.properties.readAt') IS NULL
        AND json_extract(CASE e.type WHEN 'DELIVERED_TO' THEN e.data ELSE n.data END, '$.properties.archivedAt') IS NULL
    END ORDER BY e.rowid
"""
_ONE: Final = f"{_ADDRESSED} AND n.id = :message ORDER BY e.rowid"


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be sent. `window` are the seconds it may wait for company, None where the subscription decides."""

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


@dataclass(frozen=True, slots=True)
class Mail:
    """A message as it lies in somebody's mailbox.

    `table` and `row_id` say what carries its read state: the recipient's own edge for a broadcast, else the node.
    """

    message: Node
    table: Literal["Nodes", "Edges"]
    row_id: str
    is_read: bool


def send(graph: GraphWriter, draft: Draft, now: str) -> str:
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
            raise NotFound("the graph has no such node", end, hint="`wake-bridge agent list` shows who there is")
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


def audience(graph: GraphFile, sender: str) -> list[str]:
    """Who receives a broadcast: every agent but its sender, benched ones included."""
    agents = (node for node in graph.nodes(IDENTITY_LABEL) if node.properties.get("accountType") == "agent")
    return [node.id for node in agents if node.id != sender]


def require_message(graph: GraphFile, message_id: str) -> Node:
    """A message that must exist.

    Raises:
        NotFound: there is none.
    """
    node = graph.node(message_id)
    if node is None or node.label != MESSAGE_LABEL:
        raise NotFound("there is no such message", message_id, hint="`wake-bridge inbox @ID` lists unread ones")
    return node


def unread_mail_of(graph: GraphFile, identity: str) -> list[Mail]:
    """What an identity has neither read nor put away, in the order it was sent; its own broadcasts are not."""
    return [
        mail
        for row in graph.query(_UNREAD, {"identity": identity})
        if (mail := _mail(row)) is not None and not _is_own_broadcast(mail, identity)
    ]


def require_mail(graph: GraphFile, identity: str, message_id: str) -> Mail:
    """One message in an identity's mailbox, read or not.

    Raises:
        NotFound: there is no such message, or it is not addressed to the identity.
    """
    require_message(graph, message_id)
    for row in graph.query(_ONE, {"identity": identity, "message": message_id}):
        if (mail := _mail(row)) is not None:
            return mail
    raise NotFound(
        f"the message is not addressed to {identity}", message_id, hint=f"try `wake-bridge inbox {identity}`"
    )


def mark_read(graph: GraphWriter, mails: Iterable[Mail], now: str) -> None:
    """Set `readAt` where each message's read state lies; one that was read before keeps its time."""
    for mail in mails:
        if not mail.is_read:
            graph.set_property(mail.table, mail.row_id, "readAt", now)


def _mail(row: Sequence[Any]) -> Mail | None:
    node_id, node_data, edge_id, kind, edge_data = row
    node, edge = json.loads(node_data), json.loads(edge_data)
    if node.get("label") != MESSAGE_LABEL or not isinstance(node.get("properties"), dict):
        return None
    by_edge = kind == "DELIVERED_TO"
    carrier = (edge.get("properties") or {}) if by_edge else node["properties"]
    return Mail(
        Node(node_id, MESSAGE_LABEL, node["properties"]),
        "Edges" if by_edge else "Nodes",
        edge_id if by_edge else node_id,
        is_read=bool(carrier.get("readAt")),
    )


def _is_own_broadcast(mail: Mail, identity: str) -> bool:
    properties = mail.message.properties
    return properties.get("to") == BROADCAST and properties.get("from") == identity


def _message(graph: GraphFile, draft: Draft, thread: str | None, tags: tuple[str, ...], now: str) -> dict[str, Any]:
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
    if draft.is_task:
        direct = draft.recipient != BROADCAST
        properties["task"] = {"state": "Submitted", **({"assignee": draft.recipient} if direct else {})}
        # services that write typed task rows trust an assignee only with this mark beside it
        if direct and graph.has_events:
            properties["taskAssignmentAuthority"] = ASSIGNMENT_AUTHORITY
    return properties
