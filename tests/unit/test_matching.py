"""A fact meets the subscriptions: guards in order, the loudest policy, the shortest window, recorded refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from wake_bridge.domain.events import (
    EventStatus,
    Fact,
    Message,
    MessageDetail,
    PermissionDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.matching import MatchContext, MatchingRules, TargetRule, match
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Priority, Trigger, WakePolicy
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import parse_subscription

NOW, WALL = Instant(1_800_000_000_000), Instant(1_800_000_500_000)
HOUR = 3_600_000
A, B, C = Identity("@a"), Identity("@b"), Identity("@c")
IMMEDIATE, NEXT_TURN, SILENT = WakePolicy.IMMEDIATE, WakePolicy.NEXT_TURN, WakePolicy.SILENT


def book(*subscriptions: dict[str, Any], embedded: bool = False) -> SubscriptionBook:
    """Subscriptions of @b for its mail, unless said otherwise."""
    made = SubscriptionBook(embedded=embedded)
    for number, said in enumerate(subscriptions, start=1):
        given = {"agentIdentity": "@b", "trigger": "SENT_TO_ME", "harnessTarget": "bridge-daemon", **said}
        window = given.pop("window", None)
        made.put(parse_subscription(f"S{number}", {**given, "harnessTargetMetadata": {"coalesceWindow": window}}))
    return made


def moment(**rules: Any) -> MatchContext:
    ids = count(1)
    return MatchContext(Epoch(3), NOW, WALL, lambda: f"ID{next(ids)}", MatchingRules(**rules), frozenset({"@person"}))


def mail(sender: str = "@a", recipient: str | None = "@b", fact: dict[str, Any] | None = None, **said: Any) -> Fact:
    message = Message("M", sender, recipient or "AGENT:*", "hello", sent_at=WALL, **said)
    made = Fact(
        log_id=LogId(7),
        kind=EventKind.MESSAGE,
        trigger=Trigger.SENT_TO_ME,
        recipients=None if recipient is None else (Identity(recipient),),
        subject_key="M",
        detail=MessageDetail("M", "hello", sender, "T", broadcast=recipient is None),
        occurred_at=WALL,
        actor=sender,
        message=message,
        audience_open=recipient is None,
    )
    return replace(made, **(fact or {}))


def task(actor: str | None = "@b", message: Message | None = None) -> Fact:
    return Fact(
        log_id=LogId(7),
        kind=EventKind.TASK,
        trigger=Trigger.TASK_STATE_CHANGED,
        recipients=(A, B),
        subject_key="M:Working:1",
        detail=TaskDetail("M", "Submitted", "Working", "@a", "@b", None, "M", actor),
        occurred_at=WALL,
        actor=actor,
        message=message,
    )


def pulse() -> Fact:
    detail = PulseDetail("P")
    return Fact(LogId(7), EventKind.PULSE, Trigger.HEARTBEAT_PULSE, (B,), "P", detail, None)


def only(events: list[WakeEvent]) -> WakeEvent:
    assert len(events) == 1
    return events[0]


def refusal(fact: Fact, subscriptions: SubscriptionBook, rules: MatchContext | None = None) -> str:
    event = only(match(fact, subscriptions, rules or moment()))
    assert (event.status is EventStatus.REFUSED) is bool(event.refused_by)
    return event.refused_by


def test_a_match_is_a_whole_event() -> None:
    """One matched fact for one identity."""
    event = only(match(mail(priority=Priority.HIGH), book({"window": 5}), moment()))
    assert event == WakeEvent(
        id="ID1",
        epoch=Epoch(3),
        log_id=LogId(7),
        identity=B,
        kind=EventKind.MESSAGE,
        subject_key="M",
        detail=MessageDetail("M", "hello", "@a", "T"),
        subscription_id="S1",
        matched_at=NOW,
        occurred_at=WALL,
        policy=IMMEDIATE,
        priority=Priority.HIGH,
        window=5,
    )


def test_nobody_who_does_not_listen_is_told_or_recorded() -> None:
    """Refusals are recorded for facts that matched a subscription."""
    silent = [{"status": "retired"}, {"harnessTarget": "a2a-webhook"}, {"trigger": "TASK_STATE_CHANGED"}]
    assert match(mail(), book(*silent), moment()) == []
    assert match(mail(recipient="@c"), book({}), moment()) == []


def test_an_undeliverable_subscription_still_matches() -> None:
    """So that nothing vanishes; its delivery holds and says why."""
    assert only(match(mail(), book({"wakePolicy": "loud", "window": 999}), moment())).window == 30


@pytest.mark.parametrize(
    ("subscriptions", "policy", "window", "first", "others"),
    [
        ([{"window": 30}, {"window": 5}], IMMEDIATE, 5, "S2", ("S1",)),
        ([{"wakePolicy": "next_turn", "window": 0}, {"window": 60}], IMMEDIATE, 0, "S2", ("S1",)),
        ([{"wakePolicy": "next_turn"}], NEXT_TURN, 30, "S1", ()),
        ([{}], IMMEDIATE, 30, "S1", ()),
    ],
)
def test_the_loudest_policy_and_the_shortest_window_win(
    subscriptions: list[dict[str, Any]], policy: WakePolicy, window: int, first: str, others: tuple[str, ...]
) -> None:
    """Of several matching subscriptions."""
    event = only(match(mail(), book(*subscriptions), moment()))
    assert (event.policy, event.window) == (policy, window)
    assert (event.subscription_id, event.other_subscriptions) == (first, others)


@pytest.mark.parametrize(
    ("message", "target", "subscription", "default", "policy"),
    [
        (NEXT_TURN, IMMEDIATE, "immediate", None, NEXT_TURN),
        (None, NEXT_TURN, "immediate", None, NEXT_TURN),
        (None, None, "next_turn", IMMEDIATE, NEXT_TURN),
        (None, None, None, NEXT_TURN, NEXT_TURN),
        (None, None, None, None, IMMEDIATE),
        (IMMEDIATE, SILENT, "silent", SILENT, IMMEDIATE),
    ],
)
def test_the_message_speaks_before_the_target_and_the_target_before_the_subscription(
    message: WakePolicy | None,
    target: WakePolicy | None,
    subscription: str | None,
    default: WakePolicy | None,
    policy: WakePolicy,
) -> None:
    """`MESSAGE.wakePolicy`, else `[targets]`, else `WAKE_SUBSCRIPTION.wakePolicy`, else the default."""
    rules = moment(targets={B: TargetRule(policy=target)} if target else {}, default_policy=default)
    assert only(match(mail(wake_policy=message), book({"wakePolicy": subscription}), rules)).policy is policy


def test_by_itself_a_wake_is_immediate_where_somebody_can_be_reached() -> None:
    """`auto`: a bridge-daemon subscription, or an identity with a target; else next_turn."""
    push = {"harnessTarget": "mcp-notifications"}
    assert only(match(mail(), book(push, embedded=True), moment())).policy is NEXT_TURN
    assert only(match(mail(), book(push, embedded=True), moment(targets={B: TargetRule()}))).policy is IMMEDIATE


@pytest.mark.parametrize("said", [{"harnessTarget": "disabled"}, {"harnessTarget": "none"}, {"status": "degraded"}])
def test_what_is_left_to_the_heartbeat_is_never_immediate(said: dict[str, Any]) -> None:
    """Stored + heartbeat; `[targets]` never wins over disabled, none or degraded."""
    rules = moment(targets={B: TargetRule(window=1, policy=IMMEDIATE)})
    event = only(match(mail(wake_policy=IMMEDIATE), book(said), rules))
    assert (event.policy, event.window, event.status) == (NEXT_TURN, 30, EventStatus.OPEN)


@pytest.mark.parametrize(
    ("message", "target", "subscription", "window"),
    [(0, 10, 20, 0), (None, 10, 20, 10), (None, None, 20, 20), (None, None, None, 45)],
)
def test_the_window_is_the_messages_the_targets_the_subscriptions_or_the_default(
    message: int | None, target: int | None, subscription: int | None, window: int
) -> None:
    """A subscription's `coalesceWindow` wins over the default, `[targets]` over it; `wake` has window 0."""
    rules = moment(targets={B: TargetRule(window=target)} if target else {}, default_window=45)
    assert only(match(mail(wake_window=message), book({"window": subscription}), rules)).window == window


