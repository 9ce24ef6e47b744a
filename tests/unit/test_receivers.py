"""Receivers of webhooks: which addresses, what a failure means, when it is tried again, what is sent."""

from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from wake_bridge_adapters.webhook.addresses import Allowed, Forbidden, require_public, why_refused

from wake_bridge.domain.names import Instant
from wake_bridge.domain.receivers import (
    GIVEN_UP,
    Receiver,
    ReceiverAnswer,
    ReceiverStanding,
    Secret,
    after_failure,
    answer_of,
    shown_url,
    why_no_url,
)
from wake_bridge.schemas.envelope import (
    SCHEMAS,
    Digest,
    DigestEnvelope,
    SentToMe,
    SentToMeEnvelope,
    TypedEvent,
    Window,
    schema_text,
    written,
)

SCHEMA_FOLDER = Path(__file__).parents[2] / "wake_bridge/schemas"
PAGE = (Path(__file__).parents[2] / "docs/webhook.md").read_text(encoding="utf-8")
AT = "2026-11-28T22:00:00.000Z"
EVENT_ID = "01K9Z3NDEKTSV4RRFFQ69G5FAV"

NOT_PUBLIC = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "::ffff:0:a00:1",
    "3fff::1",
    "4000::1",
    "5f00::1",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_what_only_this_machine_or_its_network_reaches_is_refused_as_literal_and_as_one_of_several_answers(
    address: str,
) -> None:
    """Each address is checked, also beside a public one: a name that answers with both is a rebinding pair."""
    refused = ip_address(address)
    assert why_refused(refused)
    with pytest.raises(Forbidden, match=r"allow = "):
        require_public(address, [refused], Allowed())
    with pytest.raises(Forbidden, match=r'hooks.example.org leads to .* allow = \["hooks.example.org"\]'):
        require_public("hooks.example.org", [ip_address("1.1.1.1"), refused], Allowed())


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_posted_to(address: str) -> None:
    """Also those inside IPv6 whose IPv4 address is public."""
    require_public("hooks.example.org", [ip_address(address)], Allowed())


@pytest.mark.parametrize("entry", ["127.0.0.0/8", "127.0.0.1", "devbox.local", "DEVBOX.local."])
def test_what_is_allowed_is_posted_to(entry: str) -> None:
    """A network, an address, or a host by its name however it is spelled."""
    require_public("devbox.local", [ip_address("127.0.0.1")], Allowed.of([entry]))
    with pytest.raises(Forbidden):
        require_public("other.local", [ip_address("10.0.0.1")], Allowed.of([entry]))


@pytest.mark.parametrize(
    ("statuses", "answer"),
    [
        ((500, 502, 503, 504, 599, 408, 425, 429), ReceiverAnswer.TRANSIENT),
        ((401, 403, 404), ReceiverAnswer.UNWELCOME),
        ((410,), ReceiverAnswer.GONE),
        (
            (300, 301, 302, 303, 304, 307, 308, 400, 402, 405, 406, 409, 411, 412, 413, 414, 415, 422, 423, 451),
            ReceiverAnswer.REJECTED,
        ),
    ],
)
def test_every_status_says_whether_to_send_again(statuses: tuple[int, ...], answer: ReceiverAnswer) -> None:
    """docs/webhook.md: what is sent again, what suspends, what is given up."""
    assert {answer_of(one) for one in statuses} == {answer}


def failed(
    times: int, answer: ReceiverAnswer = ReceiverAnswer.TRANSIENT, wish: int | None = None
) -> tuple[list[int], ReceiverStanding]:
    standing, now, waits = ReceiverStanding("WAKE_SUB:1"), 1_000_000, []
    for _ in range(times):
        standing = after_failure(standing, answer, "HTTP 503", Instant(now), jitter=0, wish=wish)
        waits.append(standing.next_try_at - now)
        now = standing.next_try_at
    return waits, standing


def test_a_receiver_that_fails_is_tried_again_soon_then_suspended_with_growing_patience() -> None:
    """1, 2, 4 s; then suspended: 5 s, 30 s, 2, 10, 30 minutes, hourly."""
    waits, standing = failed(11)
    assert waits == [1000, 2000, 4000, 5000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 3_600_000, 3_600_000]
    assert standing.is_shut
    assert not failed(3)[1].is_shut


def test_a_receiver_that_says_we_are_not_welcome_is_suspended_at_once_and_one_that_is_gone_given_up() -> None:
    """401, 403, 404 and 410."""
    assert failed(1, ReceiverAnswer.UNWELCOME)[1].suspended_at is not None
    assert failed(1, ReceiverAnswer.GONE)[1].degraded_at is not None


