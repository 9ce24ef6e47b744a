"""Finds unread mail in the graph: by the recipient's own edge, or by the node if there is none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from wake_bridge.domain.messages import MESSAGE_LABEL, read_mark, text_of
from wake_bridge.domain.names import BROADCAST, Identity, Instant, LogId, parse_instant
from wake_bridge.ports.change_log import EdgeRow, Json, LogEntry, MailState
from wake_bridge.storage.graph.pieces import (
    LETTERS,
    NODES,
    UNMARKED,
    edge_columns,
    keys_of,
    letter,
    message_or_none,
    node_row,
    rows_of,
    walk,
)
from wake_bridge.storage.graph.rows import Stored, edge_row, stored_or_none, text, without_body
from wake_bridge.storage.graph.source import SqliteSource

_NO_ROW: Final = LogId(0)
GONE: Final = MailState(exists=False, addressed=False, is_read=False)
"""Of a message that is not there."""

_MAIL: Final = "SELECT id, source, target, type, data FROM Edges WHERE rowid IN (SELECT value FROM json_each(?1))"
_MAIL_OF: Final = """
    SELECT rowid FROM Edges WHERE source IN (SELECT value FROM json_each(?)) AND type IN ('SENT_TO', 'DELIVERED_TO')
"""
_ADDRESSED: Final = """
    SELECT e.rowid FROM Edges e
    WHERE e.target IN (?, 'AGENT:*') AND e.type IN ('SENT_TO', 'DELIVERED_TO')
    AND NOT (e.target = 'AGENT:*' AND EXISTS (SELECT 1 FROM Edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO'))
    ORDER BY e.rowid
"""
_SENT: Final = """
    SELECT e.rowid FROM json_each(?) wanted CROSS JOIN Edges e ON e.source = wanted.value
    WHERE e.type IN ('SENT_TO', 'DELIVERED_TO') ORDER BY wanted.key, e.rowid
"""
_UNREAD: Final = f"""{LETTERS}
    WHERE CASE WHEN json_valid(n.data) THEN
        e.type = 'DELIVERED_TO' OR COALESCE(json_extract(n.data, '$.properties.readAt'), '') {UNMARKED}
    ELSE 1 END
"""
_RECENT: Final = """
    instr(data, 'MESSAGE') AND CASE WHEN json_valid(data) THEN
        json_extract(data, '$.label') = 'MESSAGE' AND json_extract(data, '$.properties.sentAt') >= ?
    END
"""


def mail_states(
    source: SqliteSource, pairs: Sequence[tuple[str, Identity]]
) -> Mapping[tuple[str, Identity], MailState]:
    """See `ChangeLog.mail_states`."""
    ids = json.dumps(sorted({message_id for message_id, _ in pairs}))
    with source.snapshot():
        nodes = keys_of(source, "SELECT rowid FROM Nodes WHERE id IN (SELECT value FROM json_each(?))", ids)
        messages = {
            text(node_id): _read_state(message_or_none(source, text(node_id), data))
            for node_id, data in rows_of(source, nodes, NODES, lambda key: node_row(source, key))
        }
        keys = keys_of(source, _MAIL_OF, ids)
        edges = [_edge(row) for row in rows_of(source, keys, _MAIL, lambda key: edge_columns(source, key))]
    return states_among(messages, edges, pairs)


def states_among(
    messages: Mapping[str, Stored | None], edges: Iterable[EdgeRow], pairs: Iterable[tuple[str, Identity]]
) -> dict[tuple[str, Identity], MailState]:
    """How each message stands for each identity, by all messages that are there and their edges."""
    mail: dict[str, list[EdgeRow]] = {message_id: [] for message_id in messages}
    for edge in edges:
        mail.setdefault(edge.source, []).append(edge)
    return {
        (message_id, identity): mail_state(messages[message_id], mail[message_id], identity)
        if message_id in messages
        else GONE
        for message_id, identity in pairs
    }


def unread_mail(source: SqliteSource, identity: Identity, since: Instant | None) -> list[tuple[str, Json, EdgeRow]]:
    """See `ChangeLog.unread_mail`."""
    return unread_among(_letters(source, keys_of(source, _ADDRESSED, identity), _UNREAD), identity, since)


def unread_among(
    letters: Iterable[tuple[str, Json, EdgeRow]], identity: Identity, since: Instant | None
) -> list[tuple[str, Json, EdgeRow]]:
    """Which of the letters that an identity was sent are unread, oldest first; those sent before `since` are left out."""
    unread: list[tuple[str, Json, EdgeRow]] = []
    for message_id, message, edge in letters:
        carrier = edge.properties if edge.type == "DELIVERED_TO" else message
        sent_at = parse_instant(message.get("sentAt"))
        is_own_broadcast = edge.target == BROADCAST and text_of(message.get("from")) == identity
        is_recent = since is None or (sent_at is not None and sent_at >= since)
        if read_mark(carrier) is None and is_recent and not is_own_broadcast:
            unread.append((message_id, message, edge))
    return sorted(unread, key=lambda mail: parse_instant(mail[1].get("sentAt")) or 0)


def recent_mail(source: SqliteSource, since: Instant) -> list[str]:
    """See `ChangeLog.recent_mail`."""

    def sent(node_id: object, data: object) -> tuple[int, str] | None:
        message = message_or_none(source, text(node_id), data)
        if message is None or message.label != MESSAGE_LABEL:
            return None
        return parse_instant(message.properties.get("sentAt")) or 0, text(node_id)

    return recent_among(
        walk(source, _RECENT, sent, day_before(since), large=lambda key: sent(*node_row(source, key))), since
    )


def day_before(since: Instant) -> str:
    """What times are compared with as texts: a day of slack, for those written with an offset; `recent_among` is exact."""
    return f"{datetime.fromtimestamp(since / 1000, UTC) - timedelta(days=1):%Y-%m-%d}"


def recent_among(sent: Iterable[tuple[int, str]], since: Instant) -> list[str]:
    """The ids of those sent since then, oldest first; each comes with its time."""
    return [message_id for sent_at, message_id in sorted(sent, key=itemgetter(0)) if sent_at >= since]


def mail_edges(source: SqliteSource, message_ids: Sequence[str]) -> list[LogEntry]:
    """See `ChangeLog.mail_edges`."""
    return [
        LogEntry(_NO_ROW, "edges", edge.id, edge=edge, message=message)
        for _, message, edge in _letters(source, keys_of(source, _SENT, json.dumps(list(message_ids))), LETTERS)
    ]


def edges_from(source: SqliteSource, entity_id: str) -> list[EdgeRow]:
    """The edges that start from a node, or the edge of that id; oldest first."""
    keys = keys_of(source, "SELECT rowid FROM Edges WHERE source = ?1 OR id = ?1", entity_id)
    return [_edge(row) for row in rows_of(source, keys, _MAIL, lambda key: edge_columns(source, key))]


def _letters(source: SqliteSource, keys: Sequence[int], statement: str) -> Iterator[tuple[str, Json, EdgeRow]]:
    """Message id, message (without its body) and edge, by the edges' rowids, where both can be read."""
    for message_id, data, *columns in rows_of(source, keys, statement, lambda key: letter(source, key)):
        message, edge = message_or_none(source, text(message_id), data), stored_or_none(columns[-1])
        if message and message.label == MESSAGE_LABEL and edge and edge.is_whole:
            yield text(message_id), without_body(message).properties, _edge(columns)


def _read_state(message: Stored | None) -> Stored | None:
    """What is needed of a message to say whether it was read: hundreds are asked for at once."""
    if message is None:
        return None
    kept = {name: message.properties.get(name) for name in ("from", "readAt", "archivedAt")}
    return Stored(message.label, kept)


def _edge(columns: Sequence[Any]) -> EdgeRow:
    """An edge; without properties if they cannot be read."""
    edge_id, source, target, kind, data = columns
    kept = stored_or_none(data)
    return edge_row(edge_id, source, target, kind, kept.properties if kept else {})


def mail_state(message: Stored | None, edges: Sequence[EdgeRow], identity: Identity) -> MailState:
    """How a message that is there stands for an identity, by itself (None where it cannot be read) and its mail edges."""
    if message is not None and message.label != MESSAGE_LABEL:
        return GONE
    properties: Json = message.properties if message else {}
    delivered = [edge for edge in edges if edge.type == "DELIVERED_TO"]
    own = [edge for edge in delivered if edge.target == identity]
    if own:
        is_read = any(read_mark(edge.properties) is not None for edge in own)
        return MailState(exists=True, addressed=True, is_read=is_read)
    targets = {edge.target for edge in edges if edge.type == "SENT_TO"}
    is_open = BROADCAST in targets and not delivered and text_of(properties.get("from")) != identity
    return MailState(exists=True, addressed=identity in targets or is_open, is_read=read_mark(properties) is not None)
