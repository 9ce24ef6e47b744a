"""Sends what is on its way to a person: each message by its channel, once, and again only where that is no second one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from wake_bridge.domain.attention import host_in
from wake_bridge.domain.channels import (
    CONVERSATION,
    GIVEN_UP,
    TEXT,
    Channel,
    ChannelKind,
    Send,
    SendOutcome,
    SendState,
    by_default,
    near_message,
    next_try,
)
from wake_bridge.domain.delivery import DeliveryState, Proof
from wake_bridge.domain.errors import LedgerError, StaleLease
from wake_bridge.domain.names import MINUTE, AttentionKind, Instant
from wake_bridge.domain.notices import ESCALATED, about_channel
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.human import Human, Told
from wake_bridge.ports.ledger import Ledger

_BESIDE: Final = Channel(CONVERSATION, ChannelKind.TMUX)

_AT_ONCE: Final = 4
"""Messages that go out side by side."""


class Outbox:
    """Sends the ledger's messages.

    Contract: `tick` may be called at any time and any number of times, by several processes; each message has one owner at a
    time. It is on disk that a message is about to be sent before it is. What a crash cut off is sent again, by the same id,
    where the channel takes ids; elsewhere it is `unknown` and not repeated.

    Args:
        is_somebody_active: whether a client had a key in the last minute.
        log: where it says what became of each message; by default the log of notices.
    """

    def __init__(
        self,
        ledger: Ledger,
        human: Human,
        current: Current,
        clock: Clock,
        is_somebody_active: Callable[[], bool] = lambda: False,
        log: Any = None,
    ) -> None:
        self._ledger = ledger
        self._human = human
        self._current = current
        self._clock = clock
        self._is_somebody_active = is_somebody_active
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._permits = asyncio.Semaphore(_AT_ONCE)
        self._has_failed = False
        self._log = structlog.get_logger("notices") if log is None else log

    def tick(self, now: Instant) -> None:
        """Begin with what is due. Raises `LedgerError`."""
        for send in self._ledger.sends_to_do(now):
            self.begin(send, now)

    def begin(self, send: Send, now: Instant) -> None:
        """Begin with one message, unless it is under way. Raises `LedgerError`."""
        if send.id not in self._under_way:
            self._begin(send, now)

    def send_directly(self, send: Send) -> None:
        """Send a message that cannot be written down; nobody remembers it."""
        self._keep(f"direct:{send.subject}", self._unrecorded(send))

    async def drain(self) -> None:
        """Wait for what is going out."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def close(self) -> None:
        """Call back what is going out."""
        for one in self._under_way.values():
            one.cancel()
        await self.drain()

    def channel_of(self, name: str) -> Channel | None:
        """The channel of that name; that of `[human]` is always there."""
        settings = self._current.settings
        return next((one for one in (*settings.channels, settings.human, _BESIDE) if one.name == name), None)

    # -- what is due -----------------------------------------------------------------------------------------------

    def _begin(self, send: Send, now: Instant) -> None:
        channel = self.channel_of(send.channel) if send.channel else by_default(self._current.settings.channels)
        if send.state is SendState.LOCKED:
            self._take_over(send, channel, now)
            return
        if why := self._why_over(send):
            self._settle(send, SendOutcome.WITHDRAWN, why, now)
            return
        if channel is None:
            self._wait_for_channel(send, now)
            return
        if self._is_quiet(send, channel) or (send.is_for_absent and self._is_postponed(send, now)):
            return
        self._keep(send.id, self._deliver(send, channel))

    def _take_over(self, send: Send, channel: Channel | None, now: Instant) -> None:
        """What its owner left behind: whether it arrived nobody knows, and a second one must not look like another."""
        if channel is not None and channel.takes_ids:
            self._ledger.release_send(
                send, now, "its sender ended in the middle of it: it is sent again by the same id", now
            )
            return
        self._settle(send, SendOutcome.UNKNOWN, "its sender ended in the middle of it", now)

    def _why_over(self, send: Send) -> str:
        """Why nobody needs to hear of it any more; empty while somebody does."""
        if send.episodes:
            stands = any(one.id in send.episodes for one in self._ledger.open_episodes())
            # of an episode on another host the notice stands as long as that host says so
            stands = stands or any(host_in(one) and self._ledger.noticed_at(one) for one in send.episodes)
            return "" if stands else "what it tells is over"
        if send.reason == TEXT:
            return ""
        if send.reason == ESCALATED:
            told = self._ledger.delivery(send.subject)
            return "it was acknowledged" if told is not None and told.proof >= Proof.ACKNOWLEDGED else ""
        if send.reason == AttentionKind.FAILED:
            # its wake has arrived, and its turn failed for the last time
            return ""
        delivery = self._ledger.delivery(send.subject)
        is_over = delivery is not None and delivery.state is DeliveryState.DELIVERED
        return "the wake has arrived" if is_over else ""

    def _wait_for_channel(self, send: Send, now: Instant) -> None:
        if now >= send.created_at + GIVEN_UP:
            why = f"there is no channel {send.channel}" if send.channel else "no channel is configured"
            self._settle(send, SendOutcome.FAILED, why, now)

    def _is_postponed(self, send: Send, now: Instant) -> bool:
        """Whether a message for somebody who is away waits, or has no reader any more, because they are there."""
        if not self._is_somebody_active():
            return False
        if not send.is_patient:
            self._settle(send, SendOutcome.WITHDRAWN, "a client was active", now)
        return True

    def _is_quiet(self, send: Send, channel: Channel) -> bool:
        """Whether the channel's quiet hours last; those of all wakes count for what nobody has asked for."""
        local = self._clock.local()
        hours = [channel.quiet_hours, *([] if send.reason == TEXT else [self._current.settings.quiet_hours])]
        return any(one is not None and one.minutes_left(local.hour * 60 + local.minute) > 0 for one in hours)

    # -- one message -----------------------------------------------------------------------------------------------

    async def _deliver(self, send: Send, channel: Channel) -> None:
        async with self._permits:
            now = self._clock.now()
            try:
                locked = self._ledger.lock_send(send, channel.name, Instant(now + self._current.settings.lease_ms), now)
            except StaleLease:
                return
            told = await self._human.tell(locked)
            self._note(locked, channel, told, self._clock.now())

    def _note(self, send: Send, channel: Channel, told: Told, now: Instant) -> None:
        try:
            if told.by and not told.trouble:
                self._settle(send, SendOutcome.SENT, "", now)
                self._ledger.withdraw_notice(about_channel(channel.name, "", "", now).subject)
            elif told.is_unknown and not channel.may_repeat:
                self._settle(send, SendOutcome.UNKNOWN, told.trouble, now)
            else:
                self._refused(send, channel, told, now)
        except LedgerError as refusal:
            # the lease runs out, and it is looked at again
            self._log.warning("notice_failed", by=channel.name, reason=str(refusal))
        self._tell_once(told)

    def _refused(self, send: Send, channel: Channel, told: Told, now: Instant) -> None:
        nobody = not told.by and not told.trouble
        why = "nobody is there" if nobody else told.trouble
        at = next_try(send, now, MINUTE if nobody else told.wish)
        if at is None:
            self._settle(send, SendOutcome.FAILED, why, now)
            self._tell_here(channel, why, now, given_up=send.id)
            return
        self._ledger.release_send(send, at, why, now)
        self._tell_here(channel, why, now)

    def _tell_here(self, channel: Channel, why: str, now: Instant, given_up: str = "") -> None:
        """A person at this host hears that something does not leave it; not by the very channel that fails."""
        notice = about_channel(channel.name, channel.label, why, now, given_up=given_up)
        send = near_message(notice, self._current.settings.channels, now)
        if send.channel != channel.name:
            self._ledger.give_notice(notice, now, [send])

    def _settle(self, send: Send, outcome: SendOutcome, why: str, now: Instant) -> None:
        try:
            self._ledger.settle_send(send, outcome, why, now)
        except StaleLease:
            return
        self._log.info(
            "message_settled",
            id=send.id,
            agent=send.identity or send.sender or None,
            channel=send.channel or None,
            subject=send.subject,
            outcome=outcome,
            reason=why or None,
        )

    async def _unrecorded(self, send: Send) -> None:
        async with self._permits:
            self._tell_once(await self._human.tell(send))

    def _tell_once(self, told: Told) -> None:
        if told.trouble and not self._has_failed:
            self._log.warning(
                "notice_failed", by=told.by, reason=told.trouble, hint="said once, until one goes out again"
            )
        self._has_failed = bool(told.trouble)

    def _keep(self, key: str, work: Coroutine[None, None, None]) -> None:
        task = self._under_way[key] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
