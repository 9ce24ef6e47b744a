"""The change log on stdlib `sqlite3`; each measured trap is in docs/sqlite-notes.md with its test."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from wake_bridge.domain.facts import EDGE_TYPES
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.ports.change_log import (
    IDENTITY_LABELS,
    BrokenRow,
    Census,
    EdgeRow,
    IdentityRow,
    Json,
    LogBounds,
    LogEntry,
    MailState,
    Page,
    Traces,
)
from wake_bridge.storage.graph import unread
from wake_bridge.storage.graph.pieces import (
    EDGE_COLUMNS,
    NODES,
    edge_columns,
    keys_of,
    message_or_none,
    node_at,
    node_row,
    rows_of,
    unless_too_large,
    value_at,
    walk,
)
from wake_bridge.storage.graph.rows import Large, RowReader, Stored, stored_or_none, text, traces_among, without_body
from wake_bridge.storage.graph.source import Rows, SqliteSource
from wake_bridge.system.clock import timestamp_of_instant

PAGE_BYTES: Final = 16 * 1024 * 1024
"""What one page may hold in memory: a thousand messages of a megabyte each must not."""

_EDGE_TYPES: Final = ", ".join(f"'{name}'" for name in sorted(EDGE_TYPES))

# json_extract fails the whole statement on one broken row: it stands behind json_valid, inside a CASE
_ROWS: Final = """
    SELECT g.log_id, g.entity_type, g.entity_id, {events},
        n.id, n.data, e.id, e.source, e.target, e.type, e.data, m.id, m.data
    FROM GraphLog g
    LEFT JOIN Nodes n ON g.entity_type = 'nodes' AND n.id = g.entity_id
    LEFT JOIN Edges e ON g.entity_type = 'edges' AND e.id = g.entity_id
    LEFT JOIN Nodes m ON m.id = CASE
        WHEN g.entity_type = 'task_state_changed' THEN g.entity_id
        WHEN e.type IN ('SENT_TO', 'DELIVERED_TO') THEN e.source
    END
"""
_NODE_IS_NEWS: Final = """
    CASE WHEN typeof(n.data) <> 'text' OR NOT json_valid(n.data) THEN 1
        ELSE CASE json_extract(n.data, '$.label')
            WHEN 'WAKE_SUBSCRIPTION' THEN 1
            WHEN 'AgentIdentity' THEN 1
            WHEN 'AGENT' THEN 1
            WHEN 'MESSAGE' THEN json_type(n.data, '$.properties.task') = 'object'
            ELSE json_type(n.data) <> 'object'
        END
    END
"""
_EDGE_IS_NEWS: Final = f"e.type IN ({_EDGE_TYPES})"
_NEWS: Final = f"""
    WHERE g.log_id > ?1 AND g.log_id <= ?2 AND CASE g.entity_type
        WHEN 'nodes' THEN CASE
            WHEN n.id IS NULL THEN g.entity_id GLOB 'WAKE_SUB:*' OR g.entity_id GLOB '@*'
            ELSE {_NODE_IS_NEWS}
        END
        WHEN 'edges' THEN {_EDGE_IS_NEWS}
        ELSE g.entity_type IN ('heartbeat_pulse', 'task_state_changed')
    END
"""
_RELEVANT: Final = f"{_NEWS} ORDER BY g.log_id"
# what a page added lies side by side in its table: what is no news there is not looked for by id. A range longer than the page is
# left alone, and ids are compared to the byte, for the log's own collation may take two of them for one
_PAGE: Final = f"""{_NEWS}
    AND (g.entity_type <> 'nodes' OR (g.entity_id COLLATE BINARY IN (
        SELECT n.id FROM Nodes n WHERE n.rowid > ?3 AND n.rowid <= ?4 AND ?4 - ?3 <= ?7 AND ({_NODE_IS_NEWS}) IS NOT TRUE
    )) IS NOT TRUE)
    AND (g.entity_type <> 'edges' OR (g.entity_id COLLATE BINARY IN (
        SELECT e.id FROM Edges e WHERE e.rowid > ?5 AND e.rowid <= ?6 AND ?6 - ?5 <= ?7 AND ({_EDGE_IS_NEWS}) IS NOT TRUE
    )) IS NOT TRUE)
    ORDER BY g.log_id
