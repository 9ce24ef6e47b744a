"""One record for the whole run: every table is printed, and all of them together are left in `docs`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.report import Record

TABLES = 9
"""How many a complete run brings; a part of it leaves the committed figures alone."""


@pytest.fixture(scope="session")
def record() -> Iterator[Record]:
    """Where tables go; `WAKE_BRIDGE_TORTURE_SEED` runs the trials of an earlier run again."""
    record = Record(int(os.environ.get("WAKE_BRIDGE_TORTURE_SEED") or secrets.randbelow(2**31)))
    print(f"\nseed {record.seed}")
    yield record
    if len(record.tables) == TABLES:
        record.write()


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new directory with a short name."""
    return tmp_path_factory.mktemp("torture")
