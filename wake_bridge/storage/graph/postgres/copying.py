"""One end of a copy in PostgreSQL; see `storage.graph.copying`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.storage.graph.access import COLUMNS
from wake_bridge.storage.graph.postgres.connection import PostgresConnection

Row = tuple[Any, ...]

_JSON: Final = frozenset({"data", "event_payload"})
_TABLES: Final = ("edges", "nodes", "graphlog")


class PostgresSide:
    """See `copying.Side`."""

    def __init__(self, base: PostgresConnection) -> None:
        self._base = base

    @classmethod
    @contextlib.contextmanager
    def opened(cls, place: GraphUrl, *, is_read: bool) -> Iterator[PostgresSide]:
        """One transaction; the source's sees one state of all tables."""
        base = PostgresConnection(place)
        try:
            with base.transaction(snapshot=is_read):
                yield cls(base)
        finally:
            base.close()

    def rows(self, table: str) -> Iterator[Row]:
        """See `Side.rows`."""
        order = "log_id" if table == "graphlog" else "seq"
        columns = ", ".join(f"{name}::text" if name in _JSON else name for name in COLUMNS[table])
        return self._base.stream(f"SELECT {columns} FROM wake_bridge.{table} ORDER BY {order}")

    def highest(self) -> int:
        """See `Side.highest`."""
        return int(self._base.rows("SELECT last_value FROM wake_bridge.graphlog_ids")[0][0])

    def ready(self) -> None:
        """See `Side.ready`."""
        for table in _TABLES:
            self._base.run(f"DELETE FROM wake_bridge.{table}")
            # COPY refuses a table whose policies bind its owner, who may be no superuser
            self._base.run(f"ALTER TABLE wake_bridge.{table} NO FORCE ROW LEVEL SECURITY")
        for table in ("edges", "nodes"):
            self._base.run(f"ALTER TABLE wake_bridge.{table} DISABLE TRIGGER USER")
        self._base.run("DELETE FROM wake_bridge.graphlog")

    def fill(self, table: str, rows: Iterable[Row]) -> None:
        """See `Side.fill`."""
        self._base.load(f"COPY wake_bridge.{table} ({', '.join(COLUMNS[table])}) FROM STDIN", rows)

    def done(self, highest: int) -> None:
        """See `Side.done`; the rows of the log count as read by whoever has no cursor in them."""
        for table in ("edges", "nodes"):
            self._base.run(f"ALTER TABLE wake_bridge.{table} ENABLE TRIGGER USER")
        for table in _TABLES:
            self._base.run(f"ALTER TABLE wake_bridge.{table} FORCE ROW LEVEL SECURITY")
        self._base.rows("SELECT setval('wake_bridge.graphlog_ids', greatest(%s, 1), %s)", (highest, highest > 0))
        self._base.run(
            "UPDATE wake_bridge.graph SET life = gen_random_uuid(), pruned_upto = coalesce("
            "(SELECT min(log_id) - 1 FROM wake_bridge.graphlog), %s)",
            (highest,),
        )
