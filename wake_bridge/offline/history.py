"""History without the daemon: what happened to something, and the state of everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wake_bridge.config.settings import Settings, engine_settings, installed_adapters, matching_rules
from wake_bridge.control.serving import DaemonState, serving
from wake_bridge.control.settings_in_force import as_the_daemon_goes
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.explanation import TimeFormat
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.engine.explain.explainer import Explainer, WhyReport
from wake_bridge.engine.explain.overview import IdentityOverview, overview
from wake_bridge.engine.settings import Current
from wake_bridge.offline.holds import switches_of
from wake_bridge.storage.graph.absent import open_log
from wake_bridge.storage.graph.status import book_here
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock


def look_into(
    settings: Settings,
    asked: str,
    identity: Identity | None,
    clock: Callable[[Instant], str],
    unreached: Callable[[Identity], Hold | None] = lambda _: None,
) -> WhyReport:
    """What became of a message, a task or a log row; changes nothing.

    Args:
        settings: those of the command; where a daemon runs, it judges by its own.
        asked: the id or the number, as it was given.
        identity: whose case; None for everybody concerned.
        clock: an instant in words of the person's own clock.
        unreached: why an identity cannot be reached now; None where it can, or nobody looks.

    Raises:
        NotFound: neither graph nor ledger know it, or the identity.
        SourceError: the graph cannot be read, and the ledger alone knows nothing of it.
        LedgerError: the ledger cannot be read.
    """
    settings, steady = as_the_daemon_goes(settings), SteadyClock()
    daemon = serving(settings.state_dir, settings.graph_place)
    log = open_log(settings)
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        # what the graph adds to the settings concerns the digest alone
        current = Current(engine_settings(settings, embedded=True))
        explainer = Explainer(
            log,
            ledger,
            matching_rules(settings, installed_adapters()),
            current,
            switches_of(settings, ledger, current, steady),
            is_running=daemon.state is not DaemonState.NOT_RUNNING,
            times=TimeFormat(steady.now(), clock),
            unreached=unreached,
        )
        report = explainer.explain(asked, identity)
        if daemon.trouble:
            unwritten = f"the daemon sends no wake, for it cannot write down what it does: {daemon.trouble}"
            return replace(report, notes=[*report.notes, unwritten])
        return report
    finally:
        ledger.close()
        log.close()


def overview_without_daemon(settings: Settings) -> list[IdentityOverview]:
    """How every identity stands, from the ledger alone: nobody watches the panes. Raises `LedgerError`."""
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        engine = engine_settings(settings, embedded=True)
        now, known = SteadyClock().now(), _reachable(settings)
        return overview(ledger, known, lambda _: None, engine.limits, now, engine.notice_after_ms)
    finally:
        ledger.close()


def _reachable(settings: Settings) -> set[Identity]:
    """Everyone with a subscription that can wake, or a target; the targets alone where the graph cannot be read."""
    targets = {Identity(name) for name in settings.config.targets}
    try:
        return targets | book_here(settings).identities()
    except SourceError:
        return targets
