"""What commands and tools do with channels: a text is written into the ledger, and sent by the daemon, or here without one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from wake_bridge.config.settings import Settings, engine_settings
from wake_bridge.control.instance_lock import daemon_is_running, reload_command
from wake_bridge.control.settings_in_force import as_the_daemon_goes
from wake_bridge.domain.channels import NONE_YET, Channel, Send, SendOutcome, chosen, text_message
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety, StaleLease, UsageMistake
from wake_bridge.domain.names import HOUR, Instant
from wake_bridge.domain.values import dataclass
from wake_bridge.offline.owner import sender_of
from wake_bridge.offline.workplace import Unsaid, Workplace
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid

_LOOKED_EVERY: Final = 0.05
"""Seconds between two looks at what became of a message."""

_SLACK: Final = 2.0
"""Seconds beside the time that a channel may take."""


@dataclass(frozen=True, slots=True)
class SentText:
    """A text that was written down; `send` is how it stands now, and `channel` None where none is configured."""

    send: Send
    channel: Channel | None

    @property
    def is_kept(self) -> bool:
        """Whether it waits, because nobody took it yet or because there is no channel."""
        return self.send.outcome is None


def channels_here(run: Workplace) -> Sequence[Channel]:
    """The channels by which the daemon goes, or those that are configured where none runs."""
    written = engine_settings(run.settings, embedded=False).channels
    used = engine_settings(as_the_daemon_goes(run.settings), embedded=False).channels
    if written != used and (reload := reload_command(run.settings.state_dir)):
        run.warn(f"note: the daemon goes by the channels that it has read; `{reload}` has it read them anew")
    return used


def send_text(run: Workplace, text: str, asked: str, *, is_test: bool = False) -> SentText:
    """Send a text by a channel, and wait until the channel has answered.

    Args:
        run: the act.
        text: what is said.
        asked: the channel's id; empty for the default, else the first.
        is_test: it is not tried again.

    Raises:
        NotFound: there is no such channel; the valid ids are named, and nothing was sent.
        UsageMistake: there is nothing to say.
        RefusedForSafety: an agent sends too many.
        LedgerError: it cannot be written down.
    """
    if not text.strip():
        raise UsageMistake("the text is empty", hint="say what the person should know")
    channel = chosen(channels_here(run), asked)
    clock = SteadyClock()
    send = text_message(text, channel.name if channel else NONE_YET, sender_of(run), new_ulid(), clock.now())
    with closing(LedgerStore.open(run.settings.state_dir)) as ledger:
        put(run.settings, ledger, send, clock.now())
        if channel is not None:
            _have_it_sent(run, ledger, send, clock)
        after = ledger.find_send(send.id) or send
        if is_test and after.outcome is None:
            after = _withdrawn(ledger, after, clock.now())
    return SentText(after, channel)


def put(settings: Settings, ledger: LedgerStore, send: Send, now: Instant) -> None:
    """Write a message down; an agent may write as many within an hour as it may be woken.

    Raises:
        RefusedForSafety: it would be one too many.
    """
    most = settings.config.limits.wakes_per_hour if send.sender else None
    if not ledger.put_send(send, now, at_most=most, since=Instant(now - HOUR)):
        raise RefusedForSafety(
            f"{send.sender} has sent {most} messages within an hour, and may send no more",
            send.channel,
            hint="nothing was sent; say it in one message later",
        )


def _have_it_sent(run: Workplace, ledger: LedgerStore, send: Send, clock: SteadyClock) -> None:
    settings = run.settings
    patience = settings.config.delivery.adapter_timeout + _SLACK
    if not daemon_is_running(settings.state_dir):
        import asyncio

        asyncio.run(_sent_here(settings, ledger, send, clock))
        return
    run.poke_daemon()
    until = time.monotonic() + patience
    while time.monotonic() < until:
        now = ledger.find_send(send.id)
        if now is None or now.outcome is not None or now.why:
            return
        time.sleep(_LOOKED_EVERY)


async def _sent_here(settings: Settings, ledger: LedgerStore, send: Send, clock: SteadyClock) -> None:
    from wake_bridge.engine.attention.outbox import Outbox
    from wake_bridge.engine.settings import Current
    from wake_bridge.integrations.adapters import make_adapters
    from wake_bridge.integrations.channels import ChannelSenders

    adapters = make_adapters(settings, clock).adapters.values()
    senders = ChannelSenders(settings.config, settings.config_file, settings.config.delivery.adapter_timeout, adapters)
    outbox = Outbox(ledger, senders, Current(engine_settings(settings, embedded=False)), clock, log=Unsaid())
    outbox.begin(send, clock.now())
    await outbox.drain()


def _withdrawn(ledger: LedgerStore, send: Send, now: Instant) -> Send:
    try:
        return ledger.settle_send(send, SendOutcome.WITHDRAWN, send.why or "the channel did not answer in time", now)
    except StaleLease:
        return ledger.find_send(send.id) or send


def require_accepted(sent: SentText) -> None:
    """Raise `OperationFailed` unless the channel has accepted it."""
    if sent.send.outcome is not SendOutcome.SENT:
        raise OperationFailed(
            f"{sent.send.channel} did not accept it",
            sent.send.why or "no answer yet",
            hint="`wake-bridge config check` looks at the channel's settings; docs/channels.md has one example of each kind",
        )
