"""Receivers of webhooks that subscriptions name: their address, their state, and when to try again."""

from __future__ import annotations

import base64
from dataclasses import field, replace
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult, urlsplit

from wake_bridge.domain.names import EPOCH_START, Instant, parse_instant
from wake_bridge.domain.values import dataclass

WEBHOOK: Final = "webhook"
"""The name of the adapter that posts to a URL."""

WEBHOOK_TARGET: Final = "a2a-webhook"
"""The harnessTarget of a subscription with a URL."""

PUSH: Final = "mcp"
"""The name of the adapter that pushes to the MCP client of an agent."""

HOST: Final = "ssh"
"""The name of the adapter that hands a wake to the daemon of another host."""

PUSHED_TARGET: Final = "mcp-notifications"
"""The harnessTarget of a subscription whose wakes are pushed."""

RECEIVER_TARGETS: Final = {PUSHED_TARGET: PUSH, WEBHOOK_TARGET: WEBHOOK}
"""The harnessTargets whose subscriptions name a receiver of their own, each with the adapter that sends to it; in the order
in which they are tried."""

ACTS_WITHIN: Final = 60_000
"""Milliseconds in which an agent whose MCP client was pushed a wake must read the mail or begin a turn."""

KEY_PREFIX: Final = "whsec_"
"""What a key of Standard Webhooks begins with; base64 follows."""

KEY_BYTES: Final = 32
"""Bytes of chance in a key that is made here."""

KEY_STAYS: Final = 24 * 3_600_000
"""Milliseconds for which a key that was replaced still signs beside the new one."""

RETRIES: Final = (1_000, 2_000, 4_000)
"""Milliseconds to each further try of one emission; when the last of them fails the receiver is suspended."""

SUSPENDED: Final = (5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000)
"""Milliseconds to each try while it is suspended; the last one goes on."""

LONGEST_WAIT: Final = SUSPENDED[-1] * 6 // 5
"""The longest of them, spread by chance."""

GIVEN_UP: Final = 3 * 24 * 3_600_000
"""Milliseconds of suspension after which it is degraded: no longer tried before somebody says so."""

LONGEST_WISH: Final = 300_000
"""Milliseconds that a receiver may ask us to wait (`Retry-After`)."""


class Secret:
    """A text that nobody prints: neither `repr`, nor `str`, nor a record of it shows what it is."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for who signs with it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "(withheld)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where a subscription's own wakes are sent: by which adapter, to which URL, and the key that signs them.

    Only some adapters need a URL and a key. `former_key` still signs beside `key` until `former_until`. `as_of` is when the subscription was changed last, as it
    says itself: how the receiver stood before that counts no more.
    """

    subscription_id: str
    url: Secret = field(default_factory=lambda: Secret(""))
    key: Secret = field(default_factory=lambda: Secret(""))
    former_key: Secret = field(default_factory=lambda: Secret(""))
    former_until: Instant = EPOCH_START
    as_of: str = ""
    adapter: str = WEBHOOK

    @property
    def place_key(self) -> str:
        """Names it for locks and limits."""
        return f"{self.adapter}:{self.subscription_id}"

    @property
    def shown(self) -> str:
        """Where it is, as a person may read it: the URL without what may be secret in it, name, password and query."""
        if self.adapter == HOST:
            return self.host
        return "its MCP client" if self.adapter == PUSH else shown_url(self.url.reveal())

    @property
    def host(self) -> str:
        """The host whose daemon is handed the wakes; empty for every other receiver."""
        return self.subscription_id.partition(":")[0] if self.adapter == HOST else ""

    @property
    def problem(self) -> str:
        """What somebody must change before anything can be sent there; empty when nothing."""
        if not self.url:
            return ""
        if why := why_no_url(self.url.reveal()):
            return why
        why = why_no_key(self.key.reveal())
        return why and f"{why}: `wake-bridge update {self.subscription_id} --rotate-key` makes one"


def receiver_at(host: str, identity: str) -> Receiver:
    """The daemon of another host, for one identity that lives there: what one refuses must not keep others back."""
    return Receiver(f"{host}:{identity}", adapter=HOST)


def receiver_of_key(place_key: str) -> Receiver | None:
    """The daemon of another host that a place's key names; None where it names another kind of place."""
    adapter, _, name = place_key.partition(":")
    return Receiver(name, adapter=HOST) if adapter == HOST else None


def is_receiver(place_key: str) -> bool:
    """Whether a place is a receiver: one that a subscription names, or the daemon of another host."""
    return place_key.partition(":")[0] in {HOST, *RECEIVER_TARGETS.values()}


