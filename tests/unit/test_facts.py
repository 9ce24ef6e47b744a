"""Rows become facts: who is concerned, under which subject, and what is no fact at all."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wake_bridge.domain.events import Fact, MessageDetail, PermissionDetail, PulseDetail
from wake_bridge.domain.facts import PERMISSIONS, Past, facts_of
from wake_bridge.domain.messages import Unusable, message_from
from wake_bridge.domain.names import EPOCH_START, Instant, LogId, Priority, WakePolicy, is_canonical, parse_instant
from wake_bridge.ports.change_log import EdgeRow, LogEntry

NOW = Instant(1_800_000_000_000)
PAST = Past(seen_at=NOW)
HOUR = 3_600_000


def mail(
    target: str = "@b",
    kind: str = "SENT_TO",
    edge: dict[str, Any] | None = None,
    said: dict[str, Any] | None = None,
    **also: Any,
) -> LogEntry:
    usual = {"from": "@a", "to": target, "subject": "hello", "readAt": None, "sharedEntity": True}
    properties = {**usual, **also, **(said or {})}
    row = EdgeRow("E:1", "MESSAGE:1", target, kind, edge or {})
    return LogEntry(LogId(7), "edges", "E:1", edge=row, message=properties)


def only(entry: LogEntry, past: Past = PAST) -> Fact:
    facts = facts_of(entry, past)
    assert not isinstance(facts, Unusable), facts
    assert len(facts) == 1
    return facts[0]


def detail_of(fact: Fact, kind: type[Any]) -> Any:
    assert isinstance(fact.detail, kind)
    return fact.detail


# -- times -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-11-27T21:53:52.502Z", 1795816432502),
        ("2026-11-27T21:53:52Z", 1795816432000),
        ("2026-11-27T23:53:52.502+02:00", 1795816432502),
        ("2026-11-27T21:53:52.502", 1795816432502),
        ("2026-11-27T21:53:52.502123+00:00", 1795816432502),
    ],
)
def test_times_are_read_in_every_iso_form(text: str, milliseconds: int) -> None:
    """Stored times are UTC ms."""
    assert parse_instant(text) == milliseconds


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", 5, 1795816432502, True, [], {}, "0001-01-01T00:00:00+14:00", "1960-01-01T00:00:00Z", "9" * 50],
)
def test_what_is_no_time_is_none(value: object) -> None:
    """Bad clocks never win."""
    assert parse_instant(value) is None


@pytest.mark.parametrize(
    ("text", "is_exact"),
    [
        ("2026-11-27T21:53:52.502Z", True),
        ("2026-11-27T21:53:52Z", False),
        ("2026-11-27T21:53:52.502+00:00", False),
        ("2026-13-27T21:53:52.502Z", False),
        ("２026-11-27T21:53:52.502Z", False),
    ],
)
def test_only_javascripts_own_form_is_canonical(text: str, is_exact: bool) -> None:
    """Typed rows are checked to the letter."""
    assert is_canonical(text) is is_exact


# -- messages ----------------------------------------------------------------------------------------------------


def test_a_message_is_read_whole() -> None:
    """The shape of the real services."""
    message = message_from(
        "MESSAGE:1",
        {
            "from": "@a",
            "to": "@b",
            "subject": "Re: x",
            "bodyText": "On it.",
            "priority": "high",
            "sentAt": "2026-11-27T21:53:52.508Z",
            "readAt": None,
            "inReplyTo": "MESSAGE:0",
            "partOfThread": "MESSAGE:00",
            "taggedConcepts": ["wake-substrate", "a2a", 5, None],
            "wakeSuppressed": True,
            "wakePolicy": "next_turn",
            "wakeWindow": 0,
            "userId": "a",
            "sharedEntity": True,
            "task": {"state": "Working", "assignee": "@b", "expiresAt": "2026-11-27T22:53:52.547Z"},
        },
    )
    assert not isinstance(message, Unusable)
    assert (message.sender, message.recipient, message.subject, message.body) == ("@a", "@b", "Re: x", "On it.")
    assert (message.priority, message.wake_policy, message.wake_window) == (Priority.HIGH, WakePolicy.NEXT_TURN, 0)
    assert (message.in_reply_to, message.thread) == ("MESSAGE:0", "MESSAGE:00")
    assert message.tags == ("wake-substrate", "a2a", "5")
    assert message.wake_suppressed
    assert message.visible_to_all
    assert message.read_at is None
    assert message.task is not None
    assert (message.task.state, message.task.assignee) == ("Working", "@b")


@pytest.mark.parametrize(
    ("said", "read_at"),
    [
        ({"readAt": "2026-11-27T21:53:52.502Z"}, 1795816432502),
        ({"archivedAt": "2026-11-27T21:53:52.502Z"}, 1795816432502),
        ({"readAt": "yes"}, EPOCH_START),
        ({"readAt": ""}, None),
        ({}, None),
    ],
)
def test_read_and_put_away_count_whatever_the_time_says(said: dict[str, Any], read_at: int | None) -> None:
    """Never read mail."""
    message = message_from("MESSAGE:1", {"from": "@a", **said})
    assert not isinstance(message, Unusable)
    assert message.read_at == read_at


@pytest.mark.parametrize(
    ("said", "is_visible"),
    [
        ({}, True),
        ({"userId": "a"}, False),
        ({"userId": "a", "sharedEntity": True}, True),
        ({"userId": "a", "visibility": "team"}, True),
        ({"userId": "a", "sharedEntity": "yes", "visibility": "me"}, False),
    ],
)
def test_what_has_no_owner_or_is_shared_is_visible_to_all(said: dict[str, Any], is_visible: bool) -> None:
    """`userId` null, `sharedEntity` or `visibility: team`."""
    message = message_from("MESSAGE:1", {"from": "@a", **said})
    assert not isinstance(message, Unusable)
    assert message.visible_to_all is is_visible


def test_lone_surrogates_leave_here_replaced() -> None:
    """No store and no terminal can hold them."""
    message = message_from("MESSAGE:\ud800", {"from": "@a\udfff", "subject": "x\ud83dy", "inReplyTo": "\udc00"})
    assert not isinstance(message, Unusable)
    assert (message.id, message.sender, message.subject) == ("MESSAGE:�", "@a�", "x�y")
    assert message.in_reply_to == "�"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["from", "to", "subject", "priority", "sentAt", "readAt", "taggedConcepts", "wakePolicy", "wakeWindow", "task"]
)


@given(st.dictionaries(NAMES, JSON))
def test_no_properties_make_reading_a_message_raise(properties: dict[str, Any]) -> None:
    """Whatever the graph holds, it is a value."""
    message = message_from("MESSAGE:1", properties)
    assert isinstance(message, Unusable) or message.sender


# -- mail --------------------------------------------------------------------------------------------------------


def test_direct_mail_concerns_its_recipient() -> None:
    """SENT_TO → me."""
    fact = only(mail(partOfThread="MESSAGE:0", sentAt="2026-11-27T21:53:52.502Z"))
    assert (fact.recipients, fact.subject_key, fact.actor) == (("@b",), "MESSAGE:1", "@a")
    assert fact.occurred_at == 1795816432502
    detail = detail_of(fact, MessageDetail)
    assert (detail.subject, detail.thread, detail.broadcast) == ("hello", "MESSAGE:0", False)


def test_a_thread_without_a_head_is_the_message_it_answers_or_itself() -> None:
    """The loop brake counts by thread."""
    assert detail_of(only(mail()), MessageDetail).thread == "MESSAGE:1"
    assert detail_of(only(mail(inReplyTo="MESSAGE:0")), MessageDetail).thread == "MESSAGE:0"


def test_a_broadcast_is_read_by_its_recipients_edge() -> None:
    """Edge first; the node's mark is not the recipient's."""
    read: dict[str, Any] = {"readAt": "2026-11-27T21:53:52.502Z"}
    assert only(mail(kind="DELIVERED_TO", edge=read)).already_read
    assert not only(mail(kind="DELIVERED_TO", **read)).already_read
    assert only(mail(kind="SENT_TO", **read)).already_read
    assert detail_of(only(mail(kind="DELIVERED_TO")), MessageDetail).broadcast


def test_a_broadcast_without_an_audience_concerns_everybody_and_waits() -> None:
    """SENT_TO → AGENT:* without any DELIVERED_TO; its audience may still be written."""
    fact = only(mail("AGENT:*"))
    assert (fact.recipients, fact.audience_open) == (None, True)
    assert facts_of(mail("AGENT:*"), Past(NOW, has_audience=True)) == ()


@pytest.mark.parametrize("target", ["role:reviewer", "human:tobi", "AGENT", "@", "@-x", ""])
def test_mail_to_nobody_we_could_wake_is_no_fact(target: str) -> None:
    """Identities match their pattern."""
    assert facts_of(mail(target), PAST) == ()


def test_mail_without_a_message_or_a_sender_is_none() -> None:
    """The node may be gone, or of another kind, or unusable."""
    gone = LogEntry(LogId(1), "edges", "E:1", edge=EdgeRow("E:1", "MESSAGE:1", "@b", "SENT_TO", {}))
    assert facts_of(gone, PAST) == ()
    assert isinstance(facts_of(mail(said={"from": None}), PAST), Unusable)


def test_a_row_much_younger_than_its_fact_is_known_to_be() -> None:
    """An old fact at a new log position."""
    sent_at = "2026-11-27T21:53:52.502Z"
    sent = Instant(1795816432502)
    assert not only(mail(sentAt=sent_at)).old_at_new_position
    assert not only(mail(sentAt=sent_at), Past(NOW, rows_after=Instant(sent + 30_000))).old_at_new_position
    assert only(mail(sentAt=sent_at), Past(NOW, rows_after=Instant(sent + HOUR))).old_at_new_position


# -- permissions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", sorted(PERMISSIONS))
def test_a_permission_concerns_the_grantee_and_names_the_granter(scope: str) -> None:
    """Edges run grantee → granter; without a time it is when it was first seen."""
    entry = LogEntry(LogId(1), "edges", "E:1", edge=EdgeRow("E:1", "@grantee", "@granter", scope, {"weight": 1}))
    fact = only(entry)
    assert (fact.recipients, fact.subject_key, fact.occurred_at) == (("@grantee",), "E:1", None)
    detail = detail_of(fact, PermissionDetail)
    assert (detail.scope, detail.granted_by, detail.granted_at) == (scope, "@granter", NOW)
    assert detail.granted_at_observed


def test_a_permission_with_a_time_keeps_it() -> None:
    """`grantedAt` is the edge's time where it has one."""
    row = EdgeRow("E:1", "@grantee", "@granter", "CAN_REPLY_TO", {"timestamp": "2026-11-27T21:53:52.502Z"})
    detail = detail_of(only(LogEntry(LogId(1), "edges", "E:1", edge=row)), PermissionDetail)
    assert (detail.granted_at, detail.granted_at_observed) == (1795816432502, False)


