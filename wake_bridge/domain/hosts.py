"""Other hosts that are reached by ssh: their names, when a link is tried again, and whose agent is where. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from wake_bridge.domain.names import Identity
from wake_bridge.domain.receivers import receiver_of_key
from wake_bridge.domain.values import dataclass

if TYPE_CHECKING:
    from wake_bridge.domain.delivery import Delivery

RECONNECT: Final = (1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000)
"""Milliseconds to each further try of a link that is down; the last one goes on."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LONGEST_NAME: Final = 64


def is_host_name(text: str) -> bool:
    """Whether a host may be called so: it stands in tables, in the keys of places and on the command line of ssh."""
    return not why_no_host_name(text)


def why_no_host_name(text: str) -> str:
    """What is wrong with the name of a host, one clause; empty when nothing."""
    if len(text) > _LONGEST_NAME:
        return f"the name of a host has at most {_LONGEST_NAME} characters, and this has {len(text)}"
    return "" if _NAME.fullmatch(text) else "a host is named by letters, digits, and - _ . after the first"


def why_no_destination(text: str) -> str:
    """What is wrong with a destination of ssh, one clause; empty when nothing. It must never be taken for an option."""
    if not text or text.startswith("-"):
        return "an ssh destination is a name of ~/.ssh/config, host, or user@host"
    return "" if text.isprintable() and not any(one.isspace() for one in text) else "it has blanks in it"


def wait_before_try(failures: int, jitter: float) -> int:
    """Milliseconds before a link is tried again that has failed so often in a row; `jitter` between 0 and 1 adds up to a fifth."""
    return round(RECONNECT[min(failures, len(RECONNECT)) - 1] * (1 + jitter / 5)) if failures > 0 else 0


class LinkState(StrEnum):
    """How a link stands."""

    CONNECTING = "connecting"
    UP = "up"
    NO_DAEMON = "no_daemon"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class HostDirectory:
    """Which host an identity lives on.

    `host_of` answers the host that says so, empty where none does; `is_known` whether wakes may still be on their way to a
    host of that name.
    """

    host_of: Callable[[Identity], str] = lambda _: ""
    is_known: Callable[[str], bool] = lambda _: False


class AnswerState(StrEnum):
    """How mail stands that has to be answered on another host.

    `OVER`: nobody answered in time, or the agent passed it to a person. `UNASKED`: nobody over there was told to answer.
    """

    OPEN = "open"
    ANSWERED = "answered"
    OVER = "over"
    UNASKED = "unasked"


@dataclass(frozen=True, slots=True)
class AnswerThere:
    """What another host says of mail that has to be answered.

    `left` are the milliseconds until its deadline there, while it is open. `is_late`: a person answered, after the deadline.
    `is_called`: the agent passed it to a person.
    """

    state: AnswerState
    left: int = 0
    is_late: bool = False
    is_called: bool = False


@dataclass(frozen=True, slots=True)
class MailThere:
    """A message, and who was woken for it on another host."""

    identity: Identity
    message_id: str


def host_of_delivery(delivery: Delivery) -> str:
    """The host that a wake was handed to, or is being handed to; empty for one of this host."""
    receiver = receiver_of_key(delivery.pane_key)
    return receiver.host if receiver is not None else ""
