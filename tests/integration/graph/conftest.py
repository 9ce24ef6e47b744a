"""A new embedded graph, an eye on it, and a copy of a file that the real services wrote."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_graph import PostgresEye
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.nodes import put_identity
from wake_bridge.storage.graph.opened import open_graph_to_write
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.testing.memory_core import GraphEye

REAL = Path(__file__).parents[2] / "fixtures/neo-real.sqlite"
FOR_ALL = ("test_graph_mailboxes", "test_graph_shapes", "test_graph_subscriptions", "test_graph_tasks")
NOW = "2026-11-27T21:53:52.502Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new embedded graph."""
    place = tmp_path / "data/graph.sqlite"
    assert create_embedded_graph(place, NOW)
    return place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What every graph promises is asked of each engine; a test that looks at the file itself has only that one."""
    asked = inspect.signature(metafunc.function).parameters
    if Path(metafunc.module.__file__ or "").stem in FOR_ALL and "graph" in asked and "path" not in asked:
        metafunc.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def graph(graph_url: str, request: pytest.FixtureRequest) -> Iterator[WritableGraph]:
    """A new graph of ours, opened for writing, with three agents and a person."""
    place = GraphUrl(graph_url) if graph_url else request.getfixturevalue("path")
    with open_graph_to_write(place) as writer:
        for name in ("@ada", "@bob", "@cyd"):
            put_identity(writer, name, NOW)
        put_identity(writer, "@tobi", NOW, human=True)
        yield writer


@pytest.fixture
def eye(graph_url: str, request: pytest.FixtureRequest) -> Iterator[GraphEye]:
    """Looks at that graph from outside."""
    if not graph_url:
        yield GraphEye(request.getfixturevalue("path"))
        return
    eye = PostgresEye(graph_url)
    yield eye
    eye.close()


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A copy of the file that the real services wrote."""
    copy = tmp_path / "real.sqlite"
    shutil.copy(REAL, copy)
    return copy
