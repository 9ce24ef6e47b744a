"""Signed wakes: who is heard, what comes of it in the ledger, and how long a connection may take."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.config.senders import ConfiguredSender
from wake_bridge.domain.digest import EMBEDDED_ACTION, DigestStyle, compose
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.events import EventStatus, MessageDetail
from wake_bridge.domain.names import DAY, EventKind, Identity, Instant, Priority, WakePolicy
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.http import app, listener, requests
from wake_bridge.http.signatures import Signatures
from wake_bridge.ports.ledger_records import Emission, Taken
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG
from wake_bridge.testing.wake_entrance import (
    KEY,
    OTHER_KEY,
    Answered,
    Entrance,
    entrance,
    message_wake,
    neo_headers,
    standard_headers,
)

FAR = Identity("@far")
UP = ConfiguredSender("up", frozenset({FAR}), legacy=False, key=KEY)
LEGACY = ConfiguredSender("up", frozenset({FAR}), legacy=True, key=KEY)


def at(directory: Path, story: Callable[[Entrance], Awaitable[None]], *senders: ConfiguredSender) -> None:
    """Play a story at an entrance of its own."""

    async def play() -> None:
        async with entrance(directory, senders or (UP,)) as here:
            async with asyncio.timeout(HUNG):
                await story(here)

    asyncio.run(play())


def signed_by(key: str, wake: dict[str, Any]) -> dict[str, str]:
    body = json.dumps(wake).encode()
    return standard_headers(body, wake["eventId"], key) | neo_headers(body, wake, key)


def test_a_wake_is_an_event_in_the_ledger_before_it_is_answered_and_counts_once(tmp_path: Path) -> None:
    """202 means on disk: another process reads it there; the same eventId again is 200, and changes nothing."""
    wake = message_wake()

    async def story(here: Entrance) -> None:
        assert (await here.send(wake)).status == 202
        with closing(LedgerStore.open(tmp_path, read_only=True)) as other:
            found = other.find_events(subject_key=wake["payload"]["messageId"])
        assert len(found) == 1
        (event,) = found
        assert isinstance(event.detail, MessageDetail)
        assert (event.identity, event.kind, event.status) == (FAR, EventKind.MESSAGE, EventStatus.OPEN)
        assert (event.policy, event.priority, event.window) == (WakePolicy.IMMEDIATE, Priority.HIGH, 30)
        assert (event.detail.subject, event.detail.sender) == ("the build is red", "@near")
        assert (event.subscription_id, event.log_id, here.poked) == ("WAKE_SUB:7", 0, 1)
        again = await here.send(wake)
        assert (again.status, again.said["status"], here.poked) == (200, "known", 1)
        text = compose(
            [event],
            identity=FAR,
            delivery_id="MARK",
            now=event.matched_at,
            known={FAR},
            style=DigestStyle(action=EMBEDDED_ACTION),
        )
        assert "Check your mailbox." in text
        assert "wake-bridge inbox" not in text

    at(tmp_path, story)


def test_the_same_message_under_another_event_id_wakes_nobody_again(tmp_path: Path) -> None:
    """A subject wakes once, also when its sender has lost its memory; of another sender it is another subject."""
    wake = message_wake()
    other = ConfiguredSender("other", frozenset({FAR}), legacy=False, key=OTHER_KEY)

    async def story(here: Entrance) -> None:
        for changed in (wake, wake | {"eventId": "01K9Z3NDEKTSV4RRFFQ69G5FAV"}):
            assert (await here.send(changed)).status == 202
        assert here.poked == 1
        theirs = wake | {"eventId": "01K9Z3NDEKTSV4RRFFQ69G5FAW"}
        assert (await here.send(theirs, signed_by(OTHER_KEY, theirs))).status == 202
        assert here.poked == 2

    at(tmp_path, story, UP, other)


REFUSED: dict[str, tuple[int, str | None, Callable[[dict[str, Any], bytes], dict[str, str]]]] = {
    "nothing signed": (401, None, lambda *_: {}),
    "another key": (401, None, lambda w, _: signed_by(OTHER_KEY, w)),
    "the neo set alone": (401, None, lambda w, b: neo_headers(b, w)),
    "a false neo set beside a good one": (
        401,
        None,
        lambda w, b: standard_headers(b, w["eventId"]) | neo_headers(b, w, OTHER_KEY),
    ),
    "a neo set without its signature": (
        401,
        None,
        lambda w, b: standard_headers(b, w["eventId"]) | {"X-Neo-Wake-Event-Id": w["eventId"]},
    ),
    "a false standard set beside a good one": (
        401,
        None,
        lambda w, b: standard_headers(b, w["eventId"], OTHER_KEY) | neo_headers(b, w),
    ),
    "a timestamp of six minutes ago": (
        401,
        None,
        lambda w, b: standard_headers(b, w["eventId"], at=datetime.now(UTC) - timedelta(minutes=6)),
    ),
    "a timestamp of six minutes ahead": (
        401,
        None,
        lambda w, b: standard_headers(b, w["eventId"], at=datetime.now(UTC) + timedelta(minutes=6)),
    ),
    "half a standard set": (401, None, lambda w, _: {"webhook-id": w["eventId"]}),
    "another id in the header": (422, "webhook-id", lambda _, b: standard_headers(b, "another")),
    "another subscription in the header": (
        422,
        "x-neo-wake-subscription-id",
        lambda w, b: standard_headers(b, w["eventId"]) | neo_headers(b, w) | {"X-Neo-Wake-Subscription-Id": "X"},
    ),
}


@pytest.mark.parametrize("case", [*REFUSED])
def test_every_signature_that_is_there_must_hold(tmp_path: Path, case: str) -> None:
    """Stripped, mixed, old and half ones are refused, and nothing is written down."""
    status, wrong_field, headers = REFUSED[case]
    wake = message_wake()

    async def story(here: Entrance) -> None:
        answer = await here.send(wake, headers(wake, json.dumps(wake).encode()))
        assert (answer.status, answer.said.get("field")) == (status, wrong_field)
        assert (await here.send(wake)).status == 202, "what was refused has left no trace"

    at(tmp_path, story)


MALFORMED = {
    "no JSON": (b"{", "application/json", 422, ""),
    "no object": (b"[]", "application/json", 422, ""),
    "an unknown kind": (
        json.dumps(message_wake(eventType="wake/other")).encode(),
        "application/json",
        422,
        "eventType",
    ),
    "a newer schema": (
        json.dumps(message_wake(schemaVersion="2.0")).encode(),
        "application/json",
        422,
        "schemaVersion",
    ),
    "no message": (json.dumps(message_wake(payload={})).encode(), "application/json", 422, "payload.messageId"),
    "no time": (json.dumps(message_wake(emittedAt="soon")).encode(), "application/json", 422, "emittedAt"),
    "no identity": (json.dumps(message_wake(agentIdentity="far")).encode(), "application/json", 422, "agentIdentity"),
    "text": (b"hello", "text/plain", 415, None),
    "too much": (b"x" * (64 * 1024 + 1), "application/json", 413, None),
    "far too much": (b"x" * (1024 * 1024), "application/json", 413, None),
}


@pytest.mark.parametrize("case", [*MALFORMED])
def test_what_is_no_wake_is_refused_with_the_field_named(tmp_path: Path, case: str) -> None:
    """Of signed ones the field is told; of all others nothing."""
    body, kind, status, wrong_field = MALFORMED[case]

    async def story(here: Entrance) -> None:
        answer = await here.send(body, standard_headers(body, "x"), Content_Type=kind)
        assert answer.status == status
        if wrong_field is not None:
            assert answer.said.get("field", "") == wrong_field

    at(tmp_path, story)


def test_a_sender_wakes_whom_it_may_and_only_who_lives_here(tmp_path: Path) -> None:
    """403 for another's identity, 404 for one that has no place here, 409 for an eventId with another body, 503 at the start."""
    wake = message_wake()

    async def story(here: Entrance) -> None:
        assert (await here.send(message_wake(agentIdentity="@other"))).status == 403
        here.lives_here.clear()
        gone = await here.send(wake)
        assert (gone.status, gone.said.get("field")) == (404, "agentIdentity")
        here.lives_here.add("@far")
        assert (await here.send(wake)).status == 202, "it may come again once the identity is here"
        assert (await here.send(wake | {"logId": 18})).status == 409
        here.epoch = 0
        early = await here.send(message_wake())
        assert (early.status, early.headers["retry-after"]) == (503, "5")
        here.ledger.close()

    at(tmp_path, story)


