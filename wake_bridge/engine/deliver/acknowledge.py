"""Applies the graph's changes to existing deliveries: mail that was read, an identity that is no longer benched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Proof
from wake_bridge.domain.errors import IllegalTransition, SourceError, StaleLease
from wake_bridge.domain.events import EventStatus, MessageDetail, WakeEvent
from wake_bridge.domain.names import EPOCH_START, Epoch, Identity, Instant, LogId, to_beat
from wake_bridge.domain.signed_wakes import is_signed
from wake_bridge.engine.deliver.relevance import events_of, judge_events
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.settings import Current
from wake_bridge.ports.change_log import MailState, participates
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the least, however often the log moves."""

ENDS_EVERY: Final = 5.0
"""Seconds between two looks at what was settled, while the log does not move."""

ROWS_AT_ONCE: Final = 1000
"""Rows of the log whose subjects are looked up at once: nothing else must wait for more of them."""

ROWS_FOLLOWED: Final = 100_000
"""Rows of the log after which all mail is looked at anew instead of what they name."""

LogPosition = tuple[Epoch, LogId, int]
Followed = tuple[Delivery, Sequence[WakeEvent]]

_UNREAD: Final = MailState(exists=True, addressed=True, is_read=False)


class Acknowledge:
    """Follows the log, and looks at the mail that it names.

    Mail of a recent wake that was read raises its proof to 3; mail of a held delivery that was read ends the hold, and so
    does an identity's return from the bench. A flood of other mail costs no look at what it does not name.

    Args:
        place: where the tail stands, and how often it has read rows that were committed late, below that.
        moved: set by the tail whenever its cursor moved.
        look_again: called with an identity whose held delivery has lost an event, or its reason.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        current: Current,
        clock: Clock,
        *,
        place: Callable[[], LogPosition],
        moved: asyncio.Event,
        look_again: Callable[[Identity], None],
    ) -> None:
        self._ledger = ledger
        self._queries = queries
        self._current = current
        self._clock = clock
        self._place = place
        self._moved = moved
        self._look_again = look_again
        self._settled_before = EPOCH_START
        self._log = structlog.get_logger("deliver")

    async def run(self) -> None:
        """Look for ever: at everything first, and whenever the log is not the one that was followed."""
        seen: LogPosition | None = None
        time = asyncio.get_running_loop().time
        while True:
            self._moved.clear()
            looked_at, place = time(), self._place()
            try:
                if seen is None or not _is_further(seen, place):
                    if place != seen:
                        await self.look()
                else:
                    await self._follow(seen[1], place[1])
                await self._look_at_new_ends()
                seen = place
            except SourceError:
                # the tail says so; what was not seen now is looked at again
                self._moved.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(to_beat(ENDS_EVERY, time())):
                    await self._moved.wait()
            await asyncio.sleep(looked_at + LOOK_EVERY - time())

    async def look(self) -> None:
        """One look at the mail of all recent and all held deliveries. Raises `SourceError`."""
        for delivery in self._ledger.unacknowledged(self._recent()):
            await self._look_at_ended((delivery, await events_of(self._ledger, delivery.id)))
        for delivery in self._ledger.unsettled():
            if delivery.state is DeliveryState.DISPATCHED and delivery.hold is not None:
                await self._look_at_held(delivery, await events_of(self._ledger, delivery.id))
            elif delivery.awaits_ack:
                await self._look_at_ended((delivery, await events_of(self._ledger, delivery.id)))

    async def _follow(self, after: LogId, upto: LogId) -> None:
        """Look at what those rows name."""
        while after < upto:
            until = LogId(min(after + ROWS_AT_ONCE, upto))
            touched = await self._queries.touched(after, until)
            concerned = self._ledger.concerned(touched, self._recent())
            await self._look_at_ended(*[one for one in concerned if _has_ended(one[0])])
            for delivery, events in await self._with_news([one for one in concerned if not _has_ended(one[0])]):
                await self._look_at_held(delivery, events)
            for delivery in self._ledger.held_for(HoldReason.BENCHED):
                if delivery.identity in touched:
                    self._look_again(delivery.identity)
            after = until

    async def _with_news(self, held: Sequence[Followed]) -> list[Followed]:
        """Leaves out what another host drives and whose mail still waits: one question tells that of all of it."""
        elsewhere = (one for one in held if one[0].hold is not None and one[0].hold.cause is Cause.OTHER_HOST)
        mail = {
            delivery.id: _mail_of(delivery, events)
            for delivery, events in elsewhere
            if all(isinstance(one.detail, MessageDetail) for one in events)
        }
        states = await self._queries.mail_states([pair for pairs in mail.values() for pair in pairs])
        waits = {one for one, pairs in mail.items() if all(states.get(pair) == _UNREAD for pair in pairs)}
        return [one for one in held if one[0].id not in waits]

    async def _look_at_new_ends(self) -> None:
        """Look at what was settled since the last time: its mail may have been read while it was being submitted."""
        now = self._clock.now()
        ended = self._ledger.unacknowledged(max(self._settled_before, self._recent()))
        unanswered = (one for one in self._ledger.held_for(HoldReason.AWAITING_ACK) if one.awaits_ack)
        await self._look_at_ended(*[(one, await events_of(self._ledger, one.id)) for one in (*ended, *unanswered)])
        self._settled_before = now

    async def _look_at_ended(self, *ended: Followed) -> None:
        """Look at the mail of what has ended, by one question for all of it."""
        mail = {delivery.id: _mail_of(delivery, events) for delivery, events in ended}
        states = await self._queries.mail_states([pair for pairs in mail.values() for pair in pairs])
        for delivery, events in ended:
            # an item is read in the ledger, which says so itself
            is_read = delivery.awaits_ack and any(one.status is EventStatus.READ for one in events)
            if is_read or any(states[pair].is_read for pair in mail[delivery.id] if pair in states):
                self._note_read(delivery)

    def _note_read(self, delivery: Delivery) -> None:
        now = self._clock.now()
        if delivery.awaits_ack:
            with contextlib.suppress(StaleLease, IllegalTransition):
                self._ledger.settle(delivery, Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED, {"by": "mail read"}, now)
        else:
            self._ledger.raise_proof(delivery.id, Proof.ACKNOWLEDGED, {"by": "mail read"}, now)
        self._log.info("delivery_acknowledged", delivery=delivery.id, agent=delivery.identity, by="mail read")

    async def _look_at_held(self, delivery: Delivery, events: Sequence[WakeEvent]) -> None:
        judged = await judge_events(self._queries, self._ledger, delivery.identity, events)
        is_benched = delivery.hold is not None and delivery.hold.reason is HoldReason.BENCHED
        if judged.closed or (is_benched and participates(judged.identities.get(delivery.identity))):
            self._look_again(delivery.identity)

    def _recent(self) -> Instant:
        return Instant(self._clock.now() - self._current.settings.ack_deadline_ms)


def _has_ended(delivery: Delivery) -> bool:
    return delivery.state.is_terminal or delivery.awaits_ack


def _mail_of(delivery: Delivery, events: Sequence[WakeEvent]) -> list[tuple[str, Identity]]:
    """The messages that a delivery tells of, each with whom it tells."""
    messages = (one.detail for one in events if isinstance(one.detail, MessageDetail) and not is_signed(one))
    return [(one.message_id, delivery.identity) for one in messages]


def _is_further(seen: LogPosition, place: LogPosition) -> bool:
    """Whether the log was followed up to `seen`, and only went on since."""
    return seen[0] == place[0] and seen[2] == place[2] and 0 < place[1] - seen[1] <= ROWS_FOLLOWED
