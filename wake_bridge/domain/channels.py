"""Channels: the ways to a person; which of them a message takes, when it is tried again, and what has become of it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.guards import QuietHours
from wake_bridge.domain.names import DAY, EPOCH_START, MINUTE, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.receivers import SUSPENDED
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.text import harmless
from wake_bridge.domain.values import dataclass

HUMAN: Final = "human"
"""The name of the channel that `[human]` describes, which is always there."""

CONVERSATION: Final = "conversation"
"""The name of the channel that shows a line in the clients that show one conversation; nobody configures it."""

NONE_YET: Final = ""
"""The channel of a message that waits until one is configured."""

GIVEN_UP: Final = DAY
"""Milliseconds for which a message is tried again."""

LATER: Final = 5 * MINUTE
"""Milliseconds that an approval or a question stands before a person who is away is told off this host."""

LONGEST_TEXT: Final = 2000
"""Characters of a text that somebody sends to a channel."""

TEXT: Final = "text"
"""The reason of a message that somebody wrote; every other is a notice's."""

_ID_LENGTH: Final = 26


class ChannelKind(StrEnum):
    """What a channel is."""

    TMUX = "tmux"
    DESKTOP = "desktop"
    COMMAND = "command"
    WEBHOOK = "webhook"
    FILE = "file"
    APPRISE = "apprise"


_OFF_HOST: Final = frozenset({ChannelKind.WEBHOOK, ChannelKind.APPRISE})
_TAKES_IDS: Final = frozenset({ChannelKind.COMMAND, ChannelKind.WEBHOOK, ChannelKind.FILE})
_MAY_REPEAT: Final = frozenset({ChannelKind.WEBHOOK, ChannelKind.FILE})


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel as everybody may know it: nothing of its recipient is in here."""

    name: str
    kind: ChannelKind
    label: str = ""
    is_default: bool = False
    quiet_hours: QuietHours | None = None
    has_full_detail: bool = False

    @property
    def is_off_host(self) -> bool:
        """Whether what is sent leaves this host: then a notice carries agent and reason only, unless more is asked for."""
        return self.kind in _OFF_HOST

    @property
    def takes_ids(self) -> bool:
        """Whether the other end is given the message's id: then what a crash cut off is sent once more, by the same id."""
        return self.kind in _TAKES_IDS

    @property
    def may_repeat(self) -> bool:
        """Whether what was not answered, and may have arrived, is sent again by the same id until it is."""
        return self.kind in _MAY_REPEAT


class SendState(StrEnum):
    """Where a message to a person stands, in the words of deliveries."""

    PENDING = "PENDING"
    LOCKED = "LOCKED"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class SendOutcome(StrEnum):
    """How it ended. `sent`: the channel accepted it. `unknown`: it may have arrived. `withdrawn`: what it told is over."""

    SENT = "sent"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def state(self) -> SendState:
        """The state that belongs to it."""
        return SendState.DELIVERED if self in {SendOutcome.SENT, SendOutcome.WITHDRAWN} else SendState.FAILED


@dataclass(frozen=True, slots=True)
class Send(Notice):
    """One message to a person by one channel.

    `sender` is who wrote it: empty for wake-bridge and for a person. `next_try_at` is the instant before which it waits. With
    `is_for_absent` it goes out only while no client is active, and with `is_patient` it waits for that; else it is withdrawn.
    `episodes` are those that it tells of: it is withdrawn when all have ended. `lease` rises with every owner.
    """

    id: str = ""
    channel: str = HUMAN
    sender: str = ""
    created_at: Instant = EPOCH_START
    next_try_at: Instant = EPOCH_START
    is_for_absent: bool = False
    is_patient: bool = False
    episodes: tuple[str, ...] = ()
    state: SendState = SendState.PENDING
    outcome: SendOutcome | None = None
    attempts: int = 0
    lease: int = 0
    lease_until: Instant | None = None
    settled_at: Instant | None = None
    why: str = ""


class SendStep(StrEnum):
    """The steps of a send's journal."""

    CREATED = "created"
    INTENT_SEND = "intent_send"
    REFUSED = "refused"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class SendLine:
    """One line of a send's journal; `why` says more where there is more to say."""

    at: Instant
    step: SendStep
    why: str = ""


def by_default(channels: Sequence[Channel]) -> Channel | None:
    """The channel of a message that names none: the default, else the first; None where there are none."""
    return next((one for one in channels if one.is_default), channels[0] if channels else None)


def chosen(channels: Sequence[Channel], asked: str) -> Channel | None:
    """The channel that was asked for, or the one by default. Raises `NotFound`, which names the valid ids."""
    if not asked:
        return by_default(channels)
    for one in channels:
        if one.name == asked:
            return one
    valid = ", ".join(one.name for one in channels) or "none: add [channels.NAME] to the configuration"
    raise NotFound("there is no such channel", harmless(asked), hint=f"there are {valid}; nothing was sent")


