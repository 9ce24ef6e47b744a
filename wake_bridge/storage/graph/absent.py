"""The log of the configured graph. Without a graph the log is empty, and the daemon serves signed wakes alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from wake_bridge.config.settings import Settings, signed_subscriptions
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.ports.change_log import (
    Census,
    ChangeLog,
    ChangeSignal,
    EdgeRow,
    IdentityRow,
    Json,
    LogBounds,
    LogEntry,
    MailState,
    Page,
    Traces,
)
from wake_bridge.storage.graph.change_log import SqliteGraph

_START: Final = LogId(0)


def open_log(settings: Settings) -> ChangeLog:
    """The graph's log; without a graph one in which nothing ever stands."""
    if settings.has_graph:
        return log_at(settings.graph_place)
    return NoGraph(one.identity for one in signed_subscriptions(settings))


def log_at(place: GraphPlace) -> ChangeLog:
    """The log of the graph that lies there; opened on first use."""
    if isinstance(place, GraphUrl):
        from wake_bridge.storage.graph.postgres.change_log import PostgresGraph  # noqa: PLC0415 - an extra

        return PostgresGraph(place)
    return SqliteGraph(place)


def hints_of(settings: Settings, report: Callable[[str], None]) -> ChangeSignal:
    """What hints at changes of the graph; `report` is told, once, when there can be no hints."""
    from wake_bridge.storage.graph.signal import SilentSignal, signal_for  # noqa: PLC0415 - commands wait for no hints

    place, is_wanted = settings.graph_place, settings.config.graph.watch and settings.has_graph
    if isinstance(place, Path):
        return signal_for(place, report, enabled=is_wanted)
    if not is_wanted:
        return SilentSignal()
    from wake_bridge.storage.graph.postgres.signal import PostgresSignal  # noqa: PLC0415 - an extra

    return PostgresSignal(place, report)


class NoGraph:
    """See `ports.change_log.ChangeLog`.

    Args:
        identities: who is woken here, by the configuration: a digest may name them.
    """

    def __init__(self, identities: Iterable[Identity]) -> None:
        self._identities = {one: IdentityRow(one) for one in identities}

    def read_after(self, cursor: LogId, limit: int, snapshot: str = "") -> Page:  # noqa: ARG002 - the port's signature
        """Nothing."""
        return Page((), (), cursor, "", 0)

    def bounds(self) -> LogBounds:
        """An empty log."""
        return LogBounds(_START, _START)

    def fingerprint_at(self, log_id: LogId) -> str | None:  # noqa: ARG002 - the port's signature
        """No row."""
        return None

    def is_embedded(self) -> bool:
        """The mail lies elsewhere."""
        return False

    def version(self) -> tuple[int, int, int]:
        """Nothing is ever committed."""
        return 0, 0, 0

    def heal(self) -> bool:
        """Nothing is open."""
        return False

    def reopen(self) -> None:
        """Nothing is open."""

    def subscriptions(self) -> list[tuple[str, Json]]:
        """None."""
        return []

    def subscription(self, subscription_id: str) -> Json | None:  # noqa: ARG002 - the port's signature
        """None."""
        return None

    def identities(self, only: Identity | None = None) -> Mapping[Identity, IdentityRow]:  # noqa: ARG002
        """Those of the configuration."""
        return self._identities

    def census(self) -> Census:
        """Nothing."""
        return Census(_START, "", ())

    def logged_before(self, edge_ids: Collection[str], upto: LogId, snapshot: str = "") -> frozenset[str]:  # noqa: ARG002
        """None."""
        return frozenset()

    def typed_tasks_after(self, log_id: LogId) -> frozenset[str]:  # noqa: ARG002 - the port's signature
        """None."""
        return frozenset()

    def node(self, node_id: str) -> Json | None:  # noqa: ARG002 - the port's signature
        """None."""
        return None

    def has_audience(self, message_id: str) -> bool:  # noqa: ARG002 - the port's signature
        """No."""
        return False

    def mail_states(self, pairs: Sequence[tuple[str, Identity]]) -> Mapping[tuple[str, Identity], MailState]:
        """Nobody knows what is read: it counts as unread."""
        return {pair: MailState(exists=True, addressed=True, is_read=False) for pair in pairs}

    def edges_present(self, edge_ids: Sequence[str]) -> set[str]:
        """Nobody knows what was withdrawn."""
        return set(edge_ids)

    def unread_mail(self, identity: Identity, since: Instant | None) -> list[tuple[str, Json, EdgeRow]]:  # noqa: ARG002
        """None."""
        return []

    def presences(self, since: Instant) -> list[Json]:  # noqa: ARG002 - the port's signature
        """None."""
        return []

    def recent_mail(self, since: Instant) -> list[str]:  # noqa: ARG002 - the port's signature
        """None."""
        return []

    def mail_edges(self, message_ids: Sequence[str]) -> list[LogEntry]:  # noqa: ARG002 - the port's signature
        """None."""
        return []

    def traces_of(self, entity_id: str) -> Traces:  # noqa: ARG002 - the port's signature
        """None."""
        return Traces()

    def touched(self, after: LogId, upto: LogId) -> set[str]:  # noqa: ARG002 - the port's signature
        """Nothing."""
        return set()

    def note_reader(self, reader: str, cursor: LogId, snapshot: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""
