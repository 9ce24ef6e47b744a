"""What is sent to a receiver, and what becomes of its answer: on loopback, against a process that can misbehave."""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from wake_bridge_adapters.webhook import WebhookAdapter
from wake_bridge_adapters.webhook.addresses import Allowed, Forbidden, IPAddress, NameLookup
from wake_bridge_adapters.webhook.post import MOST_ANSWERED, NotSent, Reply, Sender, Unanswered
from wake_bridge_adapters.webhook.table import WebhookConfig

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.receivers import LONGEST_WISH, Receiver, Secret
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import AdapterContext, Nowhere
from wake_bridge.testing import HUNG
from wake_bridge.testing.turned_clock import TurnedClock
from wake_bridge.testing.webhook_receiver import WebhookReceiver

KEY = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
BODY = json.dumps({"eventId": "01K9Z3NDEKTSV4RRFFQ69G5FAV", "schemaVersion": "1.0", "text": "für Dich ✓"})
NAME = "devbox.test"
"""Known to the lookups of these tests alone."""

SHORT = 0.5
"""Seconds after which a receiver that does not answer is left."""

LONG = 30.0


class Told(NameLookup):
    """Answers one name lookup after the other, and counts them."""

    def __init__(self, *answers: Sequence[str]) -> None:
        super().__init__()
        self.asked = 0
        self._answers = answers

    async def addresses_of(self, host: str, port: int) -> list[IPAddress]:
        """Whatever is asked for."""
        del host, port
        self.asked += 1
        return [ip_address(one) for one in self._answers[min(self.asked, len(self._answers)) - 1]]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookReceiver]:
    """One for all: it says each time what it is told to."""
    with WebhookReceiver(tmp_path_factory.mktemp("receiver")) as one:
        yield one


def meant(url: str, *, key: str = KEY, subscription: str = "WAKE_SUB:1") -> Receiver:
    return Receiver(subscription, Secret(url), Secret(key))


def posted(
    to: Receiver | str, *, allow: Sequence[str] = ("127.0.0.0/8",), within: float = LONG, names: Told | None = None
) -> Reply:
    to = meant(to) if isinstance(to, str) else to
    sender = Sender(Allowed.of(allow), within, names)
    return asyncio.run(sender.post(to, BODY, Instant(int(time.time() * 1000))))


def status(*asked: Any, **how: Any) -> int | str:
    """What was answered, or why nothing was."""
    try:
        return posted(*asked, **how).status
    except (NotSent, Unanswered) as failed:
        return str(failed)