def test_a_ledger_that_cannot_be_written_takes_nothing(tmp_path: Path) -> None:
    """503: the sender tries again; what was not written down was not taken."""
    wake = message_wake()

    async def story(here: Entrance) -> None:
        (tmp_path / "state.sqlite").rename(tmp_path / "elsewhere")
        answer = await here.send(wake)
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        assert here.poked == 0

    at(tmp_path, story)


def test_of_a_sender_without_timestamps_nothing_old_is_taken(tmp_path: Path) -> None:
    """The Neo set alone, for who may: its eventIds are known for 90 days, and what is older is refused."""
    wake = message_wake(eventId=f"wake-digest:{'0' * 64}")
    body = json.dumps(wake).encode()

    async def story(here: Entrance) -> None:
        assert (await here.send(wake, neo_headers(body, wake))).status == 202
        assert (await here.send(wake, neo_headers(body, wake))).status == 200
        for days, status in ((89, 200), (91, 401), (-1, 401)):
            here.wall = int(time.time() * 1000) + days * DAY
            assert (await here.send(wake, neo_headers(body, wake))).status == status, days

    at(tmp_path, story, LEGACY)


def test_an_event_id_is_forgotten_only_when_its_wake_would_be_refused_as_old(tmp_path: Path) -> None:
    """A replay after the ids were pruned: both limits are the same 90 days."""
    with closing(LedgerStore.open(tmp_path)) as ledger:
        emission = Emission("up", "id", "body", Instant(1_000_000))
        assert ledger.take_in(emission, [], Instant(900_000))[0] is Taken.NEW
        assert ledger.forget_emissions(Instant(1_000_000), 10) == 0
        assert ledger.take_in(emission, [], Instant(1_000_001))[0] is Taken.KNOWN
        assert ledger.forget_emissions(Instant(1_000_001), 10) == 1


