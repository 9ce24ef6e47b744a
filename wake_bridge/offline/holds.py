"""What would hold a wake of an identity now, as the daemon would judge it, but for what its pane shows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

from wake_bridge.config.hosts import HostsFile
from wake_bridge.config.settings import Settings, engine_settings
from wake_bridge.control.settings_in_force import as_the_daemon_goes
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.errors import OperationFailed, SourceError
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.guards import OtherDriver, moved_to
from wake_bridge.domain.names import Identity
from wake_bridge.engine.deliver.switches import SwitchReader, holds_now
from wake_bridge.engine.settings import Current
from wake_bridge.storage.graph.nodes import find_identity
from wake_bridge.storage.graph.opened import open_graph, open_host_desk
from wake_bridge.storage.graph.upstream import find_other_driver
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock


def holds_of(settings: Settings, identity: Identity, events: Sequence[WakeEvent] = ()) -> list[Hold]:
    """All that would hold a wake of the identity now, as the daemon would judge it, but for what its pane shows.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    settings, clock = as_the_daemon_goes(settings), SteadyClock()
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        current = Current(engine_settings(settings, embedded=True))
        switches = switches_of(settings, ledger, current, clock)
        limits, participation = current.settings.limits, _participation(settings, identity)
        return holds_now(ledger, switches, limits, identity, clock.now(), events=events, participation=participation)
    finally:
        ledger.close()


def switches_of(settings: Settings, ledger: LedgerStore, current: Current, clock: SteadyClock) -> SwitchReader:
    """A reader of what a person has switched off, and of who else drives an identity; it needs no daemon."""
    return SwitchReader(
        ledger,
        current,
        clock,
        lambda: find_other_driver(settings.state_dir),
        lambda identity: _other_host(settings, identity),
    )


def _other_host(settings: Settings, identity: Identity) -> OtherDriver | None:
    """Which other host on the same graph serves it, or is about to; None where none does, or nobody can tell."""
    with suppress(SourceError, OperationFailed):
        desk = open_host_desk(settings.graph_place) if settings.has_graph else None
        if desk is not None:
            own = HostsFile(settings.state_dir).known().own
            with closing(desk):
                host, wanted = desk.server_of(identity), desk.wanted_for(identity)
            if host and host != own:
                return OtherDriver(host, Cause.OTHER_HOST)
            if not host and wanted and wanted != own:
                return moved_to(wanted)
    return None


def served_elsewhere(settings: Settings, identity: Identity) -> Hold | None:
    """The hold of an identity that another host on the same graph serves; None where none does, or nobody can tell."""
    other = _other_host(settings, identity)
    if other is None or other.cause is not Cause.OTHER_HOST:
        return None
    return Hold(other.cause.reason, other.told, cause=other.cause)


def _participation(settings: Settings, identity: Identity) -> str:
    with suppress(SourceError), open_graph(settings.graph_place) as graph:
        node = find_identity(graph, identity)
        return str((node.properties.get("participationStatus") if node else None) or "active")
    return "active"