def is_program(place_key: str) -> bool:
    """Whether a place is a receiver beside the agent, with limits of its own; an MCP client is the agent's own."""
    return place_key.partition(":")[0] in {HOST, WEBHOOK}


def written_key(chance: bytes) -> str:
    """A signing key as it is written, of `KEY_BYTES` bytes of chance."""
    return KEY_PREFIX + base64.b64encode(chance).decode("ascii")


def why_no_key(key: str) -> str:
    """What is wrong with a signing key, one clause that does not show it; empty when nothing."""
    if not key:
        return "it has no signingKey"
    try:
        decoded = (
            base64.b64decode(key.removeprefix(KEY_PREFIX), validate=True)
            if key.startswith(KEY_PREFIX)
            else key.encode()
        )
    except ValueError:
        decoded = b""
    return "" if decoded else "its signingKey cannot be read"


def why_no_url(url: str) -> str:
    """What is wrong with a receiver's URL, one clause; empty when nothing."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "its url cannot be read"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "its url has blanks or characters that are not valid in a URL"
    if parts.scheme not in {"http", "https"} or not is_whole:
        return "its url is not an http(s) address"
    if parts.username is not None or parts.password is not None:
        return "its url has a name or a password; remove it: the signature identifies the sender"
    return ""


def shown_url(url: str) -> str:
    """Scheme, host, port and path of a URL."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(an unreadable URL)"
    return SplitResult(parts.scheme, f"{host}{port}", parts.path, "", "").geturl()


class ReceiverAnswer(StrEnum):
    """What a receiver said to a wake that it did not take."""

    TRANSIENT = "transient"
    REJECTED = "rejected"
    UNWELCOME = "unwelcome"
    GONE = "gone"


def answer_of(status: int) -> ReceiverAnswer:
    """What a status that is no 2xx means."""
    if status == 410:  # noqa: PLR2004 - HTTP's numbers are their own names
        return ReceiverAnswer.GONE
    if status in {401, 403, 404}:
        return ReceiverAnswer.UNWELCOME
    if status >= 500 or status in {408, 425, 429}:  # noqa: PLR2004
        return ReceiverAnswer.TRANSIENT
    return ReceiverAnswer.REJECTED


@dataclass(frozen=True, slots=True)
class ReceiverStanding:
    """How a receiver stands that failed; one that works has none.

    `failures` are the tries in a row that failed, `suspended_at` and `degraded_at` since when it is, None where it is not,
    `next_try_at` the instant before which a suspended one is left alone, `as_of` the form of the subscription that it was
    tried in.
    """

    subscription_id: str
    as_of: str = ""
    failures: int = 0
    suspended_at: Instant | None = None
    tries: int = 0
    next_try_at: Instant = EPOCH_START
    degraded_at: Instant | None = None
    why: str = ""

    @property
    def is_shut(self) -> bool:
        """Whether the next route serves meanwhile."""
        return self.suspended_at is not None or self.degraded_at is not None

    def speaks_of(self, receiver: Receiver) -> bool:
        """Whether it is about the subscription as it stands; a newer form of it begins anew."""
        then, now = parse_instant(self.as_of), parse_instant(receiver.as_of)
        return self.as_of == receiver.as_of or (then is not None and now is not None and now <= then)


def after_failure(
    before: ReceiverStanding, answer: ReceiverAnswer, why: str, now: Instant, *, jitter: float, wish: int | None = None
) -> ReceiverStanding:
    """How a receiver stands after one more try that failed.

    Args:
        before: how it stood.
        answer: what it said.
        why: the same in words.
        now: the moment of the failure.
        jitter: between 0 and 1; spreads the tries of many that died together over a fifth of the wait.
        wish: the milliseconds it asked us to wait, None where it did not.
    """
    failures = before.failures + 1
    failed = replace(before, failures=failures, why=why)
    has_waited = before.suspended_at is not None and now - before.suspended_at >= GIVEN_UP
    if answer is ReceiverAnswer.GONE or has_waited:
        return replace(failed, degraded_at=now, suspended_at=before.suspended_at or now)
    is_shut = before.suspended_at is not None or answer is ReceiverAnswer.UNWELCOME or failures > len(RETRIES)
    wait = SUSPENDED[min(before.tries, len(SUSPENDED) - 1)] if is_shut else RETRIES[failures - 1]
    wait = round(max(wait * (1 + jitter / 5 if is_shut else 1), min(wish or 0, LONGEST_WISH)))
    return replace(
        failed,
        suspended_at=(before.suspended_at or now) if is_shut else None,
        tries=before.tries + is_shut,
        next_try_at=Instant(now + wait),
    )