def test_a_receiver_may_ask_for_up_to_five_minutes() -> None:
    """`Retry-After` never shortens the wait, and never makes it longer than that."""
    assert [failed(1, wish=wish)[0][0] for wish in (0, 500, 60_000, 3_600_000)] == [1000, 1000, 60_000, 300_000]


def test_after_three_days_a_receiver_is_given_up_and_a_newer_form_of_its_subscription_begins_anew() -> None:
    """Nobody posts for ever to what is gone; who changes or recovers the subscription says that it is there again."""
    _, standing = failed(4)
    later = Instant((standing.suspended_at or 0) + GIVEN_UP)
    degraded = after_failure(standing, ReceiverAnswer.TRANSIENT, "HTTP 503", later, jitter=0)
    assert degraded.degraded_at == later
    before = ReceiverStanding("WAKE_SUB:1", as_of="2026-11-28T22:00:00.000Z")
    assert before.speaks_of(Receiver("WAKE_SUB:1", Secret("https://x"), Secret("k"), as_of=before.as_of))
    assert not before.speaks_of(
        Receiver("WAKE_SUB:1", Secret("https://x"), Secret("k"), as_of="2026-11-29T00:00:00.000Z")
    )


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://h/x", "https://", "https://a:b@h/x", "http://[::1", "https://h:0/", "https://h/a b", "https://ü/"],
)
def test_a_url_that_cannot_be_posted_to_is_refused_with_the_reason(url: str) -> None:
    """Also one with a password in it, which would stand in the graph and in logs of proxies."""
    assert why_no_url(url).startswith("its url")
    assert "a:b" not in why_no_url(url)


def test_a_url_is_shown_without_what_may_be_secret_in_it() -> None:
    """Neither its query nor a name; and neither URL nor key is in what is printed of a receiver."""
    assert shown_url("https://u:p@Hooks.example.org:8443/a?token=t#f") == "https://hooks.example.org:8443/a"
    assert "secret" not in repr(Receiver("WAKE_SUB:1", Secret("https://h/?secret"), Secret("whsec_secret")))


MAIL = SentToMe(
    message_id="MESSAGE:1",
    sender="@neo-gpt",
    subject="the build is red",
    priority="high",
    tagged_concepts=("ci",),
    is_reply_to=None,
    is_broadcast=False,
)


def test_the_schemas_in_the_wheel_are_those_of_the_models() -> None:
    """`python -m wake_bridge.schemas.envelope` writes them."""
    for name, model in SCHEMAS.items():
        assert (SCHEMA_FOLDER / name).read_text(encoding="utf-8") == schema_text(model)


def test_a_message_is_sent_as_the_page_shows_it() -> None:
    """One envelope: the example of docs/webhook.md is what is written, byte for byte."""
    envelope = SentToMeEnvelope(
        event_id=EVENT_ID, log_id=17, agent_identity="@ci", subscription_id="WAKE_SUB:7", emitted_at=AT, payload=MAIL
    )
    assert written(envelope) in PAGE.splitlines()
    schema = json.loads((SCHEMA_FOLDER / "envelope.schema.json").read_text(encoding="utf-8"))
    assert [one.message for one in Draft202012Validator(schema).iter_errors(json.loads(written(envelope)))] == []
    assert "bodyText" not in written(envelope)
    assert '"bodyText":"b"' in written(
        envelope.model_copy(update={"payload": MAIL.model_copy(update={"body_text": "b"})})
    )


def test_what_was_gathered_is_sent_as_a_digest_of_typed_events() -> None:
    """At most ten by name, all of them in the counts."""
    typed = TypedEvent(event_type="wake/sent_to_me", log_id=17, subscription_id="WAKE_SUB:7", payload=MAIL)
    digest = Digest(
        text="[WAKE] 12 events",
        counts={"message": 12},
        window=Window(since=AT, until=AT),
        events=(typed,) * 10,
        total=12,
        shown=10,
    )
    said = json.loads(
        written(
            DigestEnvelope(
                event_id=EVENT_ID,
                log_id=17,
                agent_identity="@ci",
                subscription_id="WAKE_SUB:7",
                emitted_at=AT,
                payload=digest,
            )
        )
    )
    assert said["payload"]["window"] == {"from": AT, "to": AT}
    assert said["payload"]["events"][0]["payload"]["from"] == "@neo-gpt"
    assert (said["payload"]["total"], said["payload"]["shown"], said["payload"]["counts"]) == (12, 10, {"message": 12})
