"""Whom a heartbeat that is not ours must skip: two drivers must never serve one identity."""

from __future__ import annotations

from wake_bridge.config.settings import Settings, engine_settings
from wake_bridge.control.serving import DaemonState, daemon_state, reach_by_daemon
from wake_bridge.domain.names import Identity
from wake_bridge.domain.nudges import HEARTBEAT, Driver, drivers
from wake_bridge.domain.receivers import PUSHED_TARGET
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.storage.graph.status import book_here
from wake_bridge.storage.ledger import LedgerStore


def driven_elsewhere(settings: Settings) -> dict[Identity, Driver]:
    """Whom a heartbeat that is not ours must skip: the push-capable, and while our daemon runs those it serves.

    Raises:
        SourceError: the graph cannot be read.
        LedgerError: the ledger cannot be read.
    """
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    bound = {*ledger.bindings(), *map(Identity, settings.config.targets)}
    ledger.close()
    book = book_here(settings)
    shut = _not_posted(settings, book)
    found = drivers(book, bound if settings.has_graph else (), lambda receiver: receiver.subscription_id in shut)
    unplaced = set(book.unplaced())
    skipped = {Driver.PUSH}
    # where nobody can tell, another heartbeat must keep away
    if daemon_state(settings.state_dir) is not DaemonState.NOT_RUNNING:
        nudges = settings.config.adapters.get(HEARTBEAT, {}).get("enabled", True)
        skipped |= {Driver.BRIDGE, *([Driver.HEARTBEAT] if nudges else [])}
    driven = {identity: driver for identity, driver in sorted(found.items()) if driver in skipped}
    # whose adapter is not there is woken by a channel that the daemon has found, or by nobody
    unplaced |= _only_pushed(book, settings)
    doubtful = [identity for identity, driver in driven.items() if driver is Driver.BRIDGE and identity in unplaced]
    told = reach_by_daemon(settings.state_dir, doubtful)
    unreached = {one for one in doubtful if one in told and told[one]["hold"] is not None}
    return {identity: driver for identity, driver in driven.items() if identity not in unreached}


def _only_pushed(book: SubscriptionBook, settings: Settings) -> set[Identity]:
    """Whom nothing but an MCP client wakes; whether one takes wakes now, the daemon knows."""
    targets = engine_settings(settings, embedded=True).targets
    return {
        who
        for who, target in targets.items()
        if not target.is_place and all(one.harness_target == PUSHED_TARGET for one in book.of(who))
    }


def _not_posted(settings: Settings, book: SubscriptionBook) -> set[str]:
    """The subscriptions whose receiver is posted nothing now."""
    posted = [(one.identity, one.receiver) for one in book.all() if one.receiver is not None and one.is_posted]
    if not posted:
        return set()
    import asyncio  # noqa: PLC0415 - both load all that looks, and there is seldom a receiver

    from wake_bridge.offline.inspection import Inspection  # noqa: PLC0415

    view = Inspection(settings)

    async def shut() -> set[str]:
        return {to.subscription_id for who, to in posted if await view.not_posted(who, to) is not None}

    return asyncio.run(shut())
