"""A memory core in a process of its own, driven line by line: a writer that shares nothing with the reader but the file.

with MemoryCoreProcess(path) as core:
    core.do("send", "@a", "@b", "Review request")

    MemoryCore(path).send("@a", "@b", "Review request")

A foreign graph belongs to its own server, which knows nothing of wake-bridge: so this shares no code with the commands
that write an embedded graph. Shapes, triggers and order are those of the real services.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, Self, cast

from wake_bridge.testing import HUNG

Row = tuple[Any, ...]


class GraphEye:
    """One graph file; each look is a connection of its own.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self, statement: str, *values: object) -> list[Row]:
        """All rows of one statement."""
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement, values).fetchall()

    def properties(self, node_id: str) -> dict[str, Any]:
        """A node's inner object, in the order it was stored."""
        ((data,),) = self.all("SELECT data FROM Nodes WHERE id = ?", node_id)
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties

    def names(self, stored: Mapping[str, Any]) -> list[str]:
        """The names in an object, in the order in which they are stored."""
        return list(stored)

    def edge(self, kind: str, source: str) -> dict[str, Any]:
        """The first edge of a type from a source, as stored."""
        data = self.all("SELECT data FROM Edges WHERE type = ? AND source = ? ORDER BY rowid", kind, source)[0][0]
        edge: dict[str, Any] = json.loads(data)
        return edge

    def log(self, after: int = 0) -> list[str]:
        """What the log's rows after an id point at: the edge's type or the node's label."""
        rows = self.all(
            "SELECT l.entity_type, e.type, json_extract(n.data, '$.label') FROM GraphLog l"
            " LEFT JOIN Edges e ON e.id = l.entity_id LEFT JOIN Nodes n ON n.id = l.entity_id"
            " WHERE l.log_id > ? ORDER BY l.log_id",
            after,
        )
        return [kind or label or f"{table}:gone" for table, kind, label in rows]

    def tip(self) -> int:
        """The highest id the log ever gave."""
        rows = self.all("SELECT seq FROM sqlite_sequence WHERE name = 'GraphLog'")
        return int(rows[0][0]) if rows else 0


SCHEMA: Final = """
CREATE TABLE Nodes (id TEXT PRIMARY KEY, user_id TEXT, data TEXT NOT NULL);
CREATE TABLE Edges (id TEXT PRIMARY KEY, user_id TEXT, source TEXT NOT NULL, target TEXT NOT NULL, type TEXT NOT NULL,
    data TEXT NOT NULL, FOREIGN KEY (source) REFERENCES Nodes(id) ON DELETE CASCADE,
    FOREIGN KEY (target) REFERENCES Nodes(id) ON DELETE CASCADE);
CREATE TABLE GraphLog (log_id INTEGER PRIMARY KEY AUTOINCREMENT, entity_id TEXT NOT NULL, entity_type TEXT NOT NULL);
CREATE INDEX idx_edges_source ON Edges(source);
CREATE INDEX idx_edges_target ON Edges(target);
CREATE TRIGGER node_insert AFTER INSERT ON Nodes BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'nodes'); END;
CREATE TRIGGER node_update AFTER UPDATE ON Nodes BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'nodes'); END;
CREATE TRIGGER node_delete AFTER DELETE ON Nodes BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (OLD.id, 'nodes'); END;
CREATE TRIGGER edge_insert AFTER INSERT ON Edges BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'edges'); END;
CREATE TRIGGER edge_update AFTER UPDATE ON Edges BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'edges'); END;
CREATE TRIGGER edge_delete AFTER DELETE ON Edges BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (OLD.id, 'edges'); END;
"""
"""The form of version 13.1.0: a log of three columns."""

EVENT_COLUMNS: Final = """
ALTER TABLE GraphLog ADD COLUMN event_id TEXT;
ALTER TABLE GraphLog ADD COLUMN event_payload TEXT;
CREATE UNIQUE INDEX idx_graph_log_event_id ON GraphLog(event_id) WHERE event_id IS NOT NULL;
"""
"""What the newest form adds to it."""

BROADCAST: Final = "AGENT:*"


