"""What a command can tell about the past without the daemon: `why` (CONTRACT "Daemon and diagnosis")."""

from __future__ import annotations

from collections.abc import Callable

from wake_bridge.domain.case import Teller
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.edges.change_log.sqlite_graph import SqliteGraph
from wake_bridge.edges.configuration.config import Settings, installed_adapters
from wake_bridge.edges.configuration.matching_rules import matching_rules
from wake_bridge.edges.ledger_store import LedgerStore
from wake_bridge.edges.service.instance_lock import daemon_is_running
from wake_bridge.edges.service.other_driver import find_other_driver
from wake_bridge.edges.steady_clock import SteadyClock
from wake_bridge.engine.inquest import Inquest, Report
from wake_bridge.engine.settings import Current
from wake_bridge.engine.switchboard import Switchboard
from wake_bridge.wiring import engine_settings


def look_into(settings: Settings, asked: str, identity: Identity | None, clock: Callable[[Instant], str]) -> Report:
    """What became of a message, a task or a log row; changes nothing.

    Args:
        settings: the settings in force.
        asked: the id or the number, as it was given.
        identity: whose case; None for everybody concerned.
        clock: an instant in words of the person's own clock.

    Raises:
        NotFound: neither graph nor ledger know it, or the identity.
        SourceError: the graph cannot be read, and the ledger alone knows nothing of it.
        LedgerError: the ledger cannot be read.
    """
    steady = SteadyClock()
    log = SqliteGraph(settings.graph_path)
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        # what the graph adds to the settings concerns the digest alone
        current = Current(engine_settings(settings, embedded=True))
        inquest = Inquest(
            log,
            ledger,
            matching_rules(settings, installed_adapters()),
            current,
            Switchboard(ledger, current, steady, lambda: find_other_driver(settings.state_dir)),
            is_running=daemon_is_running(settings.state_dir),
            teller=Teller(steady.now(), clock),
        )
        return inquest.about(asked, identity)
    finally:
        ledger.close()
        log.close()
