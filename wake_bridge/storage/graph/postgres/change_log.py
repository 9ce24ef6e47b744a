"""The change log in PostgreSQL, read by what each snapshot shows.

A log id is given before the commit, so ids above a cursor say too little: a row may be committed late, below it. What has been
read is a `pg_snapshot`, and new is what is visible now and was not visible in it. Nothing is skipped, and nothing waits for
a transaction that stays open, in this database or another one.

A server that crashes gives the transaction ids again that were not yet on its disk: a snapshot from before takes what comes under them
for seen. So new is also whatever lies above the highest log id that was read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from wake_bridge.domain.facts import EDGE_TYPES
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import Identity, Instant, LogId, parse_instant
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.domain.values import dataclass
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
from wake_bridge.storage.graph.postgres.connection import PostgresConnection, Rows
from wake_bridge.storage.graph.postgres.graph import UNMARKED, clean, edges_of, readable
from wake_bridge.storage.graph.rows import RowReader, Stored, edge_row, traces_among
from wake_bridge.storage.graph.unread import day_before, recent_among, states_among, unread_among
from wake_bridge.system.clock import timestamp_of_instant

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Rows of one page are asked for in pieces that hold no more than about this."""

_EDGE_TYPES: Final = ", ".join(f"'{name}'" for name in sorted(EDGE_TYPES))

# exactly `NOT pg_visible_in_snapshot(xid, s)`, in two parts that the index on xid answers, whatever statistics say
_SEEN: Final = "nullif(%(seen)s::text, '')::pg_snapshot"
_LATER: Final = f"g.xid >= pg_snapshot_xmax({_SEEN})"
_LATE: Final = f"g.xid = ANY (ARRAY(SELECT pg_snapshot_xip({_SEEN})))"
# the same in a form that no index answers: a backlog is walked through by log id
_UNSEEN: Final = """
    (%(seen)s::text = '' OR NOT pg_visible_in_snapshot(g.xid, nullif(%(seen)s::text, '')::pg_snapshot)
        OR g.log_id > %(known)s)
    AND pg_visible_in_snapshot(g.xid, {})
"""
# asked every second: the first row of an order is found in the index whatever statistics say
_LOOK: Final = f"""
    SELECT wake_bridge.log_life(), %(seen)s::text = ''
        OR coalesce((SELECT g.xid FROM wake_bridge.graphlog g ORDER BY g.xid DESC LIMIT 1)
            >= pg_snapshot_xmax({_SEEN}), false)
        OR coalesce(newest.log_id > %(known)s, false)
        OR EXISTS (SELECT FROM pg_snapshot_xip({_SEEN}) AS late (xid) WHERE late.xid = (
            SELECT g.xid FROM wake_bridge.graphlog g WHERE g.xid >= late.xid ORDER BY g.xid LIMIT 1)),
        graph.pruned_upto, newest.log_id
    FROM wake_bridge.graph
    LEFT JOIN (SELECT g.log_id FROM wake_bridge.graphlog g ORDER BY g.log_id DESC LIMIT 1) AS newest ON true
"""
# `+ 0`, or the lowest would be looked for from the beginning of the log
_LOWEST: Final = f"""
    least((SELECT min(g.log_id + 0) FROM wake_bridge.graphlog g WHERE {_LATER}),
        (SELECT min(g.log_id + 0) FROM wake_bridge.graphlog g WHERE {_LATE}),
        (SELECT g.log_id FROM wake_bridge.graphlog g WHERE g.log_id > %(known)s ORDER BY g.log_id LIMIT 1))
"""
_WITHOUT_BODY: Final = """
    CASE {0}.label WHEN 'MESSAGE' THEN {0}.data #- '{{properties,bodyText}}' ELSE {0}.data END::text
"""
_ROWS: Final = f"""
    SELECT g.log_id, g.entity_type, g.entity_id, g.event_id, g.event_payload::text,
        n.id, {_WITHOUT_BODY.format("n")}, e.id, e.source, e.target, e.type, e.data::text,
        m.id, {_WITHOUT_BODY.format("m")}
    FROM wake_bridge.graphlog g
    LEFT JOIN wake_bridge.nodes n ON g.entity_type = 'nodes' AND n.id = g.entity_id
    LEFT JOIN wake_bridge.edges e ON g.entity_type = 'edges' AND e.id = g.entity_id
    LEFT JOIN wake_bridge.nodes m ON m.id = CASE
        WHEN g.entity_type = 'task_state_changed' THEN g.entity_id
        WHEN e.type IN ('SENT_TO', 'DELIVERED_TO') THEN e.source
    END
"""
_RELEVANT: Final = f"""
    CASE g.entity_type
        WHEN 'nodes' THEN CASE
            WHEN n.id IS NULL THEN g.entity_id ^@ 'WAKE_SUB:' OR g.entity_id ^@ '@'
            WHEN n.label IN ('WAKE_SUBSCRIPTION', 'AgentIdentity', 'AGENT') THEN true
            ELSE n.label = 'MESSAGE' AND jsonb_typeof(n.data #> '{{properties,task}}') = 'object'
        END
        WHEN 'edges' THEN e.type IN ({_EDGE_TYPES})
        ELSE g.entity_type IN ('heartbeat_pulse', 'task_state_changed')
    END
"""
_ABOUT: Final = """
    WHERE g.entity_id = %(id)s OR g.entity_id IN (SELECT id FROM wake_bridge.edges WHERE source = %(id)s)
    ORDER BY g.log_id
"""
_TOUCHED: Final = """
    SELECT entity_id FROM wake_bridge.graphlog WHERE log_id > %(after)s AND log_id <= %(upto)s
    UNION SELECT e.source FROM wake_bridge.graphlog g JOIN wake_bridge.edges e ON e.id = g.entity_id
    WHERE g.log_id > %(after)s AND g.log_id <= %(upto)s AND g.entity_type = 'edges'
        AND e.type IN ('SENT_TO', 'DELIVERED_TO')
"""
PRESENCE_LABEL: Final = "HARNESS_PRESENCE"
_LIFE_TOLD: Final = 16
"""Characters of it in a fingerprint."""