def test_a_status_counts_whatever_the_receiver_does_after_it(receiver: WebhookReceiver) -> None:
    """A gigabyte, or a byte now and then for ever: 64 KiB are read, and it has taken the wake."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    receiver.says("huge", "drip")
    assert posted(receiver.url).status == 200
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 16 * 1024 * 1024 > MOST_ANSWERED
    # as long as it drips it is read, and a starved machine is late to connect
    assert posted(receiver.url, within=4 * SHORT).status == 200


@pytest.mark.parametrize("answer", ["hang", "reset", "garbage"])
def test_what_was_sent_and_not_answered_may_have_arrived(receiver: WebhookReceiver, answer: str) -> None:
    """It had the whole body; nothing else can be said of it."""
    receiver.says(answer)
    with pytest.raises(Unanswered) as lost:
        posted(receiver.url, within=SHORT)
    assert receiver.received()[-1]["body"] == BODY
    assert "not-to-be-shown" not in str(lost.value)


def test_where_nobody_listens_nothing_has_left(receiver: WebhookReceiver) -> None:
    """Refused, and a name whose first address never answers: the next one is tried in time."""
    with pytest.raises(NotSent):
        posted("http://127.0.0.1:1/")
    receiver.says("204")
    names = Told(["127.0.0.2", "127.0.0.1"])
    assert posted(f"http://{NAME}:{receiver.port}/", allow=[NAME], names=names).status == 204


@pytest.mark.parametrize(
    ("wish", "milliseconds"),
    [
        ("7", 7_000),
        ("99999999999999999999", LONGEST_WISH),
        ("\u00b2", None),
        ("-1", None),
        ("soon", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", LONGEST_WISH),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ],
)
def test_retry_after_is_read_without_trust(receiver: WebhookReceiver, wish: str, milliseconds: int | None) -> None:
    """Seconds, a date, or nothing that means anything."""
    receiver.says(f"503|Retry-After:{wish}")
    assert posted(receiver.url) == Reply(503, milliseconds)


def test_a_redirect_is_an_answer_and_is_not_followed(receiver: WebhookReceiver) -> None:
    """Neither to another host nor to itself."""
    receiver.says(f"307|Location:{receiver.url}")
    count = len(receiver.received())
    assert status(receiver.url) == 307
    assert len(receiver.received()) == count + 1


def test_the_connection_goes_to_the_address_that_was_checked(receiver: WebhookReceiver) -> None:
    """The name is looked up once: what it leads to a moment later counts for nothing."""
    receiver.says("204")
    names = Told(["127.0.0.1"], ["169.254.169.254"])
    assert status(f"http://{NAME}:{receiver.port}/x?y=1", allow=[NAME], names=names) == 204
    assert names.asked == 1
    got = receiver.received()[-1]
    assert (got["path"], got["headers"]["Host"]) == ("/x?y=1", f"{NAME}:{receiver.port}")
    with pytest.raises(Forbidden, match=r"169\.254\.169\.254, which is link-local"):
        posted(f"http://{NAME}/", allow=[], names=Told(["1.1.1.1", "169.254.169.254"]))


def test_a_proxy_of_the_environment_is_not_used(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could reach what this machine may not."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    receiver.says("204")
    assert status(receiver.url) == 204


def test_what_is_signed_is_verified_by_others_whatever_the_graph_says(receiver: WebhookReceiver) -> None:
    """The Standard Webhooks library and openssl; a key of another make, and an id that would break a header."""
    receiver.says("204")
    for key in (KEY, "a key of another make"):
        posted(meant(receiver.url, key=key, subscription="WAKE_SUB:é\r\nX-Evil: 1"))
        got = receiver.received()[-1]
        headers, body = got["headers"], got["body"]
        Webhook(key if key is KEY else key.encode()).verify(body, headers)
        dgst = subprocess.run(
            ["openssl", "dgst", "-sha256", "-hmac", key], input=body.encode(), capture_output=True, check=True
        )
        assert dgst.stdout.decode().split()[-1] == headers["X-Neo-Wake-Signature"]
        assert headers["X-Neo-Wake-Subscription-Id"] == "WAKE_SUB:%C3%A9%0D%0AX-Evil:%201"
        assert "X-Evil" not in headers


@pytest.mark.parametrize("key", ["", "whsec_", "whsec_%%%", "whsec_a", "\ud800"])
def test_a_key_that_cannot_sign_is_told_and_nothing_is_posted(receiver: WebhookReceiver, key: str) -> None:
    """Also what a foreign graph holds; the key itself is not shown."""
    adapter = WebhookAdapter(WebhookConfig(allow=("127.0.0.1",)), AdapterContext(10, 10, "", {}, TurnedClock(0)))
    found = asyncio.run(adapter.resolve(Address(Identity("@ci"), receiver=meant(receiver.url, key=key))))
    assert isinstance(found, Nowhere)
    assert "signingKey" in found.detail
    assert "`wake-bridge update WAKE_SUB:1 --rotate-key`" in found.detail
    assert "%%%" not in found.detail


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `ca.pem`, and `devbox.pem`: key and certificate of the name, signed by it."""
    place = tmp_path_factory.mktemp("tls")
    ca, leaf = place / "ca.pem", place / "devbox.pem"

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=place)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", ca.name, "-days", "2", "-subj", "/CN=a local CA")
    openssl("req", *new_key, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=ignored")
    (place / "san").write_text(f"subjectAltName=DNS:{NAME}\n", encoding="utf-8")
    openssl(
        "x509", "-req", "-in", "leaf.csr", "-CA", ca.name, "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "san", "-out", "leaf.pem",
    )  # fmt: skip
    leaf.write_text((place / "leaf.key").read_text() + (place / "leaf.pem").read_text(), encoding="utf-8")
    return place


def test_tls_is_verified_against_the_name_and_an_authority_that_is_trusted(
    tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right name of a known authority; another name at the same address, and an unknown authority: nothing leaves."""
    with WebhookReceiver(tmp_path, certificate=certificates / "devbox.pem") as secure:
        there, elsewhere = (f"https://{host}:{secure.port}/" for host in (NAME, "other.test"))
        names, allow = Told(["127.0.0.1"]), ["127.0.0.1"]
        with pytest.raises(NotSent, match="certificate"):
            posted(there, allow=allow, names=names)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
        assert posted(there, allow=allow, names=names).status == 204
        for url in (elsewhere, f"https://127.0.0.1:{secure.port}/"):
            with pytest.raises(NotSent, match="certificate"):
                posted(url, allow=allow, names=names)
        assert len(secure.received()) == 1


HANGING_RESOLVER = """
import asyncio, socket, sys, time
from wake_bridge_adapters.webhook.addresses import NameLookup

socket.getaddrinfo = lambda *_, **__: time.sleep(float(sys.argv[1]))

async def gives_up():
    try:
        async with asyncio.timeout(0.1):
            await NameLookup().addresses_of("nowhere.example", 443)
    except TimeoutError:
        print("given up")

asyncio.run(gives_up())
"""


def test_a_name_whose_lookup_hangs_keeps_no_process_from_ending() -> None:
    """The resolver of the system cannot be interrupted: nobody waits for it at the end."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGING_RESOLVER, str(10 * HUNG)],
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=True,
    )
    assert ended.stdout == "given up\n"
