"""Escalation: when a person is told of what an agent did not answer, and by which channels. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from wake_bridge.domain.channels import Channel, Send, message_of
from wake_bridge.domain.names import Instant
from wake_bridge.domain.notices import Notice

MOST_REPEATS: Final = 9
"""Times that all steps are gone through again, while nobody acknowledges."""


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
