"""The schema of the embedded graph: the real services' newest one, so that they can take the file over."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import uuid
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.names import BROADCAST
from wake_bridge.system.files import PRIVATE_FILE, make_private_directory

APPLICATION_ID: Final = 0x57414B45
"""`WAKE`: SQLite's mark in the header of a file that wake-bridge made."""

SCHEMA: Final = """
CREATE TABLE Nodes (
    id TEXT PRIMARY KEY,
    user_id TEXT,
    data TEXT NOT NULL
);
CREATE TABLE Edges (
    id TEXT PRIMARY KEY,
    user_id TEXT,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    FOREIGN KEY (source) REFERENCES Nodes(id) ON DELETE CASCADE,
    FOREIGN KEY (target) REFERENCES Nodes(id) ON DELETE CASCADE
);
CREATE INDEX idx_edges_source ON Edges(source);
CREATE INDEX idx_edges_target ON Edges(target);
CREATE TABLE GraphLog (
    log_id INTEGER PRIMARY KEY AUTOINCREMENT,
    entity_id TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    event_id TEXT,
    event_payload TEXT
);
CREATE UNIQUE INDEX idx_graph_log_event_id ON GraphLog(event_id) WHERE event_id IS NOT NULL;
CREATE TRIGGER node_insert AFTER INSERT ON Nodes
    BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'nodes'); END;
CREATE TRIGGER node_update AFTER UPDATE ON Nodes
    BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'nodes'); END;
CREATE TRIGGER node_delete AFTER DELETE ON Nodes
    BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (OLD.id, 'nodes'); END;
CREATE TRIGGER edge_insert AFTER INSERT ON Edges
    BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'edges'); END;
CREATE TRIGGER edge_update AFTER UPDATE ON Edges
    BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (NEW.id, 'edges'); END;
CREATE TRIGGER edge_delete AFTER DELETE ON Edges
    BEGIN INSERT INTO GraphLog(entity_id, entity_type) VALUES (OLD.id, 'edges'); END;
CREATE TABLE SummarizationJobs (
    session_id TEXT PRIMARY KEY,
    status TEXT NOT NULL CHECK(status IN ('pending', 'in_progress', 'completed', 'failed')),
    lease_token TEXT,
    expires_at INTEGER,
    retry_count INTEGER DEFAULT 0,
    result_envelope BLOB,
    result_encoding TEXT,
    result_staged_at INTEGER,
    result_acknowledged_at INTEGER,
    result_last_replayed_at INTEGER
);
CREATE TABLE SchemaVersion (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
INSERT INTO SchemaVersion(id, version) VALUES ('graph', 1);
"""


def create_embedded_graph(path: Path, now: str) -> bool:
    """Make the embedded graph at `path`, unless something is there already.

    The file appears whole or not at all, and only its owner can read it. `now` is the creation time as text.

    Returns:
        Whether it was made.

    Raises:
        OperationFailed: the directory or the disk refuses.
    """
    if path.exists():
        return False
    make_private_directory(path.parent)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        _fill(draft, now)
        # a link, not a rename: whoever came first keeps the place
        os.link(draft, path)
    except FileExistsError:
        return False
    except (OSError, sqlite3.Error) as refusal:
        raise OperationFailed(
            f"the embedded graph cannot be made ({refusal})", str(path), hint="choose another place with --graph"
        ) from refusal
    finally:
        draft.unlink(missing_ok=True)
    return True


def sqlite_address(path: Path, mode: str) -> str:
    """The URI that opens `path` in SQLite's `mode` (`ro`, `rw`), whatever characters it holds."""
    return f"file:{quote(os.fsencode(path))}?mode={mode}"


def broadcast_sentinel(now: str) -> dict[str, Any]:
    """The node that every broadcast is sent to; each graph of ours begins with it."""
    return {
        "id": BROADCAST,
        "label": "BroadcastSentinel",
        "properties": {
            "name": "Broadcast",
            "description": "Target of every broadcast's SENT_TO edge; each recipient has a DELIVERED_TO edge.",
            "githubLogin": None,
            "displayName": "Broadcast",
            "modelFamily": None,
            "accountType": "sentinel",
            "trustTier": "unclassified",
            "createdAt": now,
            "userId": None,
        },
    }


def _fill(draft: Path, now: str) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_address(draft, "rw"), uri=True, isolation_level=None)) as graph:
        graph.execute("PRAGMA journal_mode = WAL")
        graph.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        graph.executescript(f"BEGIN;{SCHEMA}COMMIT;")
        data = json.dumps(broadcast_sentinel(now), ensure_ascii=False, separators=(",", ":"))
        graph.execute("INSERT INTO Nodes(id, user_id, data) VALUES (?, NULL, ?)", (BROADCAST, data))