def messages_of(
    notice: Notice,
    channels: Sequence[Channel],
    now: Instant,
    *,
    far_at: Instant,
    is_patient: bool = False,
    episodes: Sequence[str] = (),
) -> list[Send]:
    """A notice on its ways: one on this host at once, and one off it for a person who is away.

    Args:
        notice: what is told.
        channels: those that are configured.
        now: the present moment.
        far_at: when the one off this host may go out.
        is_patient: whether that one waits until the person has left.
        episodes: those that it tells of.
    """
    near = by_default([one for one in channels if not one.is_off_host])
    sends = [_message(notice, near.name if near else HUMAN, now, episodes=episodes)]
    far = by_default([one for one in channels if one.is_off_host])
    if far is not None:
        told = notice if far.has_full_detail else _brief(notice)
        sends.append(
            _message(
                told,
                far.name,
                now,
                next_try_at=far_at,
                is_for_absent=True,
                is_patient=is_patient,
                episodes=episodes,
            )
        )
    return sends


def near_message(notice: Notice, channels: Sequence[Channel], now: Instant) -> Send:
    """A notice on its way to the person at this host."""
    return messages_of(notice, [one for one in channels if not one.is_off_host], now, far_at=now)[0]


def message_of(notice: Notice, channel: Channel, now: Instant, *, next_try_at: Instant) -> Send:
    """A notice for one channel, to go out from `next_try_at` on; off this host only as much as the channel is to tell."""
    is_brief = channel.is_off_host and not channel.has_full_detail
    return _message(_brief(notice) if is_brief else notice, channel.name, now, next_try_at=next_try_at)


def beside(send: Send, session: Session) -> Send:
    """The same message, as a line in the clients that show that conversation."""
    seed = f"{send.id}\0{CONVERSATION}"
    return replace(
        send,
        id=hashlib.sha256(seed.encode()).hexdigest()[:_ID_LENGTH],
        channel=CONVERSATION,
        where=f"{session.socket} {session.pane}",
    )


def text_message(text: str, channel: str, sender: str, subject: str, now: Instant) -> Send:
    """A text that somebody wrote, for a channel; `NONE_YET` keeps it until there is one."""
    title = f"wake-bridge: {sender} says" if sender else "wake-bridge"
    return _message(Notice(subject, TEXT, title, harmless(text, LONGEST_TEXT), now), channel, now, sender=sender)


def _brief(notice: Notice) -> Notice:
    """Agent and reason only."""
    return Notice(
        notice.subject, notice.reason, notice.title, notice.whose, notice.since, notice.identity, whose=notice.whose
    )


def _message(
    notice: Notice,
    channel: str,
    now: Instant,
    *,
    sender: str = "",
    next_try_at: Instant | None = None,
    is_for_absent: bool = False,
    is_patient: bool = False,
    episodes: Sequence[str] = (),
) -> Send:
    # the same fact to the same channel at the same moment is the same message
    seed = f"{notice.subject}\0{channel}\0{now}"
    return Send(
        notice.subject,
        notice.reason,
        notice.title,
        notice.body,
        notice.since,
        notice.identity,
        notice.where,
        notice.whose,
        id=hashlib.sha256(seed.encode()).hexdigest()[:_ID_LENGTH],
        channel=channel,
        sender=sender,
        created_at=now,
        next_try_at=now if next_try_at is None else next_try_at,
        is_for_absent=is_for_absent,
        is_patient=is_patient,
        episodes=tuple(episodes),
    )


def next_try(send: Send, now: Instant, wish: int | None = None) -> Instant | None:
    """When a message that was refused is tried again; None when it has been tried for `GIVEN_UP`.

    Args:
        send: with the try that was just refused among its `attempts`.
        now: the moment of the refusal.
        wish: the milliseconds that the other end asked us to wait, None where it did not.
    """
    wait = wish or SUSPENDED[min(max(send.attempts, 1), len(SUSPENDED)) - 1]
    # whoever comes back within the day gets it: the last try is at its very end
    at = Instant(min(now + wait, send.created_at + GIVEN_UP))
    return None if now >= send.created_at + GIVEN_UP else at


def told_of(send: Send) -> str:
    """What has become of a message, one clause."""
    words = {
        SendOutcome.SENT: f"{send.channel} accepted it",
        SendOutcome.WITHDRAWN: f"withdrawn: {send.why}",
        SendOutcome.FAILED: f"failed: {send.why}",
        SendOutcome.UNKNOWN: f"may or may not have arrived: {send.why}",
    }
    if send.outcome is not None:
        return words[send.outcome]
    if send.channel == NONE_YET:
        return "waits until a channel is configured"
    if send.state is SendState.LOCKED:
        return f"is being sent to {send.channel}"
    return f"waits for {send.channel}" + (f": {send.why}" if send.why else "")