# -- guards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fact", "word"),
    [
        (mail(recipient=None, sender="@b"), "self"),
        (mail(wake_suppressed=True), "suppressed"),
        (mail(wake_policy=SILENT), "silent"),
        (mail(priority=Priority.LOW), "filter priority"),
        (mail(fact={"already_read": True}, tags=("x",), priority=Priority.HIGH), "read"),
        (mail(fact={"occurred_at": Instant(WALL - 8 * 24 * HOUR)}, tags=("x",), priority=Priority.HIGH), "age"),
        (mail(tags=("x",), priority=Priority.HIGH), ""),
    ],
)
def test_each_guard_says_its_word(fact: Fact, word: str) -> None:
    """Refused facts are recorded with the reason: they answer `why`."""
    assert refusal(fact, book({"filters": {"priority": "high"}})) == word


def test_guards_speak_in_their_order() -> None:
    """Self → suppressed/silent → filters → read → age."""
    old = {"already_read": True, "occurred_at": Instant(0)}
    worst: dict[str, Any] = {"wake_suppressed": True, "wake_policy": SILENT, "priority": Priority.LOW}
    choosy = book({"filters": {"priority": "high"}})
    assert refusal(mail(sender="@b", recipient=None, fact=old, **worst), choosy) == "self"
    assert refusal(mail(fact=old, **worst), choosy) == "suppressed"
    worst.pop("wake_suppressed")
    assert refusal(mail(fact=old, **worst), choosy) == "silent"
    worst.pop("wake_policy")
    assert refusal(mail(fact=old, **worst), choosy) == "filter priority"
    worst.pop("priority")
    assert refusal(mail(fact=old, **worst), book({})) == "read"
    assert refusal(mail(fact={"occurred_at": Instant(0)}), book({})) == "age"


