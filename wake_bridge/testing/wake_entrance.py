"""The entrance of signed wakes without a daemon around it, and a sender that signs as our webhooks do; for tests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import json
import socket
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from standardwebhooks import Webhook

from wake_bridge.config.senders import ConfiguredSender
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Epoch, Identity, Instant
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.engine.tail.signed_wakes import SignedWakes
from wake_bridge.engine.tail.tail import EventNotifier
from wake_bridge.http.app import application
from wake_bridge.http.listener import Listener
from wake_bridge.http.signatures import Signatures
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing import HUNG

KEY: Final = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
OTHER_KEY: Final = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="


@dataclass(frozen=True, slots=True)
class Answered:
    """What was answered."""

    status: int
    said: Mapping[str, Any]
    headers: Mapping[str, str]


def message_wake(**changed: object) -> dict[str, Any]:
    """One message for `@far`, as our webhooks send it."""
    wake: dict[str, Any] = {
        "schemaVersion": "1.0",
        "eventId": new_ulid(),
        "logId": 17,
        "agentIdentity": "@far",
        "subscriptionId": "WAKE_SUB:7",
        "emittedAt": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "eventType": "wake/sent_to_me",
        "payload": {
            "messageId": f"MESSAGE:{new_ulid()}",
            "from": "@near",
            "subject": "the build is red",
            "priority": "high",
            "taggedConcepts": [],
            "isReplyTo": None,
            "isBroadcast": False,
        },
    }
    return wake | changed


def standard_headers(body: bytes, event_id: str, key: str = KEY, *, at: datetime | None = None) -> dict[str, str]:
    """The headers of Standard Webhooks."""
    stamp = at or datetime.now(UTC)
    signature = Webhook(key).sign(event_id, stamp, body.decode())
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(stamp.timestamp())),
        "webhook-signature": signature,
    }


def neo_headers(body: bytes, wake: Mapping[str, Any], key: str = KEY) -> dict[str, str]:
    """The other set."""
    return {
        "X-Neo-Wake-Signature": hmac.new(key.encode(), body, hashlib.sha256).hexdigest(),
        "X-Neo-Wake-Event-Id": str(wake.get("eventId")),
        "X-Neo-Wake-Subscription-Id": str(wake.get("subscriptionId")),
        "X-Neo-Wake-Schema-Version": str(wake.get("schemaVersion")),
    }


@dataclass
class Entrance:
    """An entrance that listens, and the ledger behind it.

    `lives_here` are the identities with a place, `poked` counts how often the daemon was told of new events.
    """

    ledger: LedgerStore
    port: int = 0
    lives_here: set[str] = field(default_factory=lambda: {"@far"})
    epoch: int = 1
    poked: int = 0
    wall: int | None = None

    async def send(
        self, wake: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None, **more: str
    ) -> Answered:
        """Post a wake; without `headers` signed by both sets. `more` are headers besides, with _ for -."""
        body = wake if isinstance(wake, bytes) else json.dumps(wake).encode()
        if headers is None:
            known = wake if isinstance(wake, Mapping) else {}
            headers = standard_headers(body, str(known.get("eventId", "x"))) | neo_headers(body, known)
        sent = {"Content-Type": "application/json"} | dict(headers)
        sent |= {name.replace("_", "-"): value for name, value in more.items()}
        return await asyncio.to_thread(self.ask, "POST", "/api/wake", body, sent)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> Answered:
        """One request; waits for its answer on the caller's thread."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HUNG)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read()
            kind = answer.headers.get("content-type", "")
            said = json.loads(text) if kind.startswith("application/json") else {"text": text.decode()}
            return Answered(answer.status, said, {name.lower(): value for name, value in answer.headers.items()})
        finally:
            connection.close()

    def connected(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), HUNG)


@asynccontextmanager
async def entrance(
    directory: Path,
    senders: Sequence[ConfiguredSender] = (
        ConfiguredSender("up", frozenset({Identity("@far")}), legacy=False, key=KEY),
    ),
    hosts: Collection[str] = ("127.0.0.1",),
) -> AsyncIterator[Entrance]:
    """Listen on loopback, on the loop that runs; the ledger lies in `directory`."""
    clock = SteadyClock()
    with closing(LedgerStore.open(directory)) as ledger:
        here = Entrance(ledger)

        def poke() -> None:
            here.poked += 1

        signed = SignedWakes(
            ledger,
            clock,
            new_ulid,
            rules=MatchingRules,
            epoch=lambda: Epoch(here.epoch),
            lives_here=lambda who: who in here.lives_here,
            notifier=EventNotifier(poke),
        )
        answer = application(
            Signatures(senders), signed.take, hosts, lambda: clock.wall() if here.wall is None else Instant(here.wall)
        )
        listener = Listener(ListenAddress.parse("127.0.0.1:0"), None)
        here.port = listener.bind().port
        serving = asyncio.create_task(listener.serve(answer))
        try:
            yield here
        finally:
            serving.cancel()
            await asyncio.wait({serving})
            listener.close()