def test_other_edges_are_no_facts() -> None:
    """Only mail and four rights."""
    for kind in ("SENT_BY", "BLOCKED_BY", "IN_REPLY_TO", "TAGGED_CONCEPT", "can_reply_to"):
        row = EdgeRow("E:1", "@a", "@b", kind, {})
        assert facts_of(LogEntry(LogId(1), "edges", "E:1", edge=row), PAST) == ()
    assert facts_of(LogEntry(LogId(1), "edges", "E:gone"), PAST) == ()


# -- pulses ------------------------------------------------------------------------------------------------------


def pulse(entity_id: str) -> LogEntry:
    return LogEntry(LogId(1), "heartbeat_pulse", entity_id)


def encoded(said: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")


def test_a_pulse_is_split_at_the_last_colon() -> None:
    """`HEARTBEAT_PULSE:<identity>:<pulse>`."""
    fact = only(pulse("HEARTBEAT_PULSE:@neo-opus-ada:4b37179d-8b83"))
    assert (fact.recipients, fact.subject_key) == (("@neo-opus-ada",), "4b37179d-8b83")
    assert detail_of(fact, PulseDetail) == PulseDetail("4b37179d-8b83")


NUDGE = encoded({"source": "idle-out-nudge", "reason": "idle 20m", "nextAction": "claim a lane"})
GITHUB = encoded({"source": "github-notification", "latest": {"reason": "mention", "title": "A PR", "url": "u"}})
ODD = encoded({"source": "idle-out-nudge", "reason": {"x": 1}})
PLAIN = ("", "", "")


@pytest.mark.parametrize(
    ("pulse_id", "expected"),
    [
        pytest.param(f"idle-out-nudge.{NUDGE}", ("idle-out-nudge", "idle 20m", "claim a lane"), id="nudge"),
        pytest.param(f"github-notification.{GITHUB}", ("github-notification", "mention", "A PR"), id="github"),
        pytest.param(f"something-else.{NUDGE}", PLAIN, id="another source"),
        pytest.param("idle-out-nudge.!!!", PLAIN, id="no base64"),
        pytest.param("idle-out-nudge." + encoded([1]), PLAIN, id="a list"),
        pytest.param(f"idle-out-nudge.{ODD}", ("idle-out-nudge", "", ""), id="a reason of the wrong type"),
        pytest.param("idle-out-nudge." + "A" * 20_000, PLAIN, id="endless"),
        pytest.param("idle-out-nudge." + base64.urlsafe_b64encode(b"[" * 9_000).decode(), PLAIN, id="nested"),
    ],
)
def test_what_a_pulse_says_is_believed_only_if_its_source_is_its_prefix(
    pulse_id: str, expected: tuple[str, str, str]
) -> None:
    """The decoded source must equal the prefix; anything else is a plain pulse."""
    detail = detail_of(only(pulse(f"HEARTBEAT_PULSE:@a:{pulse_id}")), PulseDetail)
    assert (detail.source, detail.reason, detail.next_action) == expected


@pytest.mark.parametrize(
    "entity_id", ["", "x", "HEARTBEAT_PULSE:", "HEARTBEAT_PULSE:@a", "HEARTBEAT_PULSE:@a:", "@a:1"]
)
def test_a_pulse_for_nobody_is_unusable(entity_id: str) -> None:
    """Counted and quarantined."""
    assert isinstance(facts_of(pulse(entity_id), PAST), Unusable)


@given(st.text())
def test_no_pulse_id_makes_reading_raise(text: str) -> None:
    """Whatever the log holds, it is a value."""
    facts_of(pulse(f"HEARTBEAT_PULSE:@a:{text}"), PAST)