def now_text() -> str:
    """The time as JavaScript's `toISOString` writes it."""
    moment = datetime.now(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class MemoryCore:
    """Writes a graph like the real services, each step a transaction of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=5)
        self._connection.execute("PRAGMA foreign_keys = ON")

    @classmethod
    def create(cls, path: Path, identities: Sequence[str] = (), *, with_events: bool = False) -> Self:
        """Make an empty graph in WAL mode, with the broadcast sentinel and some agents."""
        with_sqlite = sqlite3.connect(path, isolation_level=None)
        with_sqlite.execute("PRAGMA journal_mode = WAL")
        with_sqlite.executescript(SCHEMA + (EVENT_COLUMNS if with_events else ""))
        with_sqlite.close()
        core = cls(path)
        core.put(BROADCAST, "BroadcastSentinel", {"name": "Broadcast", "accountType": "sentinel"})
        for identity in identities:
            core.identity(identity)
        return core

    def close(self) -> None:
        """Give up the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Any statement, for what the real services would never write."""
        return self._connection.execute(statement, values).fetchall()

    def tip(self) -> int:
        """The highest log id."""
        return int(self.sql("SELECT COALESCE(MAX(log_id), 0) FROM GraphLog")[0][0])

    # -- shapes --------------------------------------------------------------------------------------------------

    def put(self, node_id: str, label: str, properties: Mapping[str, Any]) -> str:
        """Insert or replace a node; also one that stays as it is leaves a row in the log."""
        data = json.dumps({"id": node_id, "label": label, "properties": dict(properties)}, ensure_ascii=False)
        self.sql(
            "INSERT INTO Nodes(id, user_id, data) VALUES (?, ?, ?) ON CONFLICT(id) DO UPDATE SET data = excluded.data",
            node_id,
            properties.get("userId"),
            data,
        )
        return node_id

    def link(self, source: str, target: str, kind: str, properties: Mapping[str, Any]) -> str:
        """Add an edge; answers its id."""
        edge_id = str(uuid.uuid4())
        edge = {"id": edge_id, "source": source, "target": target, "type": kind}
        data = json.dumps({**edge, "properties": {"weight": 1, **properties}}, ensure_ascii=False)
        owner = properties.get("userId")
        self.sql("INSERT INTO Edges VALUES (?, ?, ?, ?, ?, ?)", edge_id, owner, source, target, kind, data)
        return edge_id

    def touch(self, node_id: str) -> None:
        """Write a node once more as it is."""
        self.sql("UPDATE Nodes SET data = data WHERE id = ?", node_id)

    def touch_edges(self, node_id: str) -> None:
        """Write the edges that start from a node once more as they are."""
        self.sql("UPDATE Edges SET data = data WHERE source = ?", node_id)

    def set(self, node_id: str, name: str, value: str | None) -> None:
        """Change one property of a node."""
        self.sql("UPDATE Nodes SET data = json_set(data, ?, ?) WHERE id = ?", f"$.properties.{name}", value, node_id)

    def properties(self, node_id: str) -> dict[str, Any]:
        """What a node holds."""
        (data,), *_ = self.sql("SELECT data FROM Nodes WHERE id = ?", node_id)
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties

    # -- what the services do ------------------------------------------------------------------------------------

    def identity(self, identity: str, **properties: Any) -> str:
        """Upsert an AgentIdentity, as every boot of the core does."""
        known = {"name": identity, "accountType": "agent", "participationStatus": "active", "userId": None}
        return self.put(identity, "AgentIdentity", {**known, **properties})

    def subscribe(self, identity: str, trigger: str = "SENT_TO_ME", **properties: Any) -> str:
        """Add a WAKE_SUBSCRIPTION for a tmux pane."""
        subscription_id = f"WAKE_SUB:{uuid.uuid4()}"
        stored = {
            "name": subscription_id,
            "agentIdentity": identity,
            "trigger": trigger,
            "filters": {},
            "harnessTarget": "bridge-daemon",
            "harnessTargetMetadata": {"appName": "Claude", "adapter": "tmux", "tmuxSession": "a", "coalesceWindow": 0},
            "createdAt": now_text(),
            "updatedAt": now_text(),
            "userId": identity[1:],
            "sharedEntity": False,
            "status": "active",
        }
        self.put(subscription_id, "WAKE_SUBSCRIPTION", {**stored, **properties})
        self.link(identity, subscription_id, "SUBSCRIBES_TO", {"userId": identity[1:]})
        return subscription_id

    def send(
        self,
        sender: str,
        recipient: str,
        subject: str,
        audience: Sequence[str] = (),
        *,
        pause: float = 0.0,
        **properties: Any,
    ) -> str:
        """Send a message: node, SENT_BY, SENT_TO, then DELIVERED_TO each; `pause` seconds before the last."""
        message_id = f"MESSAGE:{uuid.uuid4()}"
        owner = {"userId": sender[1:], "sharedEntity": True}
        stored: dict[str, Any] = {
            "name": subject,
            "description": "",
            "subject": subject,
            "bodyText": "a body",
            "priority": "normal",
            "sentAt": now_text(),
            "readAt": None,
            "from": sender,
            "to": recipient,
            "inReplyTo": None,
            "partOfThread": None,
            "taggedConcepts": [],
            "wakeSuppressed": False,
        }
        self.put(message_id, "MESSAGE", {**stored, **owner, **properties})
        self.link(message_id, sender, "SENT_BY", {"timestamp": now_text(), **owner})
        self.link(message_id, recipient, "SENT_TO", {"timestamp": now_text(), **owner})
        time.sleep(pause)
        for one in audience:
            receipt = {"deliveredAt": now_text(), "readAt": None, "deliveryKind": "broadcast", **owner}
            self.link(message_id, one, "DELIVERED_TO", receipt)
        return message_id

    def mark_read(self, message_id: str, identity: str | None = None) -> None:
        """Mark direct mail read, or a broadcast for one recipient."""
        if identity is None:
            self.set(message_id, "readAt", now_text())
            return
        self.sql(
            "UPDATE Edges SET data = json_set(data, '$.properties.readAt', ?) WHERE source = ? AND target = ? AND type = ?",
            now_text(),
            message_id,
            identity,
            "DELIVERED_TO",
        )

    def give_task(self, sender: str, assignee: str, subject: str, **properties: Any) -> str:
        """Send a message that is a task."""
        task = {"state": "Submitted", "assignee": assignee}
        return self.send(sender, assignee, subject, **{"task": task, **properties})

    def move_task(self, task_id: str, state: str, *, typed: bool = False, assignee: str | None = None) -> str:
        """Move a task: a guarded update, with the typed row if asked, then the upsert. Answers the event id."""
        before = self.properties(task_id)
        event_id = str(uuid.uuid4())
        modified = now_text()
        task = {**before["task"], "state": state, **({"assignee": assignee} if assignee else {})}
        data = json.dumps(
            {"id": task_id, "label": "MESSAGE", "properties": {**before, "task": task, "lastModifiedAt": modified}}
        )
        self.sql("BEGIN IMMEDIATE")
        self.sql("UPDATE Nodes SET data = ? WHERE id = ?", data, task_id)
        if typed:
            payload = {
                "schemaVersion": "task-state-change.v1",
                "taskId": task_id,
                "previousState": before["task"]["state"],
                "newState": state,
                "originator": before["from"],
                "assignee": task.get("assignee"),
                "assignmentAuthority": "memory-core.v1",
                "lastModifiedAt": modified,
            }
            self.sql(
                "INSERT INTO GraphLog(entity_id, entity_type, event_id, event_payload) VALUES (?, ?, ?, ?)",
                task_id,
                "task_state_changed",
                event_id,
                json.dumps(payload),
            )
        self.sql("COMMIT")
        self.touch(task_id)
        return event_id

    def grant(self, grantee: str, granter: str, scope: str = "CAN_REPLY_TO") -> str:
        """Give a right: the edge runs from grantee to granter, and carries no time."""
        return self.link(grantee, granter, scope, {"userId": granter[1:]})

    def pulse(self, identity: str, pulse_id: str = "") -> str:
        """Append a heartbeat pulse to the log; no node stands behind it."""
        pulse_id = pulse_id or str(uuid.uuid4())
        entity = f"HEARTBEAT_PULSE:{identity}:{pulse_id}"
        self.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES (?, 'heartbeat_pulse')", entity)
        return pulse_id

    def noise(self, rows: int) -> None:
        """Memories nobody waits for: `rows` rows of log, in one transaction."""
        self.sql("BEGIN IMMEDIATE")
        for _ in range(rows):
            self.put(f"MEMORY:{uuid.uuid4()}", "AGENT_MEMORY", {"agentIdentity": "@nobody", "text": "t" * 200})
        self.sql("COMMIT")

    def prune(self, upto: int) -> None:
        """Delete the log up to a row, as the compactor does."""
        self.sql("DELETE FROM GraphLog WHERE log_id <= ?", upto)


class MemoryCoreProcess:
    """A `MemoryCore` in a process of its own. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._calls = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def do(self, action: str, *values: Any, **named: Any) -> Any:
        """Have one method of `MemoryCore` called; returns its answer after its commit."""
        self.start(action, *values, **named)
        return self.finish()

    def start(self, action: str, *values: Any, **named: Any) -> None:
        """Have it called without waiting; `finish` gives the answer."""
        self._calls.write(json.dumps([action, values, named]) + "\n")
        self._calls.flush()

    def finish(self) -> Any:
        """The answer to the oldest call that was started; raises `RuntimeError` when the process has ended."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the memory core process has ended")
        return json.loads(line)

    def close(self) -> None:
        """End the process, and with it every lock it holds."""
        self._calls.close()
        self._process.wait(timeout=HUNG)
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main() -> None:
    """Serve calls from standard input until it ends."""
    with MemoryCore(Path(sys.argv[1])) as core:
        for line in sys.stdin:
            action, values, named = json.loads(line)
            print(json.dumps(getattr(core, action)(*values, **named)), flush=True)


if __name__ == "__main__":
    main()
