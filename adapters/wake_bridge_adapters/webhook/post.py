"""One POST of one wake: the name resolved once, addresses checked, the connection pinned, both header sets signed."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote, urlsplit

from wake_bridge.domain.names import Instant
from wake_bridge.domain.receivers import LONGEST_WISH, Receiver, Secret
from wake_bridge.domain.signed_wakes import signature_of
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.webhook.addresses import Allowed, IPAddress, NameLookup, require_public

NOT_INSTALLED: Final = "httpx2 and standardwebhooks are not installed: `pip install 'wake-bridge[webhook]'`"

MOST_ANSWERED: Final = 64 * 1024
"""Bytes of an answer that are read."""

_AGENT: Final = "wake-bridge"

_SAFE: Final = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"
"""What may stand in a header as it is, besides letters, digits and `_.-~`."""


class NotSent(Exception):
    """No byte of the wake has left."""


class Unanswered(Exception):
    """It was sent, or may have been, and no answer came."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The receiver's answer; `wish` are the milliseconds that it asked us to wait, None where it did not."""

    status: int
    wish: int | None


@dataclass(slots=True)
class _Try:
    """How far one POST has come: whether a byte of the wake may have left, and the answer once its status is known."""

    has_begun: bool = False
    reply: Reply | None = None

    async def trace(self, event: str, _: Mapping[str, Any]) -> None:
        """What the library tells of its progress."""
        self.has_begun = self.has_begun or event.endswith("send_request_headers.started")


class Sender:
    """Posts wakes, each over a connection of its own.

    Args:
        allowed: which addresses besides the public ones.
        timeout: seconds for one POST, from the name to the answer.
        resolver: looks names up.
    """

    def __init__(self, allowed: Allowed, timeout: float, resolver: NameLookup | None = None) -> None:
        self._allowed = allowed
        self._timeout = timeout
        self._resolver = resolver or NameLookup()
        self._trust: ssl.SSLContext | None = None

    async def post(self, receiver: Receiver, body: str, now: Instant) -> Reply:
        """Post a wake and answer what the receiver said.

        Raises:
            Forbidden: one of its addresses may not be posted to.
            Unresolved: its name leads nowhere.
            NotSent: nothing has left.
            Unanswered: it may have arrived.
        """
        so_far = _Try()
        # what is loaded once is no part of the time that a receiver has
        await self._prepared()
        trust = await self._trusted()
        try:
            async with asyncio.timeout(self._timeout):
                await self._post(receiver, body, now, so_far, trust)
        except TimeoutError:
            if so_far.reply is None:
                told = f"no answer within {self._timeout:g} s"
                raise (Unanswered(told) if so_far.has_begun else NotSent(told)) from None
        if so_far.reply is None:
            raise AssertionError("what has neither answered nor failed was never sent")
        return so_far.reply

    async def _post(self, receiver: Receiver, body: str, now: Instant, so_far: _Try, trust: ssl.SSLContext) -> None:
        url = urlsplit(receiver.url.reveal())
        host, is_plain = url.hostname or "", url.scheme == "http"
        port = url.port or (80 if is_plain else 443)
        addresses = await self._resolver.addresses_of(host, port)
        require_public(host, addresses, self._allowed)
        refused = ""
        # one that never answers must leave time for the others
        patience = self._timeout / len(addresses)
        for address in addresses:
            try:
                return await self._post_to(address, receiver, body, now, so_far, patience, trust)
            except NotSent as unreachable:
                refused = str(unreachable)
        raise NotSent(refused)

    async def _post_to(
        self,
        address: IPAddress,
        receiver: Receiver,
        body: str,
        now: Instant,
        so_far: _Try,
        patience: float,
        trust: ssl.SSLContext,
    ) -> None:
        import httpx2  # noqa: PLC0415 - an extra: what is not installed must not be missed at the start

        url = httpx2.URL(receiver.url.reveal())
        pinned = url.copy_with(host=str(address))
        headers = {
            **signed(receiver, body, now),
            "Host": url.netloc.decode("ascii"),
            "User-Agent": _AGENT,
            "Accept-Encoding": "identity",
        }
        # no connection is kept: another name may lead to the same address
        limits = httpx2.Limits(max_keepalive_connections=0)
        try:
            async with (
                httpx2.AsyncClient(
                    verify=trust,
                    trust_env=False,
                    follow_redirects=False,
                    timeout=httpx2.Timeout(self._timeout, connect=patience),
                    limits=limits,
                ) as client,
                client.stream(
                    "POST",
                    pinned,
                    content=body.encode(),
                    headers=headers,
                    extensions={"sni_hostname": url.host, "trace": so_far.trace},
                ) as answer,
            ):
                so_far.reply = Reply(answer.status_code, _wish(answer.headers.get("retry-after"), now))
                await _read_some(answer)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as unreachable:
            raise NotSent(_said(unreachable, "cannot be connected to")) from unreachable
        except httpx2.HTTPError as lost:
            raise Unanswered(_said(lost, "broke off")) from lost

    async def _trusted(self) -> ssl.SSLContext:
        # reading all authorities takes a third of a second
        if self._trust is None:
            self._trust = await asyncio.to_thread(ssl.create_default_context)
        return self._trust

    async def _prepared(self) -> None:
        """Have the libraries loaded elsewhere: it takes a second, in which nobody else may be kept waiting."""
        if self._trust is None:
            await asyncio.to_thread(_load)


