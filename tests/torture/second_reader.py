"""A second consumer of the change log, as upstream's bridge daemon is one: its own process, its own cursor file.

    python second_reader.py GRAPH DIRECTORY SECONDS_BETWEEN_LOOKS

It reads the delta after its cursor and what the rows point at, sleeps, and does so again until its standard input ends;
then it looks once more. The rows it saw are appended to DIRECTORY/rows, its cursor stands in DIRECTORY/lastSyncId.
"""

from __future__ import annotations

import json
import select
import sqlite3
import sys
from pathlib import Path

_DELTA = "SELECT log_id, entity_id, entity_type FROM GraphLog WHERE log_id > ? ORDER BY log_id LIMIT 1000"


def main() -> None:
    """Read until standard input ends; the last line printed is its account."""
    graph, directory, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    connection = sqlite3.connect(f"{graph.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
    cursor_file = directory / "lastSyncId"
    cursor, looks, errors = int(cursor_file.read_text()), 0, []
    is_over = False
    with (directory / "rows").open("a", encoding="utf-8") as seen:
        while True:
            try:
                rows = connection.execute(_DELTA, (cursor,)).fetchall()
                for log_id, entity_id, entity_type in rows:
                    table = "Edges" if entity_type == "edges" else "Nodes"
                    connection.execute(f"SELECT data FROM {table} WHERE id = ?", (entity_id,)).fetchone()
                    seen.write(json.dumps([log_id, entity_id, entity_type]) + "\n")
                    cursor = log_id
            except sqlite3.Error as error:
                errors.append(repr(error))
                rows = []
            looks += 1
            draft = cursor_file.with_suffix(".new")
            draft.write_text(str(cursor))
            draft.rename(cursor_file)
            if rows:
                continue
            if is_over:
                break
            is_over = bool(select.select([sys.stdin], [], [], pause)[0])
    print(json.dumps({"cursor": cursor, "looks": looks, "errors": errors}), flush=True)


if __name__ == "__main__":
    main()
