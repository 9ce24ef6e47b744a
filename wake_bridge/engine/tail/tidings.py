"""What a page brought: a line in the log for each event, and a nudge to whoever delivers them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from wake_bridge.domain.events import EventStatus, WakeEvent

LOGGED_ONE_BY_ONE: Final = 10
"""Events of one page that get a line each; more get one line together."""

_KEY_SHOWN: Final = 200


class Tidings:
    """Tells of events that are new in the ledger.

    Args:
        on_events: called when some of them are open; may be a coroutine function.
    """

    def __init__(self, on_events: Callable[[], Awaitable[None] | None]) -> None:
        self._on_events = on_events
        self._log = structlog.get_logger("tail")
        self.open_events = 0

    async def tell(self, new: Sequence[WakeEvent]) -> None:
        """Log them and nudge."""
        if len(new) > LOGGED_ONE_BY_ONE:
            self._log.info("event_matched", events=len(new), identities=len({event.identity for event in new}))
        else:
            for event in new:
                self._log_event(event)
        opened = sum(event.status is EventStatus.OPEN for event in new)
        self.open_events += opened
        if opened:
            await self.nudge()

    async def nudge(self) -> None:
        """Have what is open looked at."""
        told = self._on_events()
        if inspect.isawaitable(told):
            await told

    def _log_event(self, event: WakeEvent) -> None:
        facts = {"agent": event.identity, "kind": event.kind.value, "subject_key": event.subject_key[:_KEY_SHOWN]}
        if event.status is EventStatus.REFUSED:
            self._log.info("event_refused", **facts, log_id=event.log_id, reason=event.refused_by)
        else:
            self._log.info("event_matched", **facts, log_id=event.log_id, policy=event.policy.value)