def test_one_subscription_that_wants_it_is_enough_and_the_others_are_noted() -> None:
    """`refusals` answer `why` for each subscription."""
    event = only(match(mail(), book({"filters": {"priority": "high"}, "window": 0}, {"window": 60}), moment()))
    assert (event.status, event.subscription_id, event.window) == (EventStatus.OPEN, "S2", 60)
    assert event.refusals == (("S1", "filter priority"),)
    refused = only(match(mail(), book({"wakePolicy": "silent"}, {"filters": {"priority": "high"}}), moment()))
    assert (refused.status, refused.refused_by) == (EventStatus.REFUSED, "silent")
    assert refused.refusals == (("S1", "silent"), ("S2", "filter priority"))


@pytest.mark.parametrize(
    ("hours", "old_at_new_position", "word"),
    [
        (6 * 24, False, ""),
        (7 * 24 + 1, False, "age"),
        (7 * 24 + 1, True, "age"),
        (2, True, "rewritten"),
        (0.9, True, ""),
        (-5, False, ""),
    ],
)
def test_age_is_judged_by_the_kind_of_cursor(hours: float, old_at_new_position: bool, word: str) -> None:
    """7 days for a live cursor; 1 h for a new epoch or an old fact at a new log position."""
    fact = {"occurred_at": Instant(int(WALL - hours * HOUR)), "old_at_new_position": old_at_new_position}
    assert refusal(mail(fact=fact), book({})) == word


def test_age_is_measured_with_the_wall_clock_and_the_configured_limit() -> None:
    """`catch_up`; what has no time cannot be too old."""
    fact = mail(fact={"occurred_at": Instant(WALL - HOUR)})
    assert refusal(fact, book({}), moment(catch_up=HOUR)) == ""
    assert refusal(fact, book({}), moment(catch_up=HOUR - 1)) == "age"
    assert refusal(mail(fact={"occurred_at": None}), book({}), moment(catch_up=0)) == ""


def test_mail_to_oneself_waits_for_the_next_turn_unless_asked_for_by_tag() -> None:
    """The hand-over to oneself."""
    note = mail(sender="@b", tags=("concept:handover", "x"))
    assert only(match(note, book({}), moment())).policy is NEXT_TURN
    assert only(match(replace(note), book({}), moment(targets={B: TargetRule(policy=IMMEDIATE)}))).policy is NEXT_TURN
    asking = {"filters": {"taggedConcepts": ["handover"]}}
    event = only(match(note, book({}, asking), moment()))
    assert (event.policy, event.subscription_id) == (IMMEDIATE, "S2")
    assert refusal(mail(sender="@b", tags=("handover",), wake_suppressed=True), book(asking)) == "suppressed"


def test_a_broadcast_without_an_audience_goes_to_all_listeners_but_its_sender() -> None:
    """Due no earlier than 2 s after it is seen."""
    everyone = book({}, {"agentIdentity": "@a"}, {"agentIdentity": "@c"})
    events = {event.identity: event for event in match(mail(recipient=None), everyone, moment())}
    assert {identity: event.status for identity, event in events.items()} == {
        "@b": EventStatus.OPEN,
        "@a": EventStatus.REFUSED,
        "@c": EventStatus.OPEN,
    }
    assert events[B].not_before == events[C].not_before == NOW + 2000
    assert events[B].due_at == NOW + 30_000
    assert only(match(mail(), book({"window": 0}), moment())).not_before == 0


