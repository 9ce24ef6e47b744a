"""How an agent stands, and which routes lead to it: from the daemon, which has watched; else by looks of our own.

What looks is imported only then: it takes longer than all the rest of a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wake_bridge.config.settings import Settings
from wake_bridge.control.client import ask
from wake_bridge.control.serving import LOOKS_TAKE
from wake_bridge.domain.errors import NotFound, NotRunning
from wake_bridge.domain.names import Identity
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
        return dict(told)
    from wake_bridge.offline.inspection import looked_at

    return looked_at(settings, identity)


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


def _told(settings: Settings, question: str, identity: Identity) -> Mapping[str, Any] | None:
    """The daemon's answer; None where none runs."""
    try:
        return ask(settings.state_dir, question, identity=identity, timeout=LOOKS_TAKE)
    except NotRunning:
        return None
