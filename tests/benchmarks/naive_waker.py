"""The simplest waker there is, to compare with: it polls the graph, types into the pane and looks at nothing.

It keeps the contract of `--against` (docs/performance.md) and is the example for it. Do not use it: it types over people.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from typing import Final

POLL: Final = 0.5
"""Seconds between two looks at the graph."""

NEWS: Final = """
    SELECT GraphLog.log_id, json_extract(Nodes.data, '$.properties.subject')
    FROM GraphLog JOIN Edges ON Edges.id = GraphLog.entity_id JOIN Nodes ON Nodes.id = Edges.source
    WHERE GraphLog.log_id > ? AND Edges.target = ? AND Edges.type = 'SENT_TO' ORDER BY GraphLog.log_id
"""


def main() -> None:
    """Wake until somebody ends it."""
    graph = sqlite3.connect(f"file:{os.environ['WAKE_GRAPH']}?mode=ro", uri=True)
    (seen,) = graph.execute("SELECT COALESCE(MAX(log_id), 0) FROM GraphLog").fetchone()
    while True:
        for log_id, subject in graph.execute(NEWS, (seen, os.environ["WAKE_IDENTITY"])).fetchall():
            seen = log_id
            _type("-l", "--", f"[WAKE] new message: {subject}")
            _type("Enter")
        time.sleep(POLL)


def _type(*keys: str) -> None:
    socket, pane = os.environ["WAKE_TMUX_SOCKET"], os.environ["WAKE_PANE"]
    subprocess.run(["tmux", "-S", socket, "send-keys", "-t", pane, *keys], check=True)


if __name__ == "__main__":
    main()
