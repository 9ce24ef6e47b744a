"""A writer in a process of its own: single transactions at a steady pace, each timed, and a twin of all it wrote.

    python busy_writer.py GRAPH '{"rate": 200, "seconds": 60, "to": ["@a", "@b"]}'

Every transaction is done once more on a copy in memory, which nobody else can reach: what the file holds in the end must
be what the copy holds. Once a second it has the WAL checkpointed as far as that goes, every fifth time to its very
end, which no reader may hold up. The last line it prints is its account, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

SENDER = "@person"
TABLES = ("Nodes", "Edges", "GraphLog")
TO_THE_END_EVERY = 5
_PUT = "INSERT INTO Nodes(id, user_id, data) VALUES (?, ?, ?) ON CONFLICT(id) DO UPDATE SET data = excluded.data"
_LINK = "INSERT INTO Edges VALUES (?, ?, ?, ?, ?, ?)"
_READ = "UPDATE Nodes SET data = json_set(data, '$.properties.readAt', ?) WHERE id = ?"

Step = tuple[str, tuple[object, ...]]


def now_text() -> str:
    """As JavaScript writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{int(time.time() * 1000) % 1000:03d}Z"


def steps(recipients: list[str]) -> Iterator[Step]:
    """What a memory core does all day, a transaction each: a message's node and edges, a memory, a message read."""
    number = 0
    while True:
        to, message = recipients[number % len(recipients)], f"MESSAGE:{uuid.uuid4()}"
        owner = {"userId": SENDER[1:], "sharedEntity": True}
        facts = {"subject": f"mail {number}", "bodyText": "b" * 200, "priority": "normal", "sentAt": now_text()}
        properties = {**facts, "readAt": None, "from": SENDER, "to": to, "taggedConcepts": [], **owner}
        node = json.dumps({"id": message, "label": "MESSAGE", "properties": properties})
        yield _PUT, (message, SENDER[1:], node)
        for target, kind in ((SENDER, "SENT_BY"), (to, "SENT_TO")):
            edge = {"id": str(uuid.uuid4()), "source": message, "target": target, "type": kind}
            data = json.dumps({**edge, "properties": {"weight": 1, "timestamp": now_text(), **owner}})
            yield _LINK, (edge["id"], SENDER[1:], message, target, kind, data)
        memory = f"MEMORY:{uuid.uuid4()}"
        yield (
            _PUT,
            (memory, None, json.dumps({"id": memory, "label": "AGENT_MEMORY", "properties": {"text": "t" * 400}})),
        )
        if number % 10 == 0:
            # mail for itself is read at once; whoever is woken for the rest must hear of all of it
            own = f"MESSAGE:{uuid.uuid4()}"
            yield (
                _PUT,
                (own, None, json.dumps({"id": own, "label": "MESSAGE", "properties": {**properties, "to": SENDER}})),
            )
            yield _READ, (now_text(), own)
        number += 1


def content(connection: sqlite3.Connection) -> str:
    """A digest of every row of every table, and of what the file says of itself."""
    digest = hashlib.sha256()
    for pragma in ("application_id", "user_version", "encoding"):
        digest.update(repr(connection.execute(f"PRAGMA {pragma}").fetchall()).encode())
    schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    digest.update(repr(schema).encode())
    for table in (*TABLES, "sqlite_sequence"):
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1"):
            digest.update(repr(row).encode())
    return digest.hexdigest()


def main() -> None:
    """Write by the plan on the command line."""
    path, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    graph = sqlite3.connect(path, isolation_level=None, timeout=5)
    graph.execute("PRAGMA foreign_keys = ON")
    twin = sqlite3.connect(":memory:", isolation_level=None)
    graph.backup(twin)
    twin.execute("PRAGMA foreign_keys = ON")
    wal = path.with_name(f"{path.name}-wal")
    took: list[float] = []
    errors: list[str] = []
    sizes: list[int] = []
    checkpoints: list[tuple[str, int, int, int, float]] = []
    began = time.monotonic()
    checkpoint_due = began + 1
    work = steps(plan["to"])
    for number in range(plan["rate"] * plan["seconds"]):
        pause = began + number / plan["rate"] - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        statement, values = next(work)
        start = time.perf_counter()
        try:
            graph.execute(statement, values)
        except sqlite3.Error as error:
            errors.append(repr(error))
            continue
        took.append(time.perf_counter() - start)
        twin.execute(statement, values)
        if time.monotonic() >= checkpoint_due:
            checkpoint_due += 1
            kind = "PASSIVE" if (len(sizes) + 1) % TO_THE_END_EVERY else "RESTART"
            sizes.append(wal.stat().st_size)
            start = time.perf_counter()
            busy, frames, done = graph.execute(f"PRAGMA wal_checkpoint({kind})").fetchone()
            checkpoints.append((kind, busy, frames, done, time.perf_counter() - start))
    account = {
        "seconds": time.monotonic() - began,
        "took": took,
        "errors": errors,
        "wal_bytes": sizes,
        "checkpoints": checkpoints,
        "rows": graph.execute("SELECT log_id, entity_id, entity_type FROM GraphLog ORDER BY log_id").fetchall(),
        "graph": content(graph),
        "twin": content(twin),
    }
    print(json.dumps(account), flush=True)


if __name__ == "__main__":
    main()
