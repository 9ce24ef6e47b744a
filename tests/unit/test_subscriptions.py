"""Subscriptions: parsed once, never raising; filtered alike for every trigger; found at a constant cost."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wake_bridge.domain.events import Message
from wake_bridge.domain.names import Identity, Priority, Trigger, WakePolicy
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import (
    Filters,
    Subscription,
    parse_subscription,
    serves,
    why_unwoken,
    with_known_adapters,
)

A, B = Identity("@a"), Identity("@b")
REAL = {
    "name": "WAKE_SUB:220b",
    "description": "",
    "updatedAt": "2026-11-27T21:53:52.582Z",
    "agentIdentity": "@neo-gpt",
    "trigger": "SENT_TO_ME",
    "filters": {
        "priority": "high",
        "senderFilter": ["@neo-opus-ada"],
        "taggedConcepts": ["concept:wake-substrate"],
        "inReplyToFilter": [],
    },
    "harnessTarget": "bridge-daemon",
    "harnessTargetMetadata": {"appName": "Codex", "adapter": "codex-app-server", "coalesceWindow": 60},
    "createdAt": "2026-11-27T21:53:52.488Z",
    "userId": "neo-gpt",
    "sharedEntity": False,
    "status": "active",
}


POSTED = {"harnessTarget": "a2a-webhook", "harnessTargetMetadata": {"url": "https://h/x", "signingKey": "whsec_eA=="}}


def parse(**changes: Any) -> Subscription:
    return parse_subscription("WAKE_SUB:1", {**REAL, **changes})


def with_metadata(**metadata: Any) -> Subscription:
    return parse(harnessTargetMetadata=metadata)


def test_a_real_subscription_is_read_whole() -> None:
    """Upstream's metadata names are understood."""
    subscription = parse()
    assert (subscription.identity, subscription.trigger) == ("@neo-gpt", Trigger.SENT_TO_ME)
    assert subscription.filters == Filters(
        frozenset({Priority.HIGH}), frozenset({"@neo-opus-ada"}), frozenset({"wake-substrate"}), frozenset()
    )
    assert (subscription.adapter, subscription.window, subscription.policy) == ("codex-app-server", 60, None)
    assert (subscription.user_id, subscription.created_at) == ("neo-gpt", "2026-11-27T21:53:52.488Z")
    assert subscription.is_active
    assert subscription.problems == ()
    assert subscription.ignored == ("appName",)


@pytest.mark.parametrize(
    ("metadata", "pane"),
    [
        ({"tmuxSession": "ada"}, "ada"),
        ({"tmuxSession": "ada", "addressType": "tmuxSession", "instanceAddress": "agents:1.0"}, "agents:1.0"),
        ({"tmuxSession": "ada", "addressType": "pid", "instanceAddress": "123"}, "ada"),
        ({"addressType": "tmuxSession", "tmuxSession": "ada"}, "ada"),
        ({}, ""),
    ],
)
def test_where_the_pane_is_said_to_be(metadata: dict[str, Any], pane: str) -> None:
    """The newest subscription's `instanceAddress`, else `tmuxSession`."""
    assert with_metadata(**metadata).pane == pane


