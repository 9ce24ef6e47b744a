"""Parses MESSAGE nodes once: what is missing or has a wrong type gets a harmless default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from wake_bridge.domain.events import Message, TaskSnapshot
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, Priority, WakePolicy, is_identity, parse_instant
from wake_bridge.domain.values import dataclass

MESSAGE_LABEL: Final = "MESSAGE"

LONGEST_WINDOW: Final = 300
"""Seconds that anything may be made to wait for company."""

LONGEST_ACK: Final = 7 * 86_400
"""Seconds in which a message may have to be answered."""

Choice = TypeVar("Choice", Priority, WakePolicy)

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Unusable:
    """A row that can be read and yet means nothing; `why` is a short clause."""

    why: str


def message_from(node_id: str, properties: Mapping[str, Any]) -> Message | Unusable:
    """Read a MESSAGE node's properties. Only a message without a sender is unusable. Never raises."""
    sender = text_of(properties.get("from"))
    if not sender:
        return Unusable("the message names no sender")
    owner = text_of(properties.get("userId"))
    return Message(
        id=text_of(node_id),
        sender=sender,
        recipient=text_of(properties.get("to")),
        subject=text_of(properties.get("subject")),
        body=text_of(properties.get("bodyText")),
        priority=_choice(Priority, properties.get("priority")) or Priority.NORMAL,
        sent_at=parse_instant(properties.get("sentAt")),
        read_at=read_mark(properties),
        last_modified_at=text_of(properties.get("lastModifiedAt")) or None,
        in_reply_to=text_of(properties.get("inReplyTo")) or None,
        thread=text_of(properties.get("partOfThread")) or None,
        tags=texts_of(properties.get("taggedConcepts")),
        wake_suppressed=properties.get("wakeSuppressed") is True,
        wake_policy=_choice(WakePolicy, properties.get("wakePolicy")),
        wake_window=window_from(properties.get("wakeWindow")),
        ack_within=seconds_from(properties.get("ackWithin"), LONGEST_ACK),
        task=_task(properties.get("task")),
        user_id=owner or None,
        visible_to_all=not owner
        or properties.get("sharedEntity") is True
        or text_of(properties.get("visibility")) == "team",
    )


def read_mark(properties: Mapping[str, Any]) -> Instant | None:
    """When a message or a broadcast's edge was read or put away; None says that it was neither.

    An unreadable time still says that it was.
    """
    value = properties.get("readAt") or properties.get("archivedAt")
    if not value:
        return None
    return parse_instant(value) or EPOCH_START


def window_from(value: object) -> int | None:
    """A window in whole seconds from 0 to `LONGEST_WINDOW`; None for anything else."""
    return seconds_from(value, LONGEST_WINDOW)


def seconds_from(value: object, longest: int) -> int | None:
    """Whole seconds from 0 to `longest`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # JSON has one kind of number: 30.0 is 30
    return int(value) if 0 <= value <= longest and value == int(value) else None


def text_of(value: object) -> str:
    """A JSON value as text that every store can hold: lone surrogates replaced, what is no text or number empty."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return ""


def texts_of(value: object) -> tuple[str, ...]:
    """A JSON list of texts, or one text, as texts; whatever else it holds is left out."""
    members = value if isinstance(value, list) else [value]
    return tuple(text for text in map(text_of, members) if text)


def _task(value: object) -> TaskSnapshot | None:
    if not isinstance(value, Mapping) or not text_of(value.get("state")):
        return None
    assignee = text_of(value.get("assignee"))
    return TaskSnapshot(
        state=text_of(value["state"]),
        assignee=Identity(assignee) if is_identity(assignee) else None,
        expires_at=text_of(value.get("expiresAt")) or None,
    )


def _choice(kind: type[Choice], value: object) -> Choice | None:
    """The member of an enumeration that `value` names, if any."""
    try:
        return kind(text_of(value))
    except ValueError:
        return None