def test_private_rows_are_for_their_owner_where_scopes_count() -> None:
    """With `[graph] user_scope` others' rows are not matched."""
    private = mail(user_id="a", visible_to_all=False)
    own = mail(user_id="b", visible_to_all=False)
    assert refusal(private, book({})) == ""
    assert refusal(private, book({}), moment(user_scope=True)) == "private"
    assert refusal(own, book({}), moment(user_scope=True)) == ""
    assert refusal(mail(user_id="a"), book({}), moment(user_scope=True)) == ""


# -- other triggers ----------------------------------------------------------------------------------------------

TASKS = {"trigger": "TASK_STATE_CHANGED"}


def test_a_move_is_told_to_the_other_side_and_recorded_for_the_actor() -> None:
    """The actor is not woken by its own move; the sweeper's is told to both."""
    both = book({**TASKS, "agentIdentity": "@a"}, TASKS)
    assert [(event.identity, event.refused_by) for event in match(task("@b"), both, moment())] == [
        ("@a", ""),
        ("@b", "self"),
    ]
    assert [(event.identity, event.refused_by) for event in match(task("@a"), both, moment())] == [
        ("@a", "self"),
        ("@b", ""),
    ]
    assert [event.refused_by for event in match(task(None), both, moment())] == ["", ""]


def test_filters_hold_for_every_trigger() -> None:
    """AND across keys, for **every** trigger."""
    urgent = Message("M", "@a", "@b", priority=Priority.HIGH)
    high = book({**TASKS, "agentIdentity": "@a", "filters": {"priority": "high"}})
    assert match(task(message=urgent), high, moment())[0].refused_by == ""
    assert (
        match(task(message=replace(urgent, priority=Priority.LOW)), high, moment())[0].refused_by == "filter priority"
    )
    from_b = book({**TASKS, "agentIdentity": "@a", "filters": {"senderFilter": ["@b"]}})
    from_c = book({**TASKS, "agentIdentity": "@a", "filters": {"senderFilter": ["@c"]}})
    assert match(task(message=urgent), from_b, moment())[0].refused_by == ""
    assert match(task(message=urgent), from_c, moment())[0].refused_by == "filter senderFilter"


def test_a_suppressed_message_does_not_silence_its_tasks_moves() -> None:
    """`wakePolicy` and `wakeSuppressed` are about the message."""
    quiet = Message("M", "@a", "@b", wake_suppressed=True, wake_policy=SILENT, wake_window=0)
    event = match(task(message=quiet), book({**TASKS, "agentIdentity": "@a"}), moment())[0]
    assert (event.status, event.policy, event.window) == (EventStatus.OPEN, IMMEDIATE, 30)


def test_a_permission_is_told_to_its_grantee() -> None:
    """Wake the grantee; `grantedBy` is the granter."""
    granted = Fact(
        log_id=LogId(7),
        kind=EventKind.PERMISSION,
        trigger=Trigger.PERMISSION_GRANTED,
        recipients=(B,),
        subject_key="E",
        detail=PermissionDetail("E", "CAN_REPLY_TO", "@a", NOW, granted_at_observed=True),
        occurred_at=None,
        actor="@a",
    )
    listening = {"trigger": "PERMISSION_GRANTED"}
    assert refusal(granted, book(listening)) == ""
    assert refusal(granted, book({**listening, "filters": {"senderFilter": ["@c"]}})) == "filter senderFilter"
    assert refusal(granted, book({**listening, "filters": {"senderFilter": ["@a"]}})) == ""
    assert refusal(replace(granted, actor="@b"), book(listening)) == "self"


def test_a_pulse_wakes_once_whatever_the_triggers_and_filters_say() -> None:
    """Once per identity, with the shortest window; filters do not apply."""
    three = book(
        {"window": 60, "filters": {"priority": "high"}},
        {**TASKS, "window": 10},
        {"trigger": "PERMISSION_GRANTED", "wakePolicy": "next_turn"},
    )
    event = only(match(pulse(), three, moment()))
    assert (event.policy, event.window, event.subscription_id) == (IMMEDIATE, 10, "S2")
    assert event.other_subscriptions == ("S1", "S3")
    assert match(pulse(), book({"agentIdentity": "@a"}), moment()) == []
    assert only(match(pulse(), book({"harnessTarget": "disabled"}), moment())).policy is NEXT_TURN


def test_who_is_a_person_is_known() -> None:
    """Agent-to-agent wakes are counted without a human's message."""
    assert only(match(mail(sender="@person"), book({}), moment())).from_human
    assert not only(match(mail(), book({}), moment())).from_human
    assert match(task("@person"), book({**TASKS, "agentIdentity": "@a"}), moment())[0].from_human
