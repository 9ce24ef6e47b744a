"""The order in which it is left: what runs, what others read, and last, if it is wished, what is ours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.errors import AlreadyRunning, OperationFailed
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.ledger_store import LedgerStore
from wake_bridge.edges.service.instance_lock import InstanceLock, holder, liveness
from wake_bridge.edges.service.manager import ServiceManager, service_manager
from wake_bridge.leaving.account import Account
from wake_bridge.leaving.purge import purge, remaining
from wake_bridge.leaving.taken_back import files, panes, subscriptions, targets

GONE_WITHIN: Final = 10.0
"""Seconds that a daemon has to end once its service was stopped; it promises five."""


def leave(settings: Settings, environment: Mapping[str, str], *, dry_run: bool, with_state: bool) -> Account:
    """Take back what `service install`, `bind` and `setup` wrote.

    Safe to repeat: what is gone already is no matter. What cannot be taken back is named, and stays on record.

    Args:
        settings: those in force.
        environment: of the person who asks; says where the service manager is.
        dry_run: write nothing; the answer says what would be done.
        with_state: remove state directory, embedded graph and configuration too, so far as they are ours.

    Raises:
        AlreadyRunning: a daemon runs that no service started, or that does not end; a dry run only names it.
    """
    account = Account(dry_run=dry_run)
    manager = _manager(environment)
    if other := _other_daemon(settings, manager):
        if not dry_run:
            raise other
        account.stays.append(f"{other.what}: it has to be stopped first ({other.hint})")
    account.open = _unsettled(settings)
    with account.step():
        if manager is not None:
            account.done += manager.uninstall(force=False, dry_run=dry_run)
    with _alone(settings, account):
        for step in (panes, files, targets, subscriptions):
            with account.step():
                step(settings, account)
        if with_state and not account.troubles:
            purge(settings, account)
    if not with_state:
        account.stays += remaining(settings)
    return account


def _manager(environment: Mapping[str, str]) -> ServiceManager | None:
    try:
        return service_manager(environment)
    except OperationFailed:
        # a platform without one has no service to remove
        return None


def _other_daemon(settings: Settings, manager: ServiceManager | None) -> AlreadyRunning | None:
    """A daemon that the service manager did not start: it is not stopped here."""
    if liveness(settings.state_dir) != "yes":
        return None
    running = holder(settings.state_dir)
    service = manager.standing() if manager is not None else None
    if running is not None and (service is None or running.pid != service.pid):
        return AlreadyRunning(
            f"a daemon runs that no service started: {running}",
            str(settings.state_dir),
            hint=f"stop it with Ctrl-C in its terminal or `kill {running.pid}`, then run this again",
        )
    return None


@contextmanager
def _alone(settings: Settings, account: Account) -> Iterator[None]:
    """No daemon runs, and none starts, until it is done."""
    if account.dry_run or not settings.state_dir.is_dir():
        yield
        return
    give_up = time.monotonic() + GONE_WITHIN
    while liveness(settings.state_dir) == "yes" and time.monotonic() < give_up:
        time.sleep(0.1)
    with InstanceLock(settings.state_dir):
        yield


def _unsettled(settings: Settings) -> list[Delivery]:
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        return ledger.unsettled()
    finally:
        ledger.close()
