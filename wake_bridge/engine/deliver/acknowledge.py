"""What the graph's changes mean for deliveries that exist: mail read after a wake or before it, an end of the bench."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Proof
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.events import MessageDetail
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.engine.deliver.survivors import Sorted, sort_out
from wake_bridge.engine.inquiry import Inquiry
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the least, however often the log moves."""


class Acknowledge:
    """Looks at mail whenever the log has moved.

    Mail of a recent wake that was read raises its proof to 3; mail of a held delivery that was read ends the hold, and so
    does an identity's return from the bench.

    Args:
        moved: set by the tail whenever its cursor moved.
        look_again: called with an identity whose held delivery has lost an event, or its reason.
    """

    def __init__(
        self,
        ledger: Ledger,
        inquiry: Inquiry,
        current: Current,
        clock: Clock,
        *,
        moved: asyncio.Event,
        look_again: Callable[[Identity], None],
    ) -> None:
        self._ledger = ledger
        self._inquiry = inquiry
        self._current = current
        self._clock = clock
        self._moved = moved
        self._look_again = look_again
        self._log = structlog.get_logger("deliver")

    async def run(self) -> None:
        """Look for ever: once, and whenever the log moved."""
        while True:
            self._moved.clear()
            try:
                await self.look()
            except SourceError:
                # the tail says so; what was not seen now is looked at again
                self._moved.set()
            await asyncio.sleep(LOOK_EVERY)
            await self._moved.wait()

    async def look(self) -> None:
        """One look at the mail of recent and of held deliveries. Raises `SourceError`."""
        now = self._clock.now()
        for delivery in self._ledger.unacknowledged(Instant(now - self._current.settings.ack_deadline)):
            if await self._was_read(delivery):
                self._ledger.raise_proof(delivery.id, Proof.ACKNOWLEDGED, {"by": "mail read"}, now)
                self._log.info("delivery_acknowledged", delivery=delivery.id, agent=delivery.identity, by="mail read")
        for delivery in self._ledger.unsettled():
            if delivery.state is DeliveryState.DISPATCHED and delivery.hold is not None:
                events = self._ledger.events_of(delivery.id)
                judged = await sort_out(self._inquiry, self._ledger, delivery.identity, events)
                is_back = delivery.hold.reason is HoldReason.BENCHED and _participates(judged, delivery.identity)
                if judged.closed or is_back:
                    self._look_again(delivery.identity)

    async def _was_read(self, delivery: Delivery) -> bool:
        events = self._ledger.events_of(delivery.id)
        messages = [one.detail.message_id for one in events if isinstance(one.detail, MessageDetail)]
        states = await self._inquiry.mail_states([(message, delivery.identity) for message in messages])
        return any(state.is_read for state in states.values())


def _participates(judged: Sorted, identity: Identity) -> bool:
    row = judged.identities.get(identity)
    return row is None or row.participation == "active"
