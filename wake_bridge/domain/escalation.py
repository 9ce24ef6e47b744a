"""Escalation: which way an item takes, by whom it concerns and who handles it; when a person is told, by which channels. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from wake_bridge.domain.channels import Channel, Send, message_of
from wake_bridge.domain.events import ItemDetail, ItemMode, WakeEvent
from wake_bridge.domain.names import Instant, WakePolicy
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.values import dataclass

MOST_REPEATS: Final = 9
"""Times that all steps are gone through again, while nobody acknowledges."""


class ItemAddress(StrEnum):
    """What an item is tied to: one conversation, or the identity, whatever it runs in."""

    SESSION = "SESSION"
    USER = "USER"


class Target(StrEnum):
    """Whom it concerns: the person, or the agent."""

    USER = "USER"
    AGENT = "AGENT"


class Handler(StrEnum):
    """Who handles it: wake-bridge by itself, or the agent."""

    SYSTEM = "SYSTEM"
    AGENT = "AGENT"


class Way(StrEnum):
    """The one way that answers for an item.

    `INBOX`: the person's inbox, and their default channel. `CONVERSATION`: a line in the clients that show the conversation,
    and its history; nothing is typed. `AGENT`: the agent itself.
    """

    INBOX = "inbox"
    CONVERSATION = "conversation"
    AGENT = "agent"


class Duty(StrEnum):
    """What the agent owes an item that goes its way.

    `NARRATE`: it tells its person, and if it stays silent wake-bridge does. `ACT`: it decides whether to act, to speak, or to do
    nothing. `CONTEXT`: it is shown it in passing; no turn begins for it.
    """

    NONE = "none"
    NARRATE = "narrate"
    ACT = "act"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class Axes:
    """Where an item belongs. Fixed from its beginning, but for `without_session` and `escalated`."""

    address: ItemAddress = ItemAddress.USER
    target: Target = Target.AGENT
    handler: Handler = Handler.AGENT

    def without_session(self) -> Axes:
        """Its conversation is gone: it is the identity's."""
        return replace(self, address=ItemAddress.USER)

    def escalated(self) -> Axes:
        """The agent did not answer: it is the person's, and no agent is asked."""
        return replace(self, target=Target.USER, handler=Handler.SYSTEM)


ROUTING: Final[Mapping[Axes, tuple[Way, Duty]]] = {
    Axes(ItemAddress.USER, Target.USER, Handler.SYSTEM): (Way.INBOX, Duty.NONE),
    Axes(ItemAddress.SESSION, Target.USER, Handler.SYSTEM): (Way.CONVERSATION, Duty.NONE),
    Axes(ItemAddress.USER, Target.USER, Handler.AGENT): (Way.AGENT, Duty.NARRATE),
    Axes(ItemAddress.SESSION, Target.USER, Handler.AGENT): (Way.AGENT, Duty.NARRATE),
    Axes(ItemAddress.SESSION, Target.AGENT, Handler.SYSTEM): (Way.AGENT, Duty.CONTEXT),
    Axes(ItemAddress.USER, Target.AGENT, Handler.SYSTEM): (Way.AGENT, Duty.CONTEXT),
    Axes(ItemAddress.SESSION, Target.AGENT, Handler.AGENT): (Way.AGENT, Duty.ACT),
    Axes(ItemAddress.USER, Target.AGENT, Handler.AGENT): (Way.AGENT, Duty.ACT),
}
"""All eight: each has exactly one way."""


def axes_of(event: WakeEvent) -> Axes:
    """Where an event belongs: what wakes is the agent's to handle, all else is shown to it in passing; an item may say more."""
    item = event.detail
    if not isinstance(item, ItemDetail):
        return Axes(handler=Handler.AGENT if event.policy is WakePolicy.IMMEDIATE else Handler.SYSTEM)
    return Axes(
        ItemAddress.SESSION if item.session_id else ItemAddress.USER,
        Target.USER if item.mode is ItemMode.PROMPT else Target.AGENT,
        Handler.AGENT if item.mode is ItemMode.ACTIVE else Handler.SYSTEM,
    )


def way_of(axes: Axes, *, has_session: bool) -> Way:
    """The one way that an item takes now; what is tied to a conversation that is gone is the identity's."""
    return ROUTING[axes if has_session else axes.without_session()][0]


@dataclass(frozen=True, slots=True)
class EscalationStep:
    """One channel that is told, `after_ms` milliseconds after the step before it; an empty name is the default."""

    channel: str = ""
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class EscalationRules:
    """What is configured: the channels in their order, and how often all of them are gone through again."""

    steps: Sequence[EscalationStep] = ()
    repeats: int = 0


def escalation_messages(
    notice: Notice, rules: EscalationRules, channels: Sequence[Channel], default: Channel, now: Instant
) -> list[Send]:
    """All messages of one escalation, in their order; those that are later than the acknowledgement are withdrawn.

    Args:
        notice: what is told.
        rules: the steps; without any, the default channel once.
        channels: those that are configured.
        default: the channel of a step that names none, or one that is configured no longer.
        now: the present moment.
    """
    steps = list(rules.steps) or [EscalationStep()]
    sends: list[Send] = []
    at = now
    for number in range((1 + min(rules.repeats, MOST_REPEATS)) * len(steps)):
        step = steps[number % len(steps)]
        at = Instant(at + step.after_ms)
        channel = next((one for one in channels if one.name == step.channel), default)
        send = message_of(notice, channel, now, next_try_at=at)
        # the same channel may be told several times
        seed = f"{send.id}\0{number}"
        sends.append(replace(send, id=hashlib.sha256(seed.encode()).hexdigest()[: len(send.id)]))
    return sends
