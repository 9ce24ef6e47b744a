"""A new embedded graph, an eye on it, and a copy of a file that the real services wrote."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.storage.graph.graph_file import GraphWriter
from wake_bridge.storage.graph.nodes import put_identity
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.testing.memory_core import GraphEye

REAL = Path(__file__).parents[2] / "fixtures/neo-real.sqlite"
NOW = "2026-11-27T21:53:52.502Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new embedded graph."""
    place = tmp_path / "data/graph.sqlite"
    assert create_embedded_graph(place, NOW)
    return place


@pytest.fixture
def graph(path: Path) -> Iterator[GraphWriter]:
    """The embedded graph, opened for writing, with three agents and a person."""
    with GraphWriter(path) as writer:
        for name in ("@ada", "@bob", "@cyd"):
            put_identity(writer, name, NOW)
        put_identity(writer, "@tobi", NOW, human=True)
        yield writer


@pytest.fixture
def eye(path: Path) -> GraphEye:
    """Looks at the embedded graph from outside."""
    return GraphEye(path)


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A copy of the file that the real services wrote."""
    copy = tmp_path / "real.sqlite"
    shutil.copy(REAL, copy)
    return copy
