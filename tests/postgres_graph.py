"""What tests write into a graph in PostgreSQL and see in it, by the statements that they have for SQLite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.string import TextLoader

from wake_bridge.testing.memory_core import BROADCAST, GraphEye, MemoryCore, Row

ON_BOTH_ENGINES = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
"""Has a test of `tests/integration` run on a file and on PostgreSQL."""

_DIALECT = """
CREATE SCHEMA IF NOT EXISTS dialect;
CREATE OR REPLACE FUNCTION dialect.json_extract(data jsonb, path text) RETURNS text LANGUAGE sql IMMUTABLE
    AS $$ SELECT jsonb_path_query_first(data, path::jsonpath) #>> '{}' $$;
CREATE OR REPLACE FUNCTION dialect.json_set(data jsonb, path text, value text) RETURNS jsonb LANGUAGE sql IMMUTABLE
    AS $$ SELECT jsonb_set(data, string_to_array(substr(path, 3), '.'), coalesce(to_jsonb(value), 'null')) $$;
"""


class _Statements:
    """Runs SQLite's statements on a database with a graph."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.adapters.register_loader("jsonb", TextLoader)
        self.connection.execute(_DIALECT)
        self.connection.execute("SET search_path = wake_bridge, dialect")

    def all(self, statement: str, *values: Any) -> list[Row]:
        """All rows of one of them; none of a change."""
        said = re.sub(r"\browid\b", "seq", statement.replace("BEGIN IMMEDIATE", "BEGIN").replace("%", "%%"))
        cursor = self.connection.execute(said.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []


class PostgresEye(GraphEye):
    """A graph in PostgreSQL, seen from outside."""

    def __init__(self, url: str) -> None:
        super().__init__(Path(url))
        self._statements = _Statements(url)

    def all(self, statement: str, *values: object) -> list[Row]:
        """All rows of one statement."""
        return self._statements.all(statement, *values)

    def names(self, stored: Mapping[str, Any]) -> list[str]:
        """The names in an object: jsonb keeps no order."""
        return sorted(stored)

    def tip(self) -> int:
        """The highest id that can be seen."""
        return int(self.all("SELECT coalesce(max(log_id), 0) FROM GraphLog")[0][0])

    def close(self) -> None:
        """Give up the connection."""
        self._statements.connection.close()


class PostgresCore(MemoryCore):
    """Another program that writes a graph in PostgreSQL, each step a transaction of its own."""

    def __init__(self, url: str, identities: tuple[str, ...] = ()) -> None:
        self._statements = _Statements(url)
        self.put(BROADCAST, "BroadcastSentinel", {"name": "Broadcast", "accountType": "sentinel"})
        for identity in identities:
            self.identity(identity)

    def close(self) -> None:
        """Give up the connection."""
        self._statements.connection.close()

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Any statement."""
        return self._statements.all(statement, *values)