def _load() -> None:
    import_module("httpx2")
    for chatty in ("httpx2", "httpcore2"):
        # they log whole URLs, and what may be secret in them
        logging.getLogger(chatty).setLevel(logging.WARNING)
    import_module("standardwebhooks")


async def _read_some(answer: Any) -> None:
    """Let the receiver finish a short answer; the status is all that counts, also where the rest breaks off."""
    import httpx2  # noqa: PLC0415 - see above

    read = 0
    try:
        async for piece in answer.aiter_raw():
            read += len(piece)
            if read >= MOST_ANSWERED:
                return
    except httpx2.HTTPError:
        return


def signed(receiver: Receiver, body: str, now: Instant) -> dict[str, str]:
    """Both header sets; the timestamp is that of this very try. Without a key nothing is signed: a person's own URL may have none."""
    from standardwebhooks import Webhook  # noqa: PLC0415 - see above

    envelope = json.loads(body)
    event_id = str(envelope["eventId"])
    if not receiver.key:
        return {"Content-Type": "application/json", "webhook-id": event_id}
    at = datetime.fromtimestamp(now / 1000, UTC)
    keys = [receiver.key, *([receiver.former_key] if receiver.former_key and now < receiver.former_until else [])]
    signatures = [Webhook(_decodable(key)).sign(event_id, at, body) for key in keys]
    neo = signature_of(receiver.key.reveal(), body.encode())
    return {
        "Content-Type": "application/json",
        "X-Neo-Wake-Signature": neo,
        "X-Neo-Wake-Event-Id": event_id,
        # the graph's own word: a line break in it must not begin another header
        "X-Neo-Wake-Subscription-Id": quote(receiver.subscription_id, safe=_SAFE),
        "X-Neo-Wake-Schema-Version": str(envelope["schemaVersion"]),
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _decodable(key: Secret) -> str | bytes:
    """The key as the library takes it; one of another make, which is no base64, by its own bytes."""
    text = key.reveal()
    return text if text.startswith("whsec_") else text.encode()


def _wish(header: str | None, now: Instant) -> int | None:
    """`Retry-After`, in milliseconds from now."""
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return min(int(header[:9]) * 1000, LONGEST_WISH)
    try:
        return min(max(0, int(parsedate_to_datetime(header).timestamp() * 1000) - now), LONGEST_WISH)
    except (TypeError, ValueError, OverflowError):
        return None


def _said(error: Exception, otherwise: str) -> str:
    """What went wrong, in the words of who noticed it; no URL is in them."""
    return " ".join(str(error).split())[:200] or f"it {otherwise}"
