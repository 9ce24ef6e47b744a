"""Whose mail is unread, read of the graph: by the recipient's own edge first, by the node else (DESIGN §2)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from wake_bridge.domain.instants import parse_instant
from wake_bridge.domain.messages import MESSAGE_LABEL, read_mark, text_of
from wake_bridge.domain.names import BROADCAST, Identity, Instant, LogId
from wake_bridge.edges.change_log.sqlite_rows import Stored, edge_row, stored_or_none, text
from wake_bridge.edges.change_log.sqlite_source import Rows, SqliteSource
from wake_bridge.ports.change_log import EdgeRow, Json, LogEntry, MailState

_NO_ROW: Final = LogId(0)
_GONE: Final = MailState(exists=False, addressed=False, is_read=False)

_UNREAD: Final = """
    SELECT n.id, n.data, e.id, e.source, e.target, e.type, e.data FROM Edges e JOIN Nodes n ON n.id = e.source
    WHERE e.target IN (?, 'AGENT:*') AND e.type IN ('SENT_TO', 'DELIVERED_TO')
    AND CASE WHEN typeof(n.data) = 'text' AND json_valid(n.data) THEN
        json_extract(n.data, '$.label') = 'MESSAGE'
        AND (e.type = 'DELIVERED_TO' OR json_extract(n.data, '$.properties.readAt') IS NULL)
    END
    AND NOT (e.target = 'AGENT:*' AND EXISTS (SELECT 1 FROM Edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO'))
    ORDER BY e.rowid
"""
_RECENT: Final = """
    SELECT id, json_extract(data, '$.properties.sentAt') FROM Nodes
    WHERE instr(data, 'MESSAGE') AND CASE WHEN typeof(data) = 'text' AND json_valid(data) THEN
        json_extract(data, '$.label') = 'MESSAGE' AND json_extract(data, '$.properties.sentAt') >= ?
    END
    ORDER BY rowid
"""
_EDGES_OF: Final = """
    SELECT n.id, n.data, e.id, e.source, e.target, e.type, e.data
    FROM json_each(?) wanted JOIN Nodes n ON n.id = wanted.value JOIN Edges e ON e.source = n.id
    WHERE e.type IN ('SENT_TO', 'DELIVERED_TO')
    ORDER BY wanted.key, e.rowid
"""


def mail_states(
    source: SqliteSource, pairs: Sequence[tuple[str, Identity]]
) -> Mapping[tuple[str, Identity], MailState]:
    """See `ChangeLog.mail_states`."""
    ids = json.dumps(sorted({message_id for message_id, _ in pairs}))
    with source.snapshot():
        nodes = source.query("SELECT id, data FROM Nodes WHERE id IN (SELECT value FROM json_each(?))", ids)
        edges = source.query(
            "SELECT id, source, target, type, data FROM Edges WHERE source IN (SELECT value FROM json_each(?))"
            " AND type IN ('SENT_TO', 'DELIVERED_TO')",
            ids,
        )
    messages = {text(node_id): stored_or_none(data) for node_id, data in nodes}
    mail: dict[str, list[EdgeRow]] = {message_id: [] for message_id in messages}
    for row in edges:
        edge = _edge(row)
        mail.setdefault(edge.source, []).append(edge)
    return {
        (message_id, identity): _mail_state(messages[message_id], mail[message_id], identity)
        if message_id in messages
        else _GONE
        for message_id, identity in pairs
    }


def unread_mail(source: SqliteSource, identity: Identity, since: Instant | None) -> list[tuple[str, Json, EdgeRow]]:
    """See `ChangeLog.unread_mail`."""
    unread: list[tuple[str, Json, EdgeRow]] = []
    for message_id, message, edge in _mail_in(source.query(_UNREAD, identity)):
        carrier = edge.properties if edge.type == "DELIVERED_TO" else message
        sent_at = parse_instant(message.get("sentAt"))
        is_own_broadcast = edge.target == BROADCAST and text_of(message.get("from")) == identity
        is_recent = since is None or (sent_at is not None and sent_at >= since)
        if read_mark(carrier) is None and is_recent and not is_own_broadcast:
            unread.append((message_id, message, edge))
    return sorted(unread, key=lambda mail: parse_instant(mail[1].get("sentAt")) or 0)


def recent_mail(source: SqliteSource, since: Instant) -> list[str]:
    """See `ChangeLog.recent_mail`."""
    # a day of slack, for times written with an offset; the exact comparison follows
    day_before = datetime.fromtimestamp(since / 1000, UTC) - timedelta(days=1)
    rows = source.query(_RECENT, f"{day_before:%Y-%m-%d}")
    recent = [(parse_instant(text(sent_at)) or 0, text(message_id)) for message_id, sent_at in rows]
    return [message_id for sent_at, message_id in sorted(recent, key=itemgetter(0)) if sent_at >= since]


def mail_edges(source: SqliteSource, message_ids: Sequence[str]) -> list[LogEntry]:
    """See `ChangeLog.mail_edges`."""
    return [
        LogEntry(_NO_ROW, "edges", edge.id, edge=edge, message=message)
        for _, message, edge in _mail_in(source.query(_EDGES_OF, json.dumps(list(message_ids))))
    ]


def _mail_in(rows: Rows) -> Iterator[tuple[str, Json, EdgeRow]]:
    """Message id, message and edge of each row in which both can be read."""
    for message_id, message_data, *edge_columns in rows:
        message, edge = stored_or_none(message_data), stored_or_none(edge_columns[-1])
        if message and edge:
            yield text(message_id), message.properties, _edge(edge_columns)


def _edge(columns: Sequence[Any]) -> EdgeRow:
    """An edge; without properties if they cannot be read."""
    edge_id, source, target, kind, data = columns
    kept = stored_or_none(data)
    return edge_row(edge_id, source, target, kind, kept.properties if kept else {})


def _mail_state(message: Stored | None, edges: Sequence[EdgeRow], identity: Identity) -> MailState:
    if message is not None and message.label != MESSAGE_LABEL:
        return _GONE
    properties: Json = message.properties if message else {}
    delivered = [edge for edge in edges if edge.type == "DELIVERED_TO"]
    own = [edge for edge in delivered if edge.target == identity]
    if own:
        is_read = any(read_mark(edge.properties) is not None for edge in own)
        return MailState(exists=True, addressed=True, is_read=is_read)
    targets = {edge.target for edge in edges if edge.type == "SENT_TO"}
    is_open = BROADCAST in targets and not delivered and text_of(properties.get("from")) != identity
    return MailState(exists=True, addressed=identity in targets or is_open, is_read=read_mark(properties) is not None)
