"""Other hosts that are reached by ssh: their names, when a link is tried again, and whose agent is where. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from wake_bridge.domain.names import Identity
from wake_bridge.domain.values import dataclass

RECONNECT: Final = (1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000)
"""Milliseconds to each further try of a link that is down; the last one goes on."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_host_name(text: str) -> bool:
    """Whether a host may be called so: it stands in tables, in the keys of places and on the command line of ssh."""
    return _NAME.fullmatch(text) is not None


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
