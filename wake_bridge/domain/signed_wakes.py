"""Signed wakes: whom a sender may wake, the ids of their events, and how long these are remembered."""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import ip_address
from typing import Final, Self

from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import DAY, MINUTE, Identity, Trigger
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.values import dataclass

NO_GRAPH: Final = "no graph: this daemon takes signed wakes"
NO_GRAPH_HINT: Final = "mail and subscriptions are where the graph is; here `status`, `deliveries` and `why` answer"
"""What is said where the graph is meant, and there is none; and what to do."""

REMEMBERED: Final = 90 * DAY
"""Milliseconds for which an eventId is known; a wake without a timestamp that is older is refused."""

CLOCK_TOLERANCE: Final = 5 * MINUTE
"""Milliseconds by which the clocks of sender and receiver may differ, as Standard Webhooks has it."""

SERVED_AT: Final = "127.0.0.1:8787"
"""Where `serve` listens unless it is told otherwise."""

_HIGHEST_PORT: Final = 65_535
_MARK: Final = " signed:"


class NotHere(Exception):
    """The identity does not live here; or nobody knows yet who does (`is_starting`)."""

    def __init__(self, *, is_starting: bool = False) -> None:
        super().__init__()
        self.is_starting = is_starting


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where signed wakes are taken in: a Unix socket, or an address and a port (0: one that is free)."""

    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `unix:/path`, `ADDRESS:PORT` or `localhost:PORT`. Raises `ValueError`."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if not path.startswith("/"):
                raise ValueError("must name an absolute path after unix:")
            return cls(path=path)
        host, _, port = text.rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) <= _HIGHEST_PORT):
            raise ValueError("must be ADDRESS:PORT or unix:/path")
        bare = host.removeprefix("[").removesuffix("]")
        try:
            address = ip_address("127.0.0.1" if bare == "localhost" else bare)
        except ValueError:
            raise ValueError("must begin with an IP address of this host, or localhost") from None
        return cls(host=str(address), port=int(port))

    @property
    def is_local(self) -> bool:
        """Whether this host's own processes alone can connect."""
        return bool(self.path) or ip_address(self.host).is_loopback

    @property
    def is_every(self) -> bool:
        """Whether it stands for every address of this host."""
        return not self.path and ip_address(self.host).is_unspecified

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def subject_key_of(sender: str, subject: str) -> str:
    """By what an event is known that a sender told of: two senders may have the same ids."""
    return f"{subject}{_MARK}{sender}"


def is_signed(event: WakeEvent) -> bool:
    """Whether a signed wake brought it: the graph here, if there is one, knows nothing of it."""
    return _MARK in event.subject_key


def subscription_for(sender: str, identity: Identity) -> Subscription:
    """What stands for a sender's word that an identity is to be woken here: without it nothing would serve the identity."""
    return Subscription(f"signed:{sender}:{identity}", identity, Trigger.SENT_TO_ME, is_signed=True)


def signature_of(key: str, body: bytes) -> str:
    """The signature of a body by a key as it is written: hex HMAC-SHA256, without a timestamp."""
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