"""  # noqa: S608 - ours
# how far a table had grown at a row of the log: what was added last is among the few rows before, or nobody knows
_NEWEST: Final = """
    (SELECT MAX(rowid) FROM {table} WHERE id IN (
        SELECT entity_id FROM GraphLog WHERE log_id > {upto} - 8 AND log_id <= {upto} AND entity_type = '{kind}'))
"""
_ADDED: Final = "SELECT " + ", ".join(
    _NEWEST.format(table=table, kind=table.lower(), upto=upto) for table in ("Nodes", "Edges") for upto in ("?1", "?2")
)
_ABOUT: Final = """
    WHERE g.entity_id = ?1 OR g.entity_id IN (SELECT id FROM Edges WHERE source = ?1)
    ORDER BY g.log_id
"""
_THAT: Final = "WHERE g.log_id > ? AND g.log_id <= ?"
_TOUCHED: Final = """
    SELECT entity_id FROM GraphLog WHERE log_id > ?1 AND log_id <= ?2
    UNION SELECT e.source FROM GraphLog g JOIN Edges e ON e.id = g.entity_id
    WHERE g.log_id > ?1 AND g.log_id <= ?2 AND g.entity_type = 'edges' AND e.type IN ('SENT_TO', 'DELIVERED_TO')
"""
PRESENCE_LABEL: Final = "HARNESS_PRESENCE"
_PRESENCES: Final = """
    SELECT rowid FROM Nodes WHERE id >= 'HARNESS_PRESENCE:' AND id < 'HARNESS_PRESENCE;'
    AND CASE WHEN json_valid(data) THEN json_extract(data, '$.properties.lastSeenAt') >= ? ELSE 0 END