_FINGERPRINT: Final = f"concat_ws(':', left(wake_bridge.log_life(), {_LIFE_TOLD}), xid::text, entity_type, entity_id)"
_LAST: Final = 2**63 - 1
_COLUMNS: Final = 14
"""Of `_ROWS`."""

# all that is new now, as the open transaction sees it: from its lowest row on
_BEGUN: Final = f"""
    SELECT pg_current_snapshot() AS now,
        CASE %(seen)s::text WHEN '' THEN %(known)s::bigint ELSE coalesce({_LOWEST} - 1, {_LAST}) END AS upto
"""
_HALF_READ: Final = "SELECT %(now)s::pg_snapshot AS now, %(upto)s::bigint AS upto"
_EXAMINED: Final = f"""
    WITH half AS MATERIALIZED ({{}}),
    piece AS MATERIALIZED (
        SELECT g.log_id, g.xid, g.entity_type, g.entity_id, g.is_news FROM wake_bridge.graphlog g
        WHERE g.log_id > (SELECT upto FROM half) AND {_UNSEEN.format("(SELECT now FROM half)")}
        ORDER BY g.log_id LIMIT %(limit)s)
    SELECT half.now::text, half.upto, found.*
    FROM half, (SELECT max(log_id), count(*), bool_or(is_news),
        (SELECT {_FINGERPRINT} FROM piece ORDER BY log_id DESC LIMIT 1) FROM piece) AS found
"""
_PAGE: Final = f"""
    WITH page AS MATERIALIZED (
        {_ROWS} WHERE g.log_id > %(upto)s AND g.log_id <= %(last)s AND {_UNSEEN.format("%(now)s::pg_snapshot")}
            AND g.is_news AND {_RELEVANT}),
    sized AS (
        SELECT page.*, sum(octet_length(page::text)) OVER (ORDER BY log_id) AS size, count(*) OVER () AS total,
            row_number() OVER (ORDER BY log_id) AS place
        FROM page)
    SELECT * FROM sized WHERE size <= %(most)s OR place = 1 ORDER BY log_id
"""
_LOGGED: Final = """
    SELECT DISTINCT entity_id FROM wake_bridge.graphlog
    WHERE entity_id = ANY (%(ids)s) AND entity_type = 'edges' AND log_id <= %(upto)s
    AND CASE
        WHEN %(seen)s::text = '' AND %(now)s::text = '' THEN true
        WHEN %(seen)s::text <> '' AND pg_visible_in_snapshot(xid, nullif(%(seen)s::text, '')::pg_snapshot) THEN true
        ELSE %(now)s::text <> '' AND log_id <= %(half)s
            AND pg_visible_in_snapshot(xid, nullif(%(now)s::text, '')::pg_snapshot)
    END
"""
_TASKS: Final = """
    SELECT id, (data #- '{properties,bodyText}')::text FROM wake_bridge.nodes
    WHERE is_task ORDER BY seq
"""
# messages, and then the edges of their mail: one question sees one state
_STATES: Final = """
    SELECT id, NULL AS source, NULL AS target, NULL AS type, jsonb_build_object('label', data -> 'label', 'properties',
        jsonb_build_object('from', data #> '{properties,from}', 'readAt', data #> '{properties,readAt}',
        'archivedAt', data #> '{properties,archivedAt}'))::text, 0 AS seq
    FROM wake_bridge.nodes WHERE id = ANY (%(ids)s)
    UNION ALL SELECT id, source, target, type, data::text, seq FROM wake_bridge.edges
    WHERE source = ANY (%(ids)s) AND type IN ('SENT_TO', 'DELIVERED_TO') ORDER BY seq
"""
_EDGES_FROM: Final = """
    SELECT id, source, target, type, data::text FROM wake_bridge.edges WHERE source = %s OR id = %s ORDER BY seq
"""
_LETTER: Final = f"""
    SELECT n.id, {_WITHOUT_BODY.format("n")}, e.id, e.source, e.target, e.type, e.data::text
    FROM wake_bridge.edges e JOIN wake_bridge.nodes n ON n.id = e.source
"""
_UNREAD: Final = f"""{_LETTER}
    WHERE (e.target = %(who)s AND e.type IN ('SENT_TO', 'DELIVERED_TO')
        OR e.target = 'AGENT:*' AND e.type IN ('SENT_TO', 'DELIVERED_TO') AND NOT EXISTS (
            SELECT FROM wake_bridge.edges d WHERE d.source = e.source AND d.type = 'DELIVERED_TO'))
    AND (e.type = 'DELIVERED_TO' OR coalesce(n.data #>> '{{properties,readAt}}', '') {UNMARKED})
    ORDER BY e.seq
"""
_SENT: Final = f"""{_LETTER}
    JOIN unnest(%(ids)s::text[]) WITH ORDINALITY AS wanted (id, place) ON wanted.id = e.source
    WHERE e.type IN ('SENT_TO', 'DELIVERED_TO') ORDER BY wanted.place, e.seq
"""
_PRESENCES: Final = """
    SELECT data::text FROM wake_bridge.nodes WHERE id >= 'HARNESS_PRESENCE:' AND id < 'HARNESS_PRESENCE;'
    AND data #>> '{properties,lastSeenAt}' >= %s ORDER BY seq
"""
_RECENT: Final = """
    SELECT id, sent_at FROM wake_bridge.nodes WHERE sent_at >= %s
"""


