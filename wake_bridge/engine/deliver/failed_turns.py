"""Wakes whose turn failed at once: their unread mail is announced again, a few times and ever later, then a person is told.

A turn failed at once where the screen shows the error right below the wake's own text, with nothing in between: an agent that
did anything in that turn has left a trace there. Like the second announcement of decision 11 it is a new wake with an id of
its own, and goes through the gate like any other; nothing is ever submitted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from wake_bridge.domain.attention import Episode
from wake_bridge.domain.delivery import Delivery, Outcome
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.events import MessageDetail, WakeEvent
from wake_bridge.domain.names import EPOCH_START, AttentionKind, Instant
from wake_bridge.domain.usage_limits import BACKOFF
from wake_bridge.engine.deliver.relevance import events_of, still_unread
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId

AT_MOST: Final = 3
"""Times that an event is announced again after turns that failed at once."""


class FailedTurns:
    """Follows the episodes that say which wake's turn failed, by what the ledger says of both; a restart goes on where it was.

    Contract: `look` may be called at any time and any number of times: opening again is one transaction, and a wake is
    opened again once.

    Args:
        new_id: makes the ids of deliveries.
        poke: called when something was opened again.
    """

    def __init__(self, ledger: Ledger, queries: GraphQueries, new_id: NewId, *, poke: Callable[[], None]) -> None:
        self._ledger = ledger
        self._queries = queries
        self._new_id = new_id
        self._poke = poke
        self._given_up: dict[str, Delivery] = {}
        self._log = structlog.get_logger("deliver")

    def given_up(self) -> list[Delivery]:
        """The wakes whose mail is unread after the last announcement, as the last look found them."""
        return list(self._given_up.values())

    async def look(self, now: Instant) -> None:
        """One round. Raises `LedgerError`."""
        failed = [one for one in self._ledger.open_episodes() if one.wake_id and one.kind in _FAILED]
        self._given_up = {key: one for key, one in self._given_up.items() if key in {each.wake_id for each in failed}}
        for episode in failed:
            try:
                await self._tell_again(episode, now)
            except SourceError:
                # the tail says so; it is asked again in the next round
                return

    async def _tell_again(self, episode: Episode, now: Instant) -> None:
        wake = self._ledger.delivery(episode.wake_id)
        if wake is None or wake.identity != episode.identity or wake.outcome is not Outcome.SUBMITTED:
            return
        told = [one for one in await events_of(self._ledger, wake.id) if one.failed_in != wake.id]
        mail = [one for one in told if isinstance(one.detail, MessageDetail)]
        unread = await still_unread(self._queries, self._ledger, wake.identity, mail) if mail else ()
        if not mail or len(unread) < len(mail):
            # whoever read any of it has taken the wake in
            return
        times = max(one.failed_turns for one in unread)
        if times:
            # the first of these turns was told
            self._ledger.note_episodes_told([episode.id], now)
        if times >= AT_MOST:
            self._given_up[wake.id] = wake
            return
        opened = self._ledger.announce_again(wake.id, self._not_before(episode, unread, now), self._new_id, now)
        if opened is not None:
            self._log.warning(
                "delivery_told_again", delivery=opened.id, agent=opened.identity, again_of=wake.id, reason=episode.kind
            )
            self._poke()

    def _not_before(self, episode: Episode, unread: tuple[WakeEvent, ...], now: Instant) -> Instant:
        """After a while that grows; at a limit its own hold says when."""
        if episode.kind is AttentionKind.LIMITED:
            return EPOCH_START
        times = max(one.failed_turns for one in unread)
        return Instant(now + BACKOFF[min(times, len(BACKOFF) - 1)])


_FAILED: Final = frozenset({AttentionKind.FAILED, AttentionKind.LIMITED})