"""
_WITH_EVENTS: Final = _ROWS.format(events="g.event_id, g.event_payload")
_WITHOUT_EVENTS: Final = _ROWS.format(events="NULL, NULL")

_NO_NODE: Final = (None, None)
_NO_EDGE: Final = (None,) * 5
_SOURCE: Final = EDGE_COLUMNS.index("source")
_TYPE: Final = EDGE_COLUMNS.index("type")

_ENDS: Final = "(SELECT MIN(log_id) FROM GraphLog), (SELECT MAX(log_id) FROM GraphLog)"


class SqliteGraph:
    """`ports.change_log.ChangeLog` on a graph file; opened on first use, read-only.

    Questions (everything but the log itself) always look at the file that lies at the path now.
    """

    def __init__(self, path: Path) -> None:
        self._source = SqliteSource(path)

    # -- the log -------------------------------------------------------------------------------------------------

    def read_after(self, cursor: LogId, limit: int, snapshot: str = "") -> Page:  # noqa: ARG002 - ids are in order here
        """See `ChangeLog.read_after`. Irrelevant rows are dismissed inside SQLite; page and nodes are one snapshot."""
        with self._source.snapshot():
            (last, examined), *_ = self._source.query(
                "SELECT MAX(log_id), COUNT(*) FROM (SELECT log_id FROM GraphLog WHERE log_id > ? ORDER BY log_id LIMIT ?)",
                cursor,
                limit,
            )
            if not examined:
                return Page((), (), cursor, "", 0)
            found = unless_too_large(lambda: self._page(cursor, last, examined, limit))
            rows, are_all = found or self._row_by_row(cursor, last)
            upto = LogId(last if are_all else rows[-1][0])
            fingerprint = self.fingerprint_at(upto)
        reader = RowReader()
        entries = [reader.entry(row) for row in rows]
        return Page(
            entries=tuple(entry for entry in entries if isinstance(entry, LogEntry)),
            broken=tuple(entry for entry in entries if isinstance(entry, BrokenRow)),
            upto=upto,
            fingerprint=fingerprint or "",
            examined=examined if are_all else limit,
        )

    def bounds(self) -> LogBounds:
        """See `ChangeLog.bounds`."""
        (lowest, highest), *_ = self._source.query(f"SELECT {_ENDS}")
        return LogBounds(LogId(lowest or 0), LogId(max(highest or 0, self._ever_given())))

    def fingerprint_at(self, log_id: LogId) -> str | None:
        """See `ChangeLog.fingerprint_at`."""
        rows = self._source.query("SELECT entity_type, entity_id FROM GraphLog WHERE log_id = ?", log_id)
        return f"{text(rows[0][0])}:{text(rows[0][1])}" if rows else None

    def is_embedded(self) -> bool:
        """See `ChangeLog.is_embedded`."""
        return self._source.is_embedded()

    def version(self) -> tuple[int, int, int]:
        """See `ChangeLog.version`."""
        return (*self._source.file_at_path(), self._source.commits_seen())

    def heal(self) -> bool:
        """See `ChangeLog.heal`."""
        return self._source.heal()

    def reopen(self) -> None:
        """See `ChangeLog.reopen`."""
        self._source.reopen()

    def census(self) -> Census:
        """See `ChangeLog.census`."""
        self._source.refresh()
        with self._source.snapshot():
            tip = self.bounds().highest
            fingerprint = self.fingerprint_at(tip)
            tasks = walk(self._source, "data GLOB '*MESSAGE*' AND data GLOB '*\"task\"*'", _task)
        return Census(tip, fingerprint or "", tuple(tasks))

    def logged_before(self, edge_ids: Collection[str], upto: LogId, snapshot: str = "") -> frozenset[str]:  # noqa: ARG002 - as above
        """See `ChangeLog.logged_before`. No index helps: it is asked for rare edges, and walks the log once for all."""
        rows = self._source.query(
            "SELECT DISTINCT entity_id FROM GraphLog WHERE log_id <= ? AND entity_type = 'edges'"
            " AND entity_id IN (SELECT value FROM json_each(?))",
            upto,
            json.dumps(sorted(edge_ids)),
        )
        return frozenset(text(row[0]) for row in rows)

    def typed_tasks_after(self, log_id: LogId) -> frozenset[str]:
        """See `ChangeLog.typed_tasks_after`."""
        if not self._source.has_events():
            return frozenset()
        rows = self._source.query(
            "SELECT DISTINCT entity_id FROM GraphLog WHERE log_id > ? AND entity_type = 'task_state_changed'", log_id
        )
        return frozenset(text(row[0]) for row in rows)

    def note_reader(self, reader: str, cursor: LogId, snapshot: str) -> None:
        """See `ChangeLog.note_reader`; who prunes the file reads `lastSyncId`."""

    def close(self) -> None:
        """See `ChangeLog.close`."""
        self._source.close()

    # -- questions -----------------------------------------------------------------------------------------------

    def subscriptions(self) -> list[tuple[str, Json]]:
        """See `ChangeLog.subscriptions`."""
        self._source.refresh()
        # GLOB walks through all nodes three times as fast as instr
        return walk(self._source, "data GLOB ?", _subscription, f"*{SUBSCRIPTION_LABEL}*")

    def subscription(self, subscription_id: str) -> Json | None:
        """See `ChangeLog.subscription`."""
        node = self._node(subscription_id)
        return node.properties if node and node.label == SUBSCRIPTION_LABEL and node.is_whole else None

    def identities(self, only: Identity | None = None) -> Mapping[Identity, IdentityRow]:
        """See `ChangeLog.identities`."""
        self._source.refresh()
        if only is not None:
            keys = keys_of(self._source, "SELECT rowid FROM Nodes WHERE id = ? AND id >= '@' AND id < 'A'", only)
        else:
            # '@' to just before 'A': a range of the primary key instead of a walk through all nodes
            keys = keys_of(self._source, "SELECT rowid FROM Nodes WHERE id >= '@' AND id < 'A'")
        rows = rows_of(self._source, keys, NODES, lambda key: node_row(self._source, key))
        nodes = ((text(node_id), stored_or_none(data)) for node_id, data in rows)
        return {
            Identity(node_id): IdentityRow.from_node(node_id, node.properties)
            for node_id, node in nodes
            if node and node.label in IDENTITY_LABELS
        }

    def node(self, node_id: str) -> Json | None:
        """See `ChangeLog.node`."""
        found = self._node(node_id)
        return found.properties if found else None

    def has_audience(self, message_id: str) -> bool:
        """See `ChangeLog.has_audience`."""
        self._source.refresh()
        return bool(
            self._source.query("SELECT 1 FROM Edges WHERE source = ? AND type = 'DELIVERED_TO' LIMIT 1", message_id)
        )

    def mail_states(self, pairs: Sequence[tuple[str, Identity]]) -> Mapping[tuple[str, Identity], MailState]:
        """See `ChangeLog.mail_states`."""
        self._source.refresh()
        return unread.mail_states(self._source, pairs)

    def edges_present(self, edge_ids: Sequence[str]) -> set[str]:
        """See `ChangeLog.edges_present`."""
        self._source.refresh()
        rows = self._source.query(
            "SELECT id FROM Edges WHERE id IN (SELECT value FROM json_each(?))", json.dumps(list(edge_ids))
        )
        return {text(row[0]) for row in rows}

    def unread_mail(self, identity: Identity, since: Instant | None) -> list[tuple[str, Json, EdgeRow]]:
        """See `ChangeLog.unread_mail`."""
        self._source.refresh()
        return unread.unread_mail(self._source, identity, since)

    def presences(self, since: Instant) -> list[Json]:
        """See `ChangeLog.presences`; the ids begin alike, so they are a range of the primary key."""
        self._source.refresh()
        # there is one for each start of a server, and nobody deletes them
        keys = keys_of(self._source, _PRESENCES, timestamp_of_instant(since))
        rows = rows_of(self._source, keys, NODES, lambda key: node_row(self._source, key))
        nodes = (stored_or_none(data) for _, data in rows)
        return [node.properties for node in nodes if node and node.label == PRESENCE_LABEL]

    def recent_mail(self, since: Instant) -> list[str]:
        """See `ChangeLog.recent_mail`."""
        self._source.refresh()
        return unread.recent_mail(self._source, since)

    def mail_edges(self, message_ids: Sequence[str]) -> list[LogEntry]:
        """See `ChangeLog.mail_edges`."""
        self._source.refresh()
        return unread.mail_edges(self._source, message_ids)

    def traces_of(self, entity_id: str) -> Traces:
        """See `ChangeLog.traces_of`."""
        node = self._node(entity_id)
        with self._source.snapshot():
            about = self._rows_with(_ABOUT)
            rows = unless_too_large(lambda: self._source.query(about, entity_id))
            if rows is None:
                log_ids = keys_of(self._source, f"SELECT g.log_id FROM GraphLog g {_ABOUT}", entity_id)  # noqa: S608 - ours
                rows, _ = self._one_by_one(self._rows_with(_THAT), log_ids)
            edges = unread.edges_from(self._source, entity_id)
        return traces_among(node, rows, edges)

    def touched(self, after: LogId, upto: LogId) -> set[str]:
        """See `ChangeLog.touched`."""
        return {text(row[0]) for row in self._source.query(_TOUCHED, after, upto)}

    # -- below ---------------------------------------------------------------------------------------------------

    def _rows_with(self, condition: str) -> str:
        """The question for log rows and what they point at, in the form this file's log has."""
        return (_WITH_EVENTS if self._source.has_events() else _WITHOUT_EVENTS) + condition

    def _ever_given(self) -> int:
        """The highest `log_id` SQLite remembers to have given, pruned or not; 0 where it keeps no count."""
        if not self._source.query("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"):
            return 0
        rows = self._source.query("SELECT seq FROM sqlite_sequence WHERE name = 'GraphLog'")
        return rows[0][0] if rows and isinstance(rows[0][0], int) else 0

    def _node(self, node_id: str) -> Stored | None:
        self._source.refresh()
        found = node_at(self._source, node_id)
        return message_or_none(self._source, node_id, found[1]) if found else None

    def _page(self, cursor: LogId, last: LogId, examined: int, limit: int) -> tuple[Rows, bool]:
        """The relevant rows of a page, as `query_within` answers them."""
        if examined < limit:
            # few rows are found by id at once, and what lies between two of them may be the whole graph
            return self._source.query_within(PAGE_BYTES, self._rows_with(_RELEVANT), cursor, last)
        added, *_ = self._source.query(_ADDED, cursor, last)
        return self._source.query_within(PAGE_BYTES, self._rows_with(_PAGE), cursor, last, *added, limit)

    def _row_by_row(self, cursor: LogId, last: LogId) -> tuple[Rows, bool]:
        """A page in which something is too large, as `query_within` answers it."""
        log_ids = "SELECT log_id FROM GraphLog WHERE log_id > ? AND log_id <= ? ORDER BY log_id"
        return self._one_by_one(self._rows_with(_RELEVANT), keys_of(self._source, log_ids, cursor, last))

    def _one_by_one(self, query: str, log_ids: Sequence[int]) -> tuple[Rows, bool]:
        """The rows of a question for those between two log ids, each asked for by itself; whether these are all."""
        rows: Rows = []
        size = 0
        for log_id in log_ids:
            alone = unless_too_large(lambda: self._source.query(query, log_id - 1, log_id))  # noqa: B023 - called at once
            some = self._described(log_id) if alone is None else alone
            rows += some
            size += sum(len(value) for row in some for value in row if isinstance(value, bytes))
            if size > PAGE_BYTES:
                return rows, log_id == log_ids[-1]
        return rows, True

    def _described(self, log_id: int) -> Rows:
        """The row of the log that cannot be loaded with what it points at, in the form of the page; nothing if it is no news."""
        columns = ("entity_type", "entity_id", *(("event_id", "event_payload") if self._source.has_events() else ()))
        entity_type, entity_id, *event = (value_at(self._source, "GraphLog", log_id, name) for name in columns)
        if isinstance(entity_id, Large):
            return []
        head = (log_id, entity_type, entity_id, *(event or (None, None)))
        match entity_type:
            case b"nodes" if _is_news(entity_id, node := node_at(self._source, entity_id)):
                return [(*head, entity_id, node and node[1], *_NO_EDGE, *_NO_NODE)]
            case b"edges":
                edges = keys_of(self._source, "SELECT rowid FROM Edges WHERE id = CAST(? AS TEXT)", entity_id)
                for rowid in edges:
                    edge = edge_columns(self._source, rowid)
                    if text(edge[_TYPE]) in EDGE_TYPES:
                        return [(*head, *_NO_NODE, *edge, *self._message(edge[_SOURCE]))]
            case b"task_state_changed":
                return [(*head, *_NO_NODE, *_NO_EDGE, *self._message(entity_id))]
        return []

    def _message(self, message_id: object) -> tuple[object, object]:
        """Id and JSON of the message that a row is about; as `Stored` where it is too large."""
        found = None if isinstance(message_id, Large) else node_at(self._source, message_id)
        if found is None:
            return _NO_NODE
        message = message_or_none(self._source, text(message_id), found[1])
        return message_id, message if message is not None else found[1]


def _is_news(node_id: object, node: tuple[int, object] | None) -> bool:
    """Whether a node that cannot be loaded may be a subscription or an identity; of a message, its mail edges tell."""
    head = stored_or_none(node[1]) if node is not None else None
    label = head.label if head is not None else ""
    return label in {SUBSCRIPTION_LABEL, *IDENTITY_LABELS} or text(node_id).startswith(("WAKE_SUB:", "@"))


def _subscription(node_id: object, data: object) -> tuple[str, Json] | None:
    node = stored_or_none(data)
    return (text(node_id), node.properties) if node and node.label == SUBSCRIPTION_LABEL else None


def _task(node_id: object, data: object) -> tuple[str, Json] | None:
    node = stored_or_none(data)
    if node is None or node.label != MESSAGE_LABEL or not node.properties.get("task"):
        return None
    return text(node_id), without_body(node).properties