def test_a_page_in_a_browser_and_a_strange_name_are_refused_and_health_needs_no_key(tmp_path: Path) -> None:
    """Origin and Host are checked before all else; `/healthz` alone is for everybody."""

    async def story(here: Entrance) -> None:
        async def asked(method: str, path: str, **headers: str) -> Answered:
            return await asyncio.to_thread(here.ask, method, path, None, headers)

        assert (await asked("GET", "/healthz")).said == {"status": "ok"}
        assert (await here.send(message_wake(), Origin="http://127.0.0.1")).status == 403
        assert (await here.send(message_wake(), Host="rebound.example")).status == 403
        assert (await asked("GET", "/healthz", Host="rebound.example")).status == 403
        assert (await asked("GET", "/healthz", Host=f"127.0.0.1:{here.port}")).status == 200
        assert (await asked("GET", "/api/wake")).status == 405
        assert (await asked("GET", "/")).status == 404
        assert (await asked("GET", "/healthz")).headers["connection"] == "close"

    at(tmp_path, story)


def test_a_slow_client_is_ended_in_time_and_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow loris: headers, body and the whole connection have their time, and there is room for who sends."""
    monkeypatch.setattr(listener, "HEAD_TIME", 0.3)
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(requests, "BODY_TIME", 0.3)

    def drained(connection: Any) -> bytes:
        found = b""
        while chunk := connection.recv(4096):
            found += chunk
        return found

    async def story(here: Entrance) -> None:
        idle = here.connected()
        slow_head = here.connected()
        slow_head.sendall(b"POST /api/wake HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        slow_body = here.connected()
        slow_body.sendall(
            b"POST /api/wake HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        answers = await asyncio.gather(*(asyncio.to_thread(drained, one) for one in (idle, slow_head)))
        assert answers == [b"", b""]
        assert (await asyncio.to_thread(drained, slow_body)).startswith(b"HTTP/1.1 408 ")
        for one in (idle, slow_head, slow_body):
            one.close()
        monkeypatch.setattr(listener, "HEAD_TIME", HUNG)
        crowd = [here.connected() for _ in range(5)]
        assert (await here.send(message_wake())).status == 202, "the oldest that has said nothing made room"
        monkeypatch.setattr(requests, "BODY_TIME", HUNG)
        head = b"POST /api/wake HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        for one in crowd:
            one.close()
        crowd = [here.connected() for _ in range(5)]
        for one in crowd:
            one.sendall(head)
        wake = message_wake(eventId="01K9Z3NDEKTSV4RRFFQ69G5FAX")
        assert (await here.send(wake)).status == 202, "the oldest whose body does not come made room"
        for one in crowd:
            one.close()

    at(tmp_path, story)


UPSTREAM: dict[str, Any] = {
    "schemaVersion": "1.0",
    "eventType": "wake/digest",
    "eventId": f"wake-digest:{'a' * 64}",
    "logId": 61,
    "agentIdentity": "@far",
    "subscriptionId": "WAKE_SUB:c0ffee01-0000-4000-8000-000000000000",
    "payload": {
        "totalEvents": 4,
        "breakdown": {
            "sent_to_me": {
                "count": 3,
                "latest": {
                    "messageId": "MESSAGE:3",
                    "from": "@neo-opus-ada",
                    "subject": "Review request",
                    "priority": "normal",
                    "taggedConcepts": [],
                    "sentAt": "2026-11-27T21:53:52.508Z",
                },
                "latestTs": 1795816432508,
                "highestPriority": "high",
            },
            "task_state_changed": {"count": 0, "latest": None, "latestTs": None},
            "permission_granted": {"count": 0, "latest": None, "latestTs": None},
            "heartbeat_pulse": {
                "count": 1,
                "latest": {"pulseId": "3f0c4d3a"},
                "latestTs": None,
            },
        },
        "sourceEventIds": ["MESSAGE:1", "MESSAGE:2", "MESSAGE:3", "3f0c4d3a"],
        "windowMs": 30012,
    },
    "emittedAt": "",
}
"""What `CoalescingEngineService` builds and `WebhookDeliveryService` posts, with the headers of the Neo set alone."""


def test_the_upstream_daemons_own_webhook_is_taken(tmp_path: Path) -> None:
    """Its digest only counts: of each kind the latest is known by name, of the others that they are there."""
    wake = UPSTREAM | {"emittedAt": message_wake()["emittedAt"]}
    body = json.dumps(wake, separators=(",", ":")).encode()

    async def story(here: Entrance) -> None:
        assert (await here.send(body, neo_headers(body, wake))).status == 202
        events = [
            one for key in ("MESSAGE:1", "MESSAGE:2", "MESSAGE:3") for one in here.ledger.find_events(subject_key=key)
        ]
        assert [one.kind for one in events] == [EventKind.MESSAGE] * 3
        text = compose(events, identity=FAR, delivery_id="MARK", now=events[0].matched_at, known={FAR})
        assert text.startswith("[WAKE][priority:high] 3 events for @far:")
        assert '3 new messages (latest: "Review request" from ' in text
        assert len(here.ledger.find_events(subject_key="3f0c4d3a")) == 1

    at(tmp_path, story, LEGACY)


def test_our_digest_is_as_many_events_as_it_counts_and_the_last_is_the_latest(tmp_path: Path) -> None:
    """What is beyond the ten that are named is counted; a number in a body decides nothing."""
    named = [
        {"eventType": "wake/sent_to_me", "logId": n, "subscriptionId": "WAKE_SUB:7", "payload": one["payload"]}
        for n, one in enumerate(message_wake() for _ in range(10))
    ]
    named[-1]["payload"] |= {"subject": "the newest"}
    digest = {
        "text": "",
        "counts": {"message": 25, "task": 1_000_000},
        "window": {"from": message_wake()["emittedAt"], "to": message_wake()["emittedAt"]},
        "events": named,
        "total": 25,
        "shown": 10,
    }
    wake = message_wake(eventType="wake/digest", payload=digest)

    async def story(here: Entrance) -> None:
        assert (await here.send(wake)).status == 202
        events = here.ledger._events("SELECT * FROM wake_event ORDER BY seq")
        messages = [one for one in events if one.kind is EventKind.MESSAGE]
        assert (len(messages), len(events)) == (25, 25 + 500 - 15)
        text = compose(messages, identity=FAR, delivery_id="MARK", now=messages[0].matched_at, known={FAR})
        assert '25 new messages (latest: "the newest"' in text

    at(tmp_path, story)


def test_a_key_in_a_file_counts_from_when_the_file_has_it(tmp_path: Path) -> None:
    """The new key stands beside the old one while the sender changes over; a file that is spoiled changes nothing."""
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    keys.chmod(0o600)
    sender = ConfiguredSender("up", frozenset({FAR}), legacy=False, key_path=keys)

    async def story(here: Entrance) -> None:
        async def status_by(key: str) -> int:
            wake = message_wake()
            return (await here.send(wake, signed_by(key, wake))).status

        assert [await status_by(KEY), await status_by(OTHER_KEY)] == [202, 401]
        keys.write_text(f"{OTHER_KEY}\n{KEY}\n")
        assert [await status_by(KEY), await status_by(OTHER_KEY)] == [202, 202]
        keys.chmod(0o644)
        assert await status_by(OTHER_KEY) == 202

    at(tmp_path, story, sender)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    files = directory / "certificate.pem", directory / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
    ]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    out = ["-keyout", str(files[1]), "-out", str(files[0])]
    subprocess.run([*made, *named, *out], check=True, capture_output=True)
    return files


def test_over_tls_and_a_unix_socket_the_same_is_answered(certificate: tuple[Path, Path]) -> None:
    """A client that never shakes hands holds nothing; the socket is its owner's alone; what else lies there stays."""
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    place = Path(tempfile.mkdtemp(prefix="wbt-")) / "wake.sock"
    place.write_text("mine")
    with pytest.raises(OperationFailed, match="something else lies there"):
        listener.Listener(ListenAddress(path=str(place)), None).bind()
    place.unlink()

    async def health(where: ListenAddress, tls: ssl.SSLContext | None) -> bytes:
        listening = listener.Listener(where, tls)
        bound = listening.bind()
        answer = app.application(Signatures([UP]), no_wake, {"127.0.0.1", "localhost"}, lambda: Instant(0))
        serving = asyncio.create_task(listening.serve(answer))
        if bound.path:
            reader, writer = await asyncio.open_unix_connection(bound.path)
            assert mode_of(place) == 0o600
        else:
            mute = await asyncio.open_connection(bound.host, bound.port)
            reader, writer = await asyncio.open_connection(bound.host, bound.port, ssl=trusting)
            mute[1].close()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = await reader.read()
        writer.close()
        serving.cancel()
        await asyncio.wait({serving})
        listening.close()
        return said

    async def no_wake(sender: str, wake: object, body: str) -> Taken:  # noqa: ARG001
        raise AssertionError("nobody has signed")

    for where, tls in (
        (ListenAddress.parse("127.0.0.1:0"), listener.tls_context(*certificate)),
        (ListenAddress(path=str(place)), None),
    ):
        said = asyncio.run(asyncio.wait_for(health(where, tls), HUNG))
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.endswith(b'{"status":"ok"}')
    assert not place.exists()
    with pytest.raises(OperationFailed, match="cannot be used"):
        listener.tls_context(certificate[1], certificate[0])
