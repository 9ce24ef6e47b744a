"""The change log on stdlib `sqlite3` (DESIGN §2); each measured trap is in docs/sqlite-notes.md with its test."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from wake_bridge.domain.facts import EDGE_TYPES
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.edges.change_log import sqlite_mail
from wake_bridge.edges.change_log.sqlite_rows import RowReader, Stored, stored_or_none, text
from wake_bridge.edges.change_log.sqlite_source import SqliteSource
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
_RELEVANT: Final = f"""
    WHERE g.log_id > ? AND g.log_id <= ? AND CASE g.entity_type
        WHEN 'nodes' THEN CASE
            WHEN n.id IS NULL THEN g.entity_id GLOB 'WAKE_SUB:*' OR g.entity_id GLOB '@*'
            WHEN typeof(n.data) <> 'text' OR NOT json_valid(n.data) THEN 1
            ELSE CASE json_extract(n.data, '$.label')
                WHEN 'WAKE_SUBSCRIPTION' THEN 1
                WHEN 'AgentIdentity' THEN 1
                WHEN 'AGENT' THEN 1
                WHEN 'MESSAGE' THEN json_type(n.data, '$.properties.task') = 'object'
                ELSE json_type(n.data) <> 'object'
            END
        END
        WHEN 'edges' THEN e.type IN ({_EDGE_TYPES})
        ELSE g.entity_type IN ('heartbeat_pulse', 'task_state_changed')
    END
    ORDER BY g.log_id
"""
_ABOUT: Final = """
    WHERE g.entity_id = ?1 OR g.entity_id IN (SELECT id FROM Edges WHERE source = ?1)
    ORDER BY g.log_id
"""
_TOUCHED: Final = """
    SELECT entity_id FROM GraphLog WHERE log_id > ?1 AND log_id <= ?2
    UNION SELECT e.source FROM GraphLog g JOIN Edges e ON e.id = g.entity_id
    WHERE g.log_id > ?1 AND g.log_id <= ?2 AND g.entity_type = 'edges' AND e.type IN ('SENT_TO', 'DELIVERED_TO')
"""
_WITH_EVENTS: Final = _ROWS.format(events="g.event_id, g.event_payload")
_WITHOUT_EVENTS: Final = _ROWS.format(events="NULL, NULL")

_ENDS: Final = "(SELECT MIN(log_id) FROM GraphLog), (SELECT MAX(log_id) FROM GraphLog)"


class SqliteGraph:
    """`ports.change_log.ChangeLog` on a graph file; opened on first use, read-only.

    Questions (everything but the log itself) always look at the file that lies at the path now.
    """

    def __init__(self, path: Path) -> None:
        self._source = SqliteSource(path)

    # -- the log -------------------------------------------------------------------------------------------------

    def read_after(self, cursor: LogId, limit: int) -> Page:
        """See `ChangeLog.read_after`. Irrelevant rows are dismissed inside SQLite; page and nodes are one snapshot."""
        query = self._rows_with(_RELEVANT)
        with self._source.snapshot():
            (last, examined), *_ = self._source.query(
                "SELECT MAX(log_id), COUNT(*) FROM (SELECT log_id FROM GraphLog WHERE log_id > ? ORDER BY log_id LIMIT ?)",
                cursor,
                limit,
            )
            if not examined:
                return Page((), (), cursor, "", 0)
            rows, are_all = self._source.query_within(PAGE_BYTES, query, cursor, last)
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
            rows = self._source.query(
                "SELECT id, data FROM Nodes WHERE data GLOB '*MESSAGE*' AND data GLOB '*\"task\"*'"
            )
        tasks = ((text(node_id), _labelled(data, MESSAGE_LABEL)) for node_id, data in rows)
        known = tuple((task_id, properties) for task_id, properties in tasks if properties and properties.get("task"))
        return Census(tip, fingerprint or "", known)

    def logged_before(self, edge_ids: Collection[str], upto: LogId) -> frozenset[str]:
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

    def close(self) -> None:
        """See `ChangeLog.close`."""
        self._source.close()

    # -- questions -----------------------------------------------------------------------------------------------

    def subscriptions(self) -> list[tuple[str, Json]]:
        """See `ChangeLog.subscriptions`."""
        self._source.refresh()
        # GLOB walks through all nodes three times as fast as instr
        rows = self._source.query("SELECT id, data FROM Nodes WHERE data GLOB ?", f"*{SUBSCRIPTION_LABEL}*")
        found = ((text(node_id), _labelled(data, SUBSCRIPTION_LABEL)) for node_id, data in rows)
        return [(node_id, properties) for node_id, properties in found if properties is not None]

    def subscription(self, subscription_id: str) -> Json | None:
        """See `ChangeLog.subscription`."""
        node = self._node(subscription_id)
        return node.properties if node and node.label == SUBSCRIPTION_LABEL else None

    def identities(self) -> Mapping[Identity, IdentityRow]:
        """See `ChangeLog.identities`."""
        self._source.refresh()
        # '@' to just before 'A': a range of the primary key instead of a walk through all nodes
        rows = self._source.query("SELECT id, data FROM Nodes WHERE id >= '@' AND id < 'A'")
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
        return sqlite_mail.mail_states(self._source, pairs)

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
        return sqlite_mail.unread_mail(self._source, identity, since)

    def recent_mail(self, since: Instant) -> list[str]:
        """See `ChangeLog.recent_mail`."""
        self._source.refresh()
        return sqlite_mail.recent_mail(self._source, since)

    def mail_edges(self, message_ids: Sequence[str]) -> list[LogEntry]:
        """See `ChangeLog.mail_edges`."""
        self._source.refresh()
        return sqlite_mail.mail_edges(self._source, message_ids)

    def traces_of(self, entity_id: str) -> Traces:
        """See `ChangeLog.traces_of`."""
        node = self._node(entity_id)
        with self._source.snapshot():
            rows = self._source.query(self._rows_with(_ABOUT), entity_id)
            edges = sqlite_mail.edges_from(self._source, entity_id)
        reader = RowReader()
        read = [reader.entry(row) for row in rows]
        mentioned = {entry.entity_id for entry in read}
        message = node.properties if node and node.label == MESSAGE_LABEL else None
        unlogged = (
            LogEntry(LogId(0), "edges", edge.id, edge=edge, message=message)
            for edge in edges
            if edge.id not in mentioned
        )
        return Traces(
            entries=(*(one for one in read if isinstance(one, LogEntry)), *unlogged),
            broken=tuple(one for one in read if isinstance(one, BrokenRow)),
            label=node.label if node else "",
            properties=node.properties if node else None,
        )

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
        rows = self._source.query("SELECT data FROM Nodes WHERE id = ?", node_id)
        return stored_or_none(rows[0][0]) if rows else None


def _labelled(data: object, label: str) -> Json | None:
    node = stored_or_none(data)
    return node.properties if node and node.label == label else None