@dataclass(frozen=True, slots=True)
class _Read:
    """How far the log has been read.

    All that `seen` shows; of what `now` shows besides, all up to `upto`. Without `now` nothing is half read. Written as text
    `seen`, or `seen|now|upto`.
    """

    seen: str
    now: str = ""
    upto: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read it from text."""
        seen, _, rest = text.partition("|")
        now, _, upto = rest.partition("|")
        return cls(seen, now, int(upto or 0))

    def __str__(self) -> str:
        return f"{self.seen}|{self.now}|{self.upto}" if self.now else self.seen


class _Piece(NamedTuple):
    """Rows of what is new: what they are part of, the last id, how many were looked at, those that are relevant, what stands last."""

    read: _Read
    last: int
    examined: int
    rows: Rows
    fingerprint: str


class PostgresGraph:
    """`ports.change_log.ChangeLog` on a PostgreSQL database; opened on first use."""

    def __init__(self, place: GraphUrl) -> None:
        self._base = PostgresConnection(place)
        self._life = ""
        self._last = (LogId(0), "")
        self._is_behind = False
        self._bounds: LogBounds | None = None
        self._is_bounded = False
        self._at = ""
        self._known = LogId(0)
        self._news = 0

    # -- the log -------------------------------------------------------------------------------------------------

    def read_after(self, cursor: LogId, limit: int, snapshot: str = "") -> Page:
        """See `ChangeLog.read_after`. Irrelevant rows are dismissed by the server; page and nodes are one snapshot."""
        read, self._is_bounded = _Read.parse(snapshot), False
        with self._base.transaction(snapshot=True):
            piece = self._piece(read, cursor, limit)
            if read.now and not piece.examined:
                piece = self._piece(_Read(read.now), cursor, limit)
            read, last, examined, rows, fingerprint = piece
            upto = LogId(max(cursor, last))
            if examined and (upto != last or not fingerprint):
                fingerprint = self.fingerprint_at(upto) or ""
        reader = RowReader()
        entries = [reader.entry(row) for row in rows]
        if examined:
            # of a backlog each page ends where the next begins, in the same life as far as `version` has seen
            self._last = upto, fingerprint
        is_tip = examined < limit
        self._is_behind = not is_tip
        if is_tip:
            self._at, self._known = read.now, upto
        return Page(
            entries=tuple(entry for entry in entries if isinstance(entry, LogEntry)),
            broken=tuple(entry for entry in entries if isinstance(entry, BrokenRow)),
            upto=upto,
            fingerprint=fingerprint,
            examined=examined,
            snapshot=str(_Read(read.now) if is_tip else _Read(read.seen, read.now, last)),
        )

    def _piece(self, read: _Read, cursor: LogId, limit: int) -> _Piece:
        """The next rows of what is new; of what is half read, if some of that is left.

        Where they would fill the memory they are cut, and count as many as were asked for: there is more.
        """
        values = {
            "seen": read.seen,
            "now": read.now,
            "upto": read.upto,
            "known": cursor,
            "limit": limit,
            "most": PAGE_BYTES,
        }
        statement = _EXAMINED.format(_HALF_READ if read.now else _BEGUN)
        now, upto, last, examined, is_news, fingerprint = self._base.rows(statement, values)[0]
        begun = _Read(read.seen, now, upto)
        if not is_news:
            return _Piece(begun, last or 0, examined, [], fingerprint or "")
        found = self._base.rows(_PAGE, values | {"now": now, "upto": upto, "last": last})
        rows = [_as_bytes(row[:_COLUMNS]) for row in found]
        if found and len(found) < found[0][_COLUMNS + 1]:
            return _Piece(begun, rows[-1][0], limit, rows, "")
        return _Piece(begun, last, examined, rows, fingerprint)

    def bounds(self) -> LogBounds:
        """See `ChangeLog.bounds`. Ids that were given and never committed are no gap: only what was pruned is missing."""
        if self._bounds is None or not (self._is_behind or self._is_bounded):
            statement = "SELECT pruned_upto, (SELECT max(log_id) FROM wake_bridge.graphlog) FROM wake_bridge.graph"
            self._bounds = _bounds(*self._base.rows(statement)[0])
        self._is_bounded = False
        # while a backlog is read they are those of its beginning, or what was read since
        return LogBounds(self._bounds.lowest, max(self._bounds.highest, self._last[0]))

    def fingerprint_at(self, log_id: LogId) -> str | None:
        """See `ChangeLog.fingerprint_at`; it names the life of the log as well, and the server's."""
        known, fingerprint = self._last
        if known == log_id and fingerprint.startswith(f"{self._life[:_LIFE_TOLD]}:"):
            return fingerprint
        rows = self._base.rows(f"SELECT {_FINGERPRINT} FROM wake_bridge.graphlog WHERE log_id = %s", (log_id,))
        return rows[0][0] if rows else None

    def is_embedded(self) -> bool:
        """See `ChangeLog.is_embedded`: no other program makes a graph of this form."""
        return True

    def version(self) -> tuple[int, int, int]:
        """See `ChangeLog.version`; one question, which also finds what was committed late."""
        life, is_news, *bounds = self._base.rows(_LOOK, {"seen": self._at, "known": self._known})[0]
        if life != self._life:
            # a dump may have been restored in the graph's place
            self._base.close()
            life, is_news, *bounds = self._base.rows(_LOOK, {"seen": self._at, "known": self._known})[0]
            self._last, self._is_behind = (LogId(0), ""), False
        has_changed = is_news or life != self._life
        if has_changed and not self._is_behind:
            # who is told of news asks for them next
            self._bounds, self._is_bounded = _bounds(*bounds), True
        self._news += has_changed
        self._life = life
        return int(life[:8], 16), int(life[8:16], 16), self._news

    def heal(self) -> bool:
        """See `ChangeLog.heal`: a connection that was lost says so."""
        return False

    def reopen(self) -> None:
        """See `ChangeLog.reopen`; a connection that hears nothing any more is one that fails, and is opened anew by itself."""

    def census(self) -> Census:
        """See `ChangeLog.census`."""
        with self._base.transaction(snapshot=True):
            now, tip = self._base.rows(
                "SELECT pg_current_snapshot()::text, coalesce(max(log_id), 0) FROM wake_bridge.graphlog"
            )[0]
            rows = self._base.rows(_TASKS)
            fingerprint = self.fingerprint_at(LogId(tip)) if tip else ""
        nodes = ((row[0], _node(row[1])) for row in rows)
        tasks = ((one, node.properties) for one, node in nodes if node and node.properties.get("task"))
        return Census(LogId(tip), fingerprint or "", tuple(tasks), now)

    def logged_before(self, edge_ids: Collection[str], upto: LogId, snapshot: str = "") -> frozenset[str]:
        """See `ChangeLog.logged_before`. A row that was committed late is none of them, whatever its id."""
        read = _Read.parse(snapshot)
        values = {"ids": list(edge_ids), "upto": upto, "seen": read.seen, "now": read.now, "half": read.upto}
        return frozenset(row[0] for row in self._base.rows(_LOGGED, values))

    def typed_tasks_after(self, log_id: LogId) -> frozenset[str]:
        """See `ChangeLog.typed_tasks_after`."""
        statement = (
            "SELECT entity_id FROM wake_bridge.graphlog WHERE log_id > %s AND entity_type = 'task_state_changed'"
        )
        return frozenset(row[0] for row in self._base.rows(statement, (log_id,)))

    def touched(self, after: LogId, upto: LogId) -> set[str]:
        """See `ChangeLog.touched`."""
        return {row[0] for row in self._base.rows(_TOUCHED, {"after": after, "upto": upto})}

    def note_reader(self, reader: str, cursor: LogId, snapshot: str) -> None:
        """See `ChangeLog.note_reader`. Of a page that is half read all counts as unread."""
        seen = _Read.parse(snapshot).seen
        if seen:
            self._base.rows("SELECT wake_bridge.note_reader(%s, %s::pg_snapshot, %s)", (clean(reader), seen, cursor))

    def close(self) -> None:
        """See `ChangeLog.close`."""
        self._base.close()

    # -- questions -----------------------------------------------------------------------------------------------

    def subscriptions(self) -> list[tuple[str, Json]]:
        """See `ChangeLog.subscriptions`."""
        return [(one, node.properties) for one, node in self._labelled([SUBSCRIPTION_LABEL])]

    def subscription(self, subscription_id: str) -> Json | None:
        """See `ChangeLog.subscription`."""
        node = self._node(subscription_id)
        return node.properties if node and node.label == SUBSCRIPTION_LABEL else None

    def identities(self, only: Identity | None = None) -> Mapping[Identity, IdentityRow]:
        """See `ChangeLog.identities`."""
        return {
            Identity(one): IdentityRow.from_node(one, node.properties)
            for one, node in self._labelled(sorted(IDENTITY_LABELS), only)
            if one.startswith("@")
        }

    def node(self, node_id: str) -> Json | None:
        """See `ChangeLog.node`."""
        found = self._node(node_id)
        return found.properties if found else None

    def has_audience(self, message_id: str) -> bool:
        """See `ChangeLog.has_audience`."""
        statement = "SELECT FROM wake_bridge.edges WHERE source = %s AND type = 'DELIVERED_TO' LIMIT 1"
        return bool(self._base.rows(statement, (message_id,)))

    def mail_states(self, pairs: Sequence[tuple[str, Identity]]) -> Mapping[tuple[str, Identity], MailState]:
        """See `ChangeLog.mail_states`."""
        rows = self._base.rows(_STATES, {"ids": sorted({clean(message_id) for message_id, _ in pairs})})
        messages = {row[0]: _node(row[4]) for row in rows if row[1] is None}
        return states_among(messages, edges_of([row for row in rows if row[1] is not None]), pairs)

    def edges_present(self, edge_ids: Sequence[str]) -> set[str]:
        """See `ChangeLog.edges_present`."""
        rows = self._base.rows("SELECT id FROM wake_bridge.edges WHERE id = ANY (%s)", (list(edge_ids),))
        return {row[0] for row in rows}

    def unread_mail(self, identity: Identity, since: Instant | None) -> list[tuple[str, Json, EdgeRow]]:
        """See `ChangeLog.unread_mail`."""
        return unread_among(self._letters(_UNREAD, {"who": identity}), identity, since)

    def presences(self, since: Instant) -> list[Json]:
        """See `ChangeLog.presences`; the ids begin alike, so they are a range of the primary key."""
        rows = self._base.rows(_PRESENCES, (timestamp_of_instant(since),))
        nodes = (_node(row[0]) for row in rows)
        return [node.properties for node in nodes if node and node.label == PRESENCE_LABEL]

    def recent_mail(self, since: Instant) -> list[str]:
        """See `ChangeLog.recent_mail`."""
        rows = self._base.rows(_RECENT, (day_before(since),))
        return recent_among(((parse_instant(at) or 0, one) for one, at in rows), since)

    def mail_edges(self, message_ids: Sequence[str]) -> list[LogEntry]:
        """See `ChangeLog.mail_edges`."""
        return [
            LogEntry(LogId(0), "edges", edge.id, edge=edge, message=message)
            for _, message, edge in self._letters(_SENT, {"ids": list(message_ids)})
        ]

    def traces_of(self, entity_id: str) -> Traces:
        """See `ChangeLog.traces_of`."""
        entity_id = clean(entity_id)
        with self._base.transaction(snapshot=True):
            node = self._node(entity_id)
            rows = [_as_bytes(row) for row in self._base.rows(f"{_ROWS} {_ABOUT}", {"id": entity_id})]
            edges = edges_of(self._base.rows(_EDGES_FROM, (entity_id, entity_id)))
        return traces_among(node, rows, edges)

    # -- below ---------------------------------------------------------------------------------------------------

    def _node(self, node_id: str) -> Stored | None:
        rows = self._base.rows("SELECT data::text FROM wake_bridge.nodes WHERE id = %s", (clean(node_id),))
        return _node(rows[0][0]) if rows else None

    def _labelled(self, labels: Sequence[str], only: str | None = None) -> list[tuple[str, Stored]]:
        where, values = (" AND id = %s", (clean(only),)) if only is not None else ("", ())
        statement = f"SELECT id, data::text FROM wake_bridge.nodes WHERE label = ANY (%s){where} ORDER BY seq"
        nodes = ((row[0], _node(row[1])) for row in self._base.rows(statement, (list(labels), *values)))
        return [(one, node) for one, node in nodes if node]

    def _letters(self, statement: str, values: dict[str, object]) -> list[tuple[str, Json, EdgeRow]]:
        """Message id, message (without its body) and edge, where both can be read."""
        letters = []
        for message_id, data, edge_id, source, target, kind, link in self._base.rows(statement, values):
            message, edge = _node(data), _node(link)
            if message and message.label == MESSAGE_LABEL and edge:
                letters.append(
                    (message_id, message.properties, edge_row(edge_id, source, target, kind, edge.properties))
                )
        return letters


def _bounds(pruned: int, highest: int | None) -> LogBounds:
    return LogBounds(LogId(0 if highest is None else pruned + 1), LogId(highest or 0))


def _node(data: str) -> Stored | None:
    node = readable(data)
    return node if isinstance(node, Stored) else None


def _as_bytes(row: Sequence[Any]) -> tuple[Any, ...]:
    """As SQLite's rows come, for the one decoder of everything that is stored."""
    return tuple(value.encode() if isinstance(value, str) else value for value in row)