@pytest.mark.parametrize(("window", "read"), [(0, 0), (300, 300), (30.0, 30), (None, None)])
def test_a_window_is_whole_seconds_up_to_300(window: object, read: int | None) -> None:
    """`coalesceWindow` 0–300."""
    subscription = with_metadata(coalesceWindow=window)
    assert (subscription.window, subscription.problems) == (read, ())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"trigger": "SENT_TO_YOU"}, "trigger 'SENT_TO_YOU' is unknown"),
        ({"trigger": None}, "trigger is missing"),
        ({"agentIdentity": "neo-gpt"}, "agentIdentity 'neo-gpt' is not an identity"),
        ({"agentIdentity": None}, "agentIdentity is missing"),
        ({"harnessTarget": "bridge-demon"}, "harnessTarget 'bridge-demon' is unknown"),
        ({"status": "asleep"}, "status 'asleep' is unknown"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_meant_is_one_readable_problem(changes: dict[str, Any], problem: str) -> None:
    """Never an error: one warning, listed as undeliverable with the reason."""
    subscription = parse(**changes)
    assert len(subscription.problems) == 1
    assert subscription.problems[0].startswith(problem)
    assert len(subscription.problems[0]) < 200


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"wakePolicy": "loud"}, "wakePolicy 'loud' is unknown"),
        ({"filters": "high"}, "filters is not an object"),
        ({"filters": {"priority": ["high", "urgent"]}}, "filters.priority 'urgent' is unknown"),
        ({"harnessTargetMetadata": {"coalesceWindow": 301}}, "coalesceWindow 301 is not a whole number"),
        ({"harnessTargetMetadata": {"coalesceWindow": "30"}}, "coalesceWindow '30' is not a whole number"),
        ({"harnessTargetMetadata": {"coalesceWindow": True}}, "coalesceWindow True is not a whole number"),
        ({"harnessTargetMetadata": {"coalesceWindow": 1.5}}, "coalesceWindow 1.5 is not a whole number"),
        ({"harnessTargetMetadata": {"coalesceWindow": float("nan")}}, "coalesceWindow nan is not a whole number"),
        ({"harnessTargetMetadata": {"coalesceWindow": ["x" * 5000]}}, "coalesceWindow ['xxx"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_has_a_default_keeps_nobody_from_being_woken(changes: dict[str, Any], remark: str) -> None:
    """The daemon takes the default for a window of 301, and so does whoever says what will come of it."""
    subscription = parse(**changes)
    assert (subscription.problems, why_unwoken(subscription, embedded=False)) == ((), "")
    (told,) = subscription.remarks
    assert told.startswith(remark)
    assert len(told) < 200


def test_all_problems_are_found_at_once() -> None:
    """All mistakes shown at once."""
    found = parse_subscription("WAKE_SUB:1", {"harnessTarget": "x", "wakePolicy": 3, "filters": []})
    assert (len(found.problems), len(found.remarks)) == (3, 2)


def test_what_has_no_meaning_here_is_named_without_its_value() -> None:
    """No keys in logs."""
    subscription = with_metadata(url="https://x", signingKey="5ec7e7" * 10, tabShortcut=None, focusSeedKey="r")
    assert subscription.ignored == ("focusSeedKey", "url", "signingKey")
    assert "5ec7e7" not in repr(subscription)


@pytest.mark.parametrize(
    ("changes", "is_active", "is_heartbeat_only"),
    [
        ({"status": None}, True, False),
        ({"status": "retired"}, False, False),
        ({"status": "removed"}, False, False),
        ({"status": "degraded"}, True, True),
        ({"harnessTarget": "degraded"}, True, True),
        ({"harnessTarget": "disabled"}, True, True),
        ({"harnessTarget": "none"}, True, True),
        ({"harnessTarget": None}, True, False),
    ],
    ids=str,
)
def test_status_and_target_say_whether_it_wakes(
    changes: dict[str, Any], is_active: bool, is_heartbeat_only: bool
) -> None:
    """`disabled | none | degraded`: stored + heartbeat; degraded as a status or as a target."""
    subscription = parse(**changes)
    assert (subscription.is_active, subscription.is_heartbeat_only) == (is_active, is_heartbeat_only)


@pytest.mark.parametrize(
    ("changes", "circumstances", "why"),
    [
        ({}, {"embedded": True}, ""),
        (
            {"harnessTarget": "mcp-notifications"},
            {"embedded": True},
            "no adapter serves the harnessTarget mcp-notifications",
        ),
        (
            {"harnessTarget": "a2a-webhook"},
            {"embedded": True},
            "it names no url: `wake-bridge update WAKE_SUB:1 --webhook URL`",
        ),
        (POSTED, {"embedded": True}, ""),
        (POSTED, {"embedded": True, "unusable": {"webhook": "webhooks need an extra"}}, "webhooks need an extra"),
        (POSTED, {"embedded": False, "serve": ["a2a-webhook"]}, ""),
        (POSTED, {"embedded": False}, "the graph's own server serves a2a-webhook, not wake-bridge"),
        (
            {**POSTED, "harnessTargetMetadata": {"url": "https://h/x"}},
            {"embedded": True},
            "it has no signingKey: `wake-bridge update WAKE_SUB:1 --rotate-key` makes one",
        ),
        ({"harnessTarget": "a2a-webhook"}, {"embedded": True, "has_target": True}, ""),
        ({"harnessTarget": "a2a-webhook"}, {"embedded": False, "serve": ["a2a-webhook"]}, ""),
        (
            {"harnessTarget": "a2a-webhook"},
            {"embedded": False, "has_target": True},
            "the graph's own server serves a2a-webhook, not wake-bridge",
        ),
        ({"status": "retired"}, {"embedded": True}, "its status is retired: `wake-bridge update WAKE_SUB:1 --recover`"),
        (
            {"harnessTarget": "none"},
            {"embedded": True, "has_target": True},
            "its harnessTarget is none: wake-bridge types nothing, only the heartbeat reminds it",
        ),
        ({"trigger": None}, {"embedded": True}, "trigger is missing"),
    ],
)
def test_one_rule_says_whether_a_subscription_can_wake(
    changes: dict[str, Any], circumstances: dict[str, Any], why: str
) -> None:
    """`list`, routing, the count of routes and the heartbeat all ask it; on a graph of our own nobody pushes."""
    subscription = parse(**changes)
    assert why_unwoken(subscription, **circumstances) == why
    who = subscription.identity
    book = SubscriptionBook(
        embedded=circumstances["embedded"],
        serve=circumstances.get("serve", ()),
        has_target=lambda _: circumstances.get("has_target", False),
        unusable=circumstances.get("unusable", {}),
    )
    book.put(subscription)
    assert (book.active_routes, who in book.identities()) == (int(not why), not why)
    assert book.can_wake(Identity(who)) is (who in book.identities())


@pytest.mark.parametrize(
    ("target", "embedded", "serve", "is_ours"),
    [
        ("bridge-daemon", False, (), True),
        ("disabled", False, (), True),
        ("degraded", False, (), True),
        ("mcp-notifications", False, (), False),
        ("a2a-webhook", False, (), False),
        ("something-new", False, (), False),
        ("a2a-webhook", False, ("a2a-webhook",), True),
        ("a2a-webhook", True, (), True),
        ("something-new", True, (), True),
    ],
)
def test_on_a_foreign_graph_only_bridge_rows_are_ours(
    target: str, embedded: bool, serve: tuple[str, ...], is_ours: bool
) -> None:
    """Its own server serves the rest; `[graph] serve` may say more."""
    assert serves(parse(harnessTarget=target), embedded=embedded, serve=serve) is is_ours


def test_an_adapter_nobody_installed_is_a_problem() -> None:
    """An unknown adapter is one warning, listed as undeliverable."""
    assert with_known_adapters(with_metadata(adapter="tmux"), {"tmux"}).problems == ()
    assert with_known_adapters(with_metadata(), {"tmux"}).problems == ()
    told = with_known_adapters(with_metadata(adapter="osascript"), {"tmux", "heartbeat"}).problems
    assert told == ("adapter 'osascript' is not installed (there are: heartbeat, tmux)",)


NAMES = st.sampled_from([*REAL, "wakePolicy", "visibility"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(NAMES, JSON), st.dictionaries(st.sampled_from(["coalesceWindow", "adapter", "tmuxSession"]), JSON)
)
def test_no_properties_make_parsing_raise(properties: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Whatever the graph holds, it is a subscription, perhaps with problems."""
    parse_subscription("WAKE_SUB:1", properties)
    parse_subscription("WAKE_SUB:1", {**properties, "harnessTargetMetadata": metadata})


# -- filters -----------------------------------------------------------------------------------------------------


def message(**fields: Any) -> Message:
    return Message("MESSAGE:1", "@a", "@b", **fields)


def filters(**keys: Any) -> Filters:
    return parse(filters=keys).filters


@pytest.mark.parametrize(
    ("keys", "refused_by"),
    [
        ({}, ""),
        ({"priority": [], "senderFilter": [], "taggedConcepts": []}, ""),
        ({"priority": "high"}, ""),
        ({"priority": ["low", "high"]}, ""),
        ({"priority": "low"}, "priority"),
        ({"senderFilter": ["@z", "@a"]}, ""),
        ({"senderFilter": "@a"}, ""),
        ({"senderFilter": ["@z"]}, "senderFilter"),
        ({"taggedConcepts": ["x"]}, ""),
        ({"taggedConcepts": ["concept:x"]}, ""),
        ({"taggedConcepts": ["y"]}, ""),
        ({"taggedConcepts": ["concept:z", "xx"]}, "taggedConcepts"),
        ({"inReplyToFilter": ["MESSAGE:0"]}, ""),
        ({"inReplyToFilter": ["MESSAGE:9"]}, "inReplyToFilter"),
        ({"priority": "high", "senderFilter": ["@a"], "taggedConcepts": ["z"]}, "taggedConcepts"),
    ],
    ids=str,
)
def test_filters_are_and_across_keys_and_or_inside(keys: dict[str, Any], refused_by: str) -> None:
    """Tag `concept:x` equals `x`; an empty list is no filter."""
    about = message(tags=("x", "concept:y"), in_reply_to="MESSAGE:0")
    assert filters(**keys).refuse(about, Priority.HIGH, "@a") == refused_by


def test_what_is_no_mail_has_no_tags_and_answers_nothing() -> None:
    """Filters hold for every trigger."""
    assert filters(taggedConcepts=["x"]).refuse(None, Priority.NORMAL, "@a") == "taggedConcepts"
    assert filters(inReplyToFilter=["x"]).refuse(None, Priority.NORMAL, "@a") == "inReplyToFilter"
    assert filters(priority="high").refuse(None, Priority.NORMAL, "@a") == "priority"
    assert filters(senderFilter=["@a"]).refuse(None, Priority.NORMAL, "@a") == ""


# -- the book ----------------------------------------------------------------------------------------------------


def listing(number: int, identity: str = "@a", trigger: str = "SENT_TO_ME", **changes: Any) -> Subscription:
    said = {**REAL, "agentIdentity": identity, "trigger": trigger, **changes}
    return parse_subscription(f"WAKE_SUB:{number}", said)


def ids(found: tuple[Subscription, ...]) -> list[str]:
    return [one.id.removeprefix("WAKE_SUB:") for one in found]


def test_subscriptions_are_found_by_identity_and_trigger() -> None:
    """Index by identity and trigger."""
    book = SubscriptionBook(embedded=False)
    for one in (
        listing(1),
        listing(2),
        listing(3, trigger="TASK_STATE_CHANGED"),
        listing(4, "@b"),
        listing(5, trigger="HEARTBEAT_PULSE"),
    ):
        book.put(one)
    assert ids(book.listening(A, Trigger.SENT_TO_ME)) == ["1", "2"]
    assert ids(book.of(A)) == ["1", "2", "3", "5"]
    assert book.identities_for(Trigger.SENT_TO_ME) == (A, B)
    assert book.identities_for(Trigger.PERMISSION_GRANTED) == ()
    assert book.active_routes == 5


def test_a_subscription_is_replaced_and_removed_as_a_whole() -> None:
    """Re-read when its row appears in the log."""
    book = SubscriptionBook(embedded=False)
    book.put(listing(1))
    book.put(listing(1, "@b", "TASK_STATE_CHANGED"))
    assert book.of(A) == ()
    assert book.identities_for(Trigger.SENT_TO_ME) == ()
    assert ids(book.listening(B, Trigger.TASK_STATE_CHANGED)) == ["1"]
    assert book.remove("WAKE_SUB:1")
    assert not book.remove("WAKE_SUB:1")
    assert (book.all(), book.of(B), book.active_routes) == ((), (), 0)


def test_who_can_be_woken_is_counted_again_where_subscriptions_or_rules_have_changed() -> None:
    """Not at every question: there may be thousands, and one comes every second."""
    rules, judged = ["first"], list[Subscription]()

    def is_placed(one: Subscription) -> bool:
        judged.append(one)
        return True

    book = SubscriptionBook(embedded=True, is_placed=is_placed, judged_by=lambda: rules[0])
    for counted, rule in enumerate(("first", "second", "third"), start=1):
        rules[0] = rule
        if counted == 1:
            book.put(listing(1))
        assert [book.active_routes for _ in range(3)] == [1, 1, 1]
        assert (book.unplaced(), book.identities()) == ([], frozenset({A}))
        assert len(judged) == counted
    book.remove("WAKE_SUB:1")
    assert (book.active_routes, book.identities()) == (0, frozenset())


def test_only_what_is_active_ours_and_understood_matches() -> None:
    """Others are kept to be listed."""
    book = SubscriptionBook(embedded=False)
    silent = [
        listing(1, status="retired"),
        listing(2, harnessTarget="mcp-notifications"),
        listing(3, trigger="NEVER"),
        listing(4, "nobody"),
    ]
    for one in silent:
        book.put(one)
    assert (len(book.all()), book.of(A), book.active_routes) == (4, (), 0)
    book.put(listing(5, harnessTarget="disabled"))
    assert (ids(book.of(A)), book.active_routes) == (["5"], 0)
    book.put(listing(6, harnessTargetMetadata={"coalesceWindow": "bad"}))
    assert (ids(book.of(A)), book.active_routes) == (["5", "6"], 1)


def test_looking_somebody_up_does_not_touch_the_others() -> None:
    """Cost per event does not grow with other identities' subscriptions; counted in lines run, not in time."""
    few, many = SubscriptionBook(embedded=True), SubscriptionBook(embedded=True)
    for number in range(10):
        few.put(listing(number, f"@id{number}"))
    for number in range(10_000):
        many.put(listing(number, f"@id{number}"))
    # what is only done the first time is done before
    lines_run(few)
    assert lines_run(many) == lines_run(few)


def lines_run(book: SubscriptionBook) -> int:
    count = 0

    def tracer(*_: object) -> Any:
        nonlocal count
        count += 1
        return tracer

    before = sys.gettrace()
    # what is called back after a collection is traced as well
    gc.disable()
    sys.settrace(tracer)
    try:
        book.listening(Identity("@id3"), Trigger.SENT_TO_ME)
        book.put(listing(3, "@id3"))
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_policies_are_read() -> None:
    """`WAKE_SUBSCRIPTION.properties.wakePolicy`."""
    assert parse(wakePolicy="silent").policy is WakePolicy.SILENT
    assert parse(wakePolicy=None).policy is None
