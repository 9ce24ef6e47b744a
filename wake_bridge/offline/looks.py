"""How an agent stands, and which routes lead to it: from the daemon, which has watched; else by looks of our own.

What looks is imported only then: it takes longer than all the rest of a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from wake_bridge.config.settings import Settings
from wake_bridge.control.client import ask
from wake_bridge.control.serving import LOOKS_TAKE, PATIENCE, hold_told, view_of
from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.errors import NotFound, NotRunning, OperationFailed
from wake_bridge.domain.homes import FragileName, Home, Reach
from wake_bridge.domain.names import Identity
from wake_bridge.domain.reasons import held_because
from wake_bridge.storage.graph.nodes import require_known


def presence_now(settings: Settings, identity: Identity) -> dict[str, Any]:
    """How an identity's agent stands; without the daemon by two looks.

    Raises:
        NotFound: neither graph nor configuration knows the identity.
        OperationFailed: the daemon did not answer.
        LedgerError: the ledger cannot be read.
    """
    require_known(settings, identity)
    told = _told(settings, "presence", identity)
    if told is not None:
        return _naming_its_host(settings, identity, told)
    from wake_bridge.offline.inspection import looked_at

    return _naming_its_host(settings, identity, looked_at(settings, identity))


def _naming_its_host(settings: Settings, identity: Identity, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record; where its agent is not here and another host on the graph serves it, that host is the reason and the remedy."""
    if record["holdReason"] != HoldReason.UNREACHABLE or record["host"] is not None:
        return dict(record)
    from wake_bridge.offline.holds import served_elsewhere

    hold = served_elsewhere(settings, identity)
    if hold is None:
        return dict(record)
    told = {"why": held_because(hold, identity), "remedy": hold.remedy(identity)}
    return {**record, **told, "holdReason": hold.reason, "cause": hold.cause}


def routes_now(settings: Settings, identity: Identity) -> dict[str, Any]:
    """The routes to an identity's agent, and what the table decides. Raises as `presence_now` does."""
    try:
        require_known(settings, identity)
        told = _told(settings, "routes", identity)
    except NotFound:
        # one that is subscribed without being an identity has routes as well
        told = None
    if told is not None:
        return dict(told)
    from wake_bridge.offline.inspection import routes_looked_at

    return routes_looked_at(settings, identity)


def homes_now(settings: Settings, identities: Sequence[Identity], subscriptions: str) -> Mapping[Identity, Home]:
    """Where each identity can be woken: as the daemon says, else by a look of our own.

    The daemon does not say it where it has another view (`view_of`) or has not read the newest subscriptions.

    Args:
        settings: of the command.
        identities: whose homes.
        subscriptions: `fingerprint_of` all subscriptions in the graph.

    Raises:
        ConfigurationInvalid: an adapter refuses its table.
        LedgerError: the ledger cannot be read.
    """
    view = view_of(settings.fingerprint, settings.fallback_pane, os.environ)
    question: dict[str, Any] = {"identities": [*identities], "subscriptions": subscriptions, "view": view}
    try:
        told = ask(settings.state_dir, "homes", timeout=PATIENCE, **question)["homes"]
        if told is not None:
            return {one: _home(told[one]) for one in identities}
    except (NotRunning, OperationFailed, LookupError, TypeError, ValueError):
        # none runs, or it is stuck, or it is of another release: then we look
        pass
    import asyncio

    from wake_bridge.offline.inspection import Inspection

    return asyncio.run(Inspection(settings).homes(identities))


def _home(record: Mapping[str, Any]) -> Home:
    """The home that `home_record` wrote."""
    reach, fragile = record["reach"], record["fragile"]
    if fragile is not None:
        fragile = FragileName(**fragile | {one: tuple(fragile[one]) for one in ("doubts", "commands")})
    return Home(
        reach=Reach(**reach | {"hold": hold_told(reach["hold"]) if reach["hold"] else None}),
        speaker=str(record["speaker"]),
        pane=str(record["pane"]),
        is_placed=bool(record["is_placed"]),
        shut={one: hold_told(hold) for one, hold in record["shut"].items()},
        fragile=fragile,
    )


def _told(settings: Settings, question: str, identity: Identity) -> Mapping[str, Any] | None:
    """The daemon's answer; None where none runs."""
    try:
        return ask(settings.state_dir, question, identity=identity, timeout=LOOKS_TAKE)
    except NotRunning:
        return None
