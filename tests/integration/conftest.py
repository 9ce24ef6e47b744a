"""What tests of the ledger, and of what stands on it, begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.ports.ledger_records import NewId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids, fresh_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerStore]:
    """A ledger at the beginning of epoch 1."""
    with fresh_ledger(tmp_path) as ledger:
        yield ledger


@pytest.fixture
def new_id() -> NewId:
    """Ids that sort by the order in which they were made."""
    return counted_ids()


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """What holds the graph; a test that is asked of both has it as a parameter."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def graph_url(engine: str, request: pytest.FixtureRequest) -> str:
    """Of an empty graph in PostgreSQL; empty where the graph is a file."""
    return str(request.getfixturevalue("postgres_url")) if engine == "postgres" else ""
