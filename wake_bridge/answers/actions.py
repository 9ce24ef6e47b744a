"""What the daemon does when a command asks: looks now, or reloads the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from wake_bridge.control.server import Answer, Handler
from wake_bridge.domain.errors import ConfigurationInvalid, LedgerError
from wake_bridge.domain.names import Identity
from wake_bridge.wiring import Parts


class Actions:
    """Acts on the daemon's parts.

    Args:
        parts: the running daemon.
        reload: takes the configuration over again; answers what was wrong with it.
    """

    def __init__(self, parts: Parts, reload: Callable[[], ConfigurationInvalid | None]) -> None:
        self._parts = parts
        self._reload_configuration = reload

    def handlers(self) -> Mapping[str, Handler]:
        """One for each command."""
        return {"poke": self._poke, "reload": self._reload}

    async def _poke(self, request: Mapping[str, Any]) -> Answer:
        if moved := request.get("moved"):
            self._parts.watch.has_moved(Identity(str(moved)))
        self._parts.tail.poke()
        self._parts.deliverer.look_at(None)
        if not self._parts.is_dry_run:
            # a ledger that cannot be written is told of by the chores
            with suppress(LedgerError):
                self._parts.notices.outbox.tick(self._parts.clock.now())
        return {"ok": True}

    async def _reload(self, _: Mapping[str, Any]) -> Answer:
        refused = self._reload_configuration()
        if refused is not None:
            raise refused
        return {"ok": True}
