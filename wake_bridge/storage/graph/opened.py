"""Opens and makes a graph, whatever engine holds it. What a graph in PostgreSQL needs is imported for one alone."""

from __future__ import annotations

from wake_bridge.domain.errors import SourceMissing
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.ports.leases import HostDesk
from wake_bridge.storage.graph.access import Graph, WritableGraph
from wake_bridge.storage.graph.graph_file import GraphFile, GraphWriter
from wake_bridge.storage.graph.schema import create_embedded_graph


def open_graph(place: GraphPlace) -> Graph:
    """Open a graph to look at.

    Raises:
        SourceMissing: there is none.
        SourceNotAGraph: what is there is none.
        SourceUnavailable: locked, away or unreadable for now; or it is in PostgreSQL, and the extra is not installed.
    """
    if isinstance(place, GraphUrl):
        from wake_bridge.storage.graph.postgres.graph import PostgresReader  # noqa: PLC0415 - an extra

        return PostgresReader(place)
    return GraphFile(place)


def open_graph_to_write(place: GraphPlace, *, allow_foreign: bool = False) -> WritableGraph:
    """Open a graph to write; errors as those of `open_graph`.

    Raises:
        RefusedForSafety: it is foreign, and that was not allowed.
    """
    if isinstance(place, GraphUrl):
        from wake_bridge.storage.graph.postgres.graph import PostgresWriter  # noqa: PLC0415 - an extra

        return PostgresWriter(place)
    return GraphWriter(place, allow_foreign=allow_foreign)


def graph_exists(place: GraphPlace) -> bool:
    """Whether something is there that may be a graph. Raises `SourceUnavailable` where a server does not tell."""
    if isinstance(place, GraphUrl):
        try:
            open_graph(place).close()
        except SourceMissing:
            return False
        return True
    return place.exists()


def create_graph(place: GraphPlace, now: str) -> bool:
    """Make the graph, unless something is there already; answers whether it was made.

    Args:
        place: where.
        now: the creation time as text.

    Raises:
        OperationFailed: the disk or the server refuses.
        SourceError: the server does not answer, or holds a graph of another version.
    """
    if isinstance(place, GraphUrl):
        from wake_bridge.storage.graph.postgres.graph import create_postgres_graph  # noqa: PLC0415 - an extra

        return create_postgres_graph(place, now)
    return create_embedded_graph(place, now)


def open_host_desk(place: GraphPlace) -> HostDesk | None:
    """What a person does about the hosts that share a graph; None where none can. Errors as those of `open_graph`."""
    if not isinstance(place, GraphUrl):
        return None
    from wake_bridge.storage.graph.postgres.leases import PostgresHostDesk  # noqa: PLC0415 - an extra

    return PostgresHostDesk(place)
