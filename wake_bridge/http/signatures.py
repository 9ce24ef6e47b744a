"""Checks who sent a request: every signature in it must be the sender's."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog
from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks.webhooks import EmptyWebhookSecretError
from starlette.datastructures import Headers

from wake_bridge.config.senders import ConfiguredSender
from wake_bridge.domain.names import Instant, parse_instant
from wake_bridge.domain.signed_wakes import CLOCK_TOLERANCE, REMEMBERED, signature_of

STANDARD: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")
"""The headers of Standard Webhooks."""

NEO: Final = "x-neo-wake-"
"""What the other set's headers begin with."""

NEO_SIGNATURE: Final = f"{NEO}signature"


class Unsigned(Exception):
    """Nobody who is known has signed it; the text says why, without a word that would help to guess."""


class _Keys:
    """A sender's keys, read again when their file has changed."""

    def __init__(self, sender: ConfiguredSender) -> None:
        self.sender = sender
        self._read_at: tuple[int, int, int] | None = None
        self._keys: tuple[str, ...] = ()
        self._log = structlog.get_logger("http")

    def now(self) -> tuple[str, ...]:
        """The keys; the last good ones while the file cannot be read."""
        if self._keys and (self.sender.key_path is None or _version(self.sender.key_path) == self._read_at):
            return self._keys
        try:
            if self.sender.key_path is not None:
                self._read_at = _version(self.sender.key_path)
            self._keys = self.sender.read_keys()
        except (OSError, ValueError) as wrong:
            self._log.warning("config_refused", reason=f"keys of {self.sender.name}: {wrong}", problems=[])
        return self._keys


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


class Signatures:
    """Tells by its signatures which sender a request is from."""

    def __init__(self, senders: Sequence[ConfiguredSender]) -> None:
        self._keys = [_Keys(one) for one in senders]

    def sender_of(self, headers: Headers, body: bytes) -> ConfiguredSender:
        """The sender whose key made every signature that is there. Raises `Unsigned`."""
        has_standard = any(name in headers for name in STANDARD)
        has_neo = any(name.startswith(NEO) for name in headers)
        signed_by = (*STANDARD, NEO_SIGNATURE)
        if any(len(headers.getlist(name)) > 1 for name in signed_by):
            raise Unsigned("a signature header appears twice")
        if not (has_standard or has_neo):
            raise Unsigned("it has no signature")
        for sender, key in self._candidates():
            if has_standard and not _is_standard(key, headers, body):
                continue
            if has_neo and not _is_neo(key, headers.get(NEO_SIGNATURE, ""), body):
                continue
            if not has_standard and not sender.legacy:
                raise Unsigned("it has no Standard Webhooks signature, which this sender needs")
            return sender
        raise Unsigned("a signature or its timestamp is not valid")

    def _candidates(self) -> Iterator[tuple[ConfiguredSender, str]]:
        return ((keys.sender, key) for keys in self._keys for key in keys.now())


def require_recent(headers: Headers, emitted_at: str, wall: Instant) -> None:
    """Refuse what a signature without a timestamp cannot tell from a replay. Raises `Unsigned`."""
    if STANDARD[0] in headers:
        return
    at = parse_instant(emitted_at)
    if at is None or not wall - REMEMBERED <= at <= wall + CLOCK_TOLERANCE:
        raise Unsigned("without a timestamp it must have been emitted within 90 days")


def _is_standard(key: str, headers: Headers, body: bytes) -> bool:
    try:
        Webhook(key).verify(body, {name: headers.get(name, "") for name in STANDARD}, json_parse=False)
    except (WebhookVerificationError, EmptyWebhookSecretError, ValueError, OverflowError):
        return False
    return True


def _is_neo(key: str, signature: str, body: bytes) -> bool:
    return hmac.compare_digest(signature_of(key, body).encode(), signature.lower().encode("utf-8", "replace"))
