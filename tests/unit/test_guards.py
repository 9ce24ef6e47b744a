from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from wake_bridge.domain.causes import Cause, Tell
from wake_bridge.domain.delivery import Hold, HoldReason, Outcome
from wake_bridge.domain.events import (
    EventStatus,
    ItemDetail,
    ItemMode,
    ItemPriority,
    ItemTier,
    MessageDetail,
    PermissionDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.guards import (
    LOOK_AGAIN,
    Go,
    GuardVerdict,
    Limits,
    Nothing,
    OtherDriver,
    PastWake,
    QuietHours,
    Switches,
    WakeCandidate,
    before_lock,
)
from wake_bridge.domain.names import DAY, HOUR, Epoch, EventKind, Identity, Instant, LogId, WakePolicy

ME = Identity("@neo-gpt")
OTHER = Identity("@neo-opus")
PANE = "/tmp/tmux-0/default,77,%1"
NOW = Instant(1_800_000_000_000)
SECOND = 1_000
numbers = count(1)


def mail(
    thread: str = "T",
    *,
    human: bool = False,
    status: EventStatus = EventStatus.OPEN,
    policy: WakePolicy = WakePolicy.IMMEDIATE,
    window: int = 30,
    not_before: int = 0,
) -> WakeEvent:
    number = next(numbers)
    return WakeEvent(
        id=f"E{number}",
        epoch=Epoch(1),
        log_id=LogId(number),
        identity=ME,
        kind=EventKind.MESSAGE,
        subject_key=f"MESSAGE:{number}",
        detail=MessageDetail(f"MESSAGE:{number}", "s", "@x", thread=thread, from_human=human),
        subscription_id="WAKE_SUB:1",
        matched_at=Instant(NOW - 60_000),
        policy=policy,
        window=window,
        status=status,
        not_before=Instant(not_before),
    )


def woken(ago: int, *, pane: str = PANE, identity: Identity = ME, thread: str = "", human_thread: str = "") -> PastWake:
    """A wake that many milliseconds ago."""
    return PastWake(
        at=Instant(NOW - ago),
        identity=identity,
        pane_key=pane,
        threads=(thread,) if thread else (),
        human_threads=(human_thread,) if human_thread else (),
    )


def judge(
    *events: WakeEvent,
    past: list[PastWake] | None = None,
    limits: Limits | None = None,
    switches: Switches | None = None,
    due_at: int = 0,
    lifted_ago: int | None = None,
    pane: str = PANE,
    minutes: int = 720,
    now: Instant = NOW,
) -> GuardVerdict:
    candidate = WakeCandidate(
        identity=ME,
        events=events,
        due_at=Instant(due_at),
        pane_key=pane,
        where="agents:1.0",
        lifted_at=Instant(0 if lifted_ago is None else NOW - lifted_ago),
    )
    return before_lock(candidate, limits or Limits(), past or [], switches or Switches(), now, minutes)


def held(verdict: GuardVerdict) -> tuple[HoldReason, int]:
    """Reason, and milliseconds to the next look."""
    assert isinstance(verdict, Hold), verdict
    return verdict.reason, verdict.next_look_at - NOW


def test_with_nothing_against_it_everything_goes() -> None:
    """A wake that no guard stops announces all its open events."""
    events = (mail(), mail(policy=WakePolicy.NEXT_TURN), mail(human=True))
    assert judge(*events) == Go(events)


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ([], Outcome.EMPTY),
        ([EventStatus.READ], Outcome.READ),
        ([EventStatus.ANNOUNCED], Outcome.READ),
        ([EventStatus.SUPERSEDED], Outcome.EMPTY),
        ([EventStatus.SUPERSEDED, EventStatus.READ], Outcome.READ),
    ],
)
def test_a_set_that_was_read_or_superseded_is_not_announced(statuses: list[EventStatus], outcome: Outcome) -> None:
    """A set that was read meanwhile settles with zero bytes, before any other guard speaks."""
    events = [mail(status=one) for one in statuses]
    assert judge(*events, switches=Switches(is_paused=True)) == Nothing(outcome)


def test_what_was_read_is_left_out_of_what_goes() -> None:
    """Only survivors are announced."""
    fresh = mail()
    assert judge(mail(status=EventStatus.READ), fresh) == Go((fresh,))


def test_next_turn_events_alone_wake_nobody() -> None:
    """`next_turn` rides along in the next immediate digest; it is no reason for one."""
    rider = mail(policy=WakePolicy.NEXT_TURN)
    assert judge(mail(status=EventStatus.READ), rider) == Nothing(Outcome.READ)
    assert judge(rider) == Nothing(Outcome.EMPTY)


NIGHT = QuietHours.parse("22:00-07:00")
EVERYTHING_OFF = Switches(
    is_paused=True,
    participation="operator_benched",
    other_driver=OtherDriver("pid 7 runs neo's daemon"),
    quiet_hours=NIGHT,
)


@pytest.mark.parametrize(
    ("switches", "reason", "look"),
    [
        (EVERYTHING_OFF, HoldReason.PAUSED, LOOK_AGAIN),
        (replace(EVERYTHING_OFF, paused_until=Instant(NOW + 5)), HoldReason.PAUSED, 5),
        (replace(EVERYTHING_OFF, paused_until=NOW), HoldReason.BENCHED, LOOK_AGAIN),
        (replace(EVERYTHING_OFF, is_paused=False), HoldReason.BENCHED, LOOK_AGAIN),
        (
            Switches(other_driver=OtherDriver("pid 7", Cause.ANOTHER_WAKE_BRIDGE), quiet_hours=NIGHT),
            HoldReason.OTHER_DRIVER,
            LOOK_AGAIN,
        ),
        (Switches(quiet_hours=NIGHT), HoldReason.QUIET_HOURS, 4 * HOUR + 30 * 60 * SECOND),
    ],
)
def test_what_people_switched_off_holds_before_any_limit(switches: Switches, reason: HoldReason, look: int) -> None:
    """Paused, benched, quiet hours come before window, refractory, storm and budget."""
    past = [woken(1) for _ in range(200)]
    assert held(judge(mail(), past=past, switches=switches, due_at=NOW + 9, minutes=2 * 60 + 30)) == (reason, look)


def test_every_switch_says_what_it_is() -> None:
    """A hold has a reason a person can act on; a status from the graph is made harmless."""
    benched = judge(mail(), switches=Switches(participation="out\x1b[2J\nsick"))
    assert isinstance(benched, Hold)
    assert benched.detail == "participationStatus is out sick"
    other = judge(mail(), switches=Switches(other_driver=OtherDriver("pid 7", Cause.ANOTHER_WAKE_BRIDGE)))
    assert isinstance(other, Hold)
    assert (other.detail, other.cause) == ("pid 7", Cause.ANOTHER_WAKE_BRIDGE)


def test_what_only_this_host_knows_of_calls_for_a_person_while_another_host_serves() -> None:
    """A row of the graph is told by the host that serves; an item, or what an agent was seen to stand at, by nobody."""
    serves = Switches(other_driver=OtherDriver("beta", Cause.OTHER_HOST))
    item = replace(
        mail(),
        detail=ItemDetail("build", "make ended", ItemMode.ACTIVE, ItemTier.NOW, ItemPriority.NORMAL),
        kind=EventKind.ITEM,
    )
    of_row, of_both = judge(mail(), switches=serves), judge(mail(), item, switches=serves)
    assert isinstance(of_row, Hold)
    assert isinstance(of_both, Hold)
    assert (of_row.cause, of_row.cause.tell) == (Cause.OTHER_HOST, Tell.NEVER)
    assert (of_both.cause, of_both.cause.tell) == (Cause.KNOWN_HERE_ALONE, Tell.WHEN_IT_LASTS)
    assert "`wake-bridge hosts move @neo-gpt HOST`" in of_both.remedy(ME)


@pytest.mark.parametrize(
    ("span", "minutes", "left"),
    [
        ("22:00-07:00", 22 * 60 - 1, 0),
        ("22:00-07:00", 22 * 60, 9 * 60),
        ("22:00-07:00", 0, 7 * 60),
        ("22:00-07:00", 7 * 60 - 1, 1),
        ("22:00-07:00", 7 * 60, 0),
        ("12:00-13:30", 11 * 60 + 59, 0),
        ("12:00-13:30", 12 * 60, 90),
        ("12:00-13:30", 13 * 60 + 29, 1),
        ("12:00-13:30", 13 * 60 + 30, 0),
        ("00:00-23:59", 23 * 60 + 59, 0),
        ("00:00-23:59", 0, 23 * 60 + 59),
    ],
)
def test_quiet_hours_begin_and_end_to_the_minute(span: str, minutes: int, left: int) -> None:
    """Quiet_hours: the daemon's local time, may cross midnight, the end is not part of it."""
    quiet = QuietHours.parse(span)
    assert quiet is not None
    assert quiet.minutes_left(minutes) == left
    verdict = judge(mail(), switches=Switches(quiet_hours=quiet), minutes=minutes)
    assert isinstance(verdict, Hold) is (left > 0)


def test_the_look_after_quiet_hours_falls_on_their_last_minutes_end() -> None:
    """A hold says exactly when it can end, seconds of the running minute included."""
    now = Instant(NOW + 42_123)
    verdict = judge(mail(), switches=Switches(quiet_hours=NIGHT), minutes=6 * 60 + 58, now=now)
    assert held(verdict) == (HoldReason.QUIET_HOURS, 2 * 60 * SECOND)


@pytest.mark.parametrize(
    "text",
    ["22-7", "22:00", "24:00-07:00", "22:60-07:00", "22:00-07:00 ", "22:00–07:00", "07:00-07:00", "２２:00-07:00"],
)
def test_quiet_hours_that_cannot_be_meant_are_refused(text: str) -> None:
    """Quiet_hours: `HH:MM-HH:MM` and nothing else; empty means none."""
    with pytest.raises(ValueError, match=r"HH:MM-HH:MM|starts and ends at the same time"):
        QuietHours.parse(text)
    assert QuietHours.parse("") is None


def test_an_open_window_is_waited_for() -> None:
    """The window comes before the limits."""
    past = [woken(1) for _ in range(200)]
    assert held(judge(mail(), past=past, due_at=NOW + 7)) == (HoldReason.WINDOW, 7)
    assert isinstance(judge(mail(), due_at=NOW), Go)


def test_a_broadcast_whose_audience_is_still_written_stays_behind() -> None:
    """A match through `AGENT:*` is due no earlier than 250 ms after it was seen, whatever it joins."""
    seen, unseen = mail(), mail(not_before=NOW + 250)
    assert judge(seen, unseen) == Go((seen,))
    assert held(judge(unseen)) == (HoldReason.WINDOW, 250)
    assert held(judge(unseen, mail(not_before=NOW + 90))) == (HoldReason.WINDOW, 90)
    assert held(judge(unseen, mail(policy=WakePolicy.NEXT_TURN))) == (HoldReason.WINDOW, 250)
    assert isinstance(judge(mail(not_before=NOW)), Go)


@pytest.mark.parametrize(
    ("ago", "window", "look"),
    [(0, 30, 30_000), (29_999, 30, 1), (30_000, 30, None), (0, 0, None), (29_999, 0, None)],
)
def test_a_pane_rests_after_a_wake_unless_something_is_urgent(ago: int, window: int, look: int | None) -> None:
    """Refractory per pane; a delivery with a window-0 event skips it."""
    verdict = judge(mail(), mail(window=window), past=[woken(ago), woken(90_000)])
    if look is None:
        assert isinstance(verdict, Go)
    else:
        assert held(verdict) == (HoldReason.REFRACTORY, look)


def test_a_rider_with_window_zero_does_not_hurry() -> None:
    """`next_turn` rides along; only an immediate event can skip the rest."""
    rider = mail(window=0, policy=WakePolicy.NEXT_TURN)
    assert held(judge(mail(), rider, past=[woken(0)])) == (HoldReason.REFRACTORY, 30_000)


def test_limits_are_the_panes_whoever_is_woken_in_it() -> None:
    """Two identities may share a pane: limits counted per pane; what others get elsewhere does not count."""
    assert held(judge(mail(), past=[woken(0, identity=OTHER)]))[0] is HoldReason.REFRACTORY
    assert isinstance(judge(mail(), past=[woken(0, identity=OTHER, pane="elsewhere")] * 500), Go)
    assert isinstance(judge(mail(), past=[woken(0, identity=OTHER, pane="")] * 500, pane=""), Go)


def test_limits_are_the_agents_by_whatever_route_it_is_woken() -> None:
    """Native and screen wakes of one agent share rest, storm and budget."""
    for pane in ("codex:thread", PANE):
        assert held(judge(mail(), past=[woken(0, pane=pane)]))[0] is HoldReason.REFRACTORY
        assert held(judge(mail(window=0), past=[woken(60_001, pane=pane)] * 20))[0] is HoldReason.BUDGET
    assert held(judge(mail(), past=[woken(0)], pane=""))[0] is HoldReason.REFRACTORY
    assert isinstance(judge(mail(), past=[woken(0, pane="")] * 500, pane=""), Go), "it cost no turn"


def test_the_storm_guard_holds_even_what_is_urgent() -> None:
    """8 wakes per rolling 60 s per pane, window 0 included; free when the oldest of the 8 leaves."""
    past = [woken(ago * SECOND) for ago in (59, 50, 40, 30, 20, 10, 5, 1)]
    urgent = mail(window=0)
    assert held(judge(urgent, past=past)) == (HoldReason.STORM, 1 * SECOND)
    assert isinstance(judge(urgent, past=past[1:]), Go)
    assert isinstance(judge(urgent, past=[woken(60 * SECOND), *past[1:]]), Go)
    assert held(judge(urgent, past=[woken(59_500), *past])) == (HoldReason.STORM, 1 * SECOND)


def test_the_budget_of_an_hour_and_of_a_day() -> None:
    """20 wakes per hour and 150 per day per target, held until the oldest counted leaves."""
    hour = [woken(HOUR - 1 - n * 60 * SECOND) for n in range(20)]
    assert held(judge(mail(), past=hour)) == (HoldReason.BUDGET, 1)
    assert isinstance(judge(mail(), past=hour[1:]), Go)
    day = [woken(DAY - 2 - n * 500 * SECOND) for n in range(150)]
    assert held(judge(mail(), past=day)) == (HoldReason.BUDGET, DAY - (DAY - 2))
    assert isinstance(judge(mail(), past=day[1:]), Go)


def test_where_hour_and_day_are_both_spent_the_day_is_waited_for() -> None:
    """The hold says when it really ends."""
    limits = Limits(wakes_per_day=20)
    past = [woken(50 * 60 * SECOND - n * SECOND) for n in range(20)]
    assert held(judge(mail(), past=past, limits=limits)) == (HoldReason.BUDGET, DAY - 50 * 60 * SECOND)


@pytest.mark.parametrize(
    ("minutes", "until"), [(2 * 60 + 30, "until 03:10"), (23 * 60 + 30, "until 00:10 tomorrow"), (0, "until 00:40")]
)
def test_a_spent_budget_and_quiet_hours_say_when_they_end(minutes: int, until: str) -> None:
    """By the clock of the person, to the minute; the look itself may come earlier."""
    spent = judge(mail(), past=[woken(HOUR - 40 * 60 * SECOND + 1)], limits=Limits(wakes_per_hour=1), minutes=minutes)
    assert isinstance(spent, Hold)
    assert spent.detail == f"1 wakes within an hour, {until}"
    assert spent.remedy(ME) == f"`wake-bridge resume {ME}` lifts it"
    quiet = judge(mail(), switches=Switches(quiet_hours=QuietHours.parse("22:00-07:00")), minutes=23 * 60)
    assert isinstance(quiet, Hold)
    assert quiet.remedy(ME) == "nothing to do: quiet hours end by themselves (until 07:00 tomorrow)"


def test_resume_forgets_earlier_wakes_for_budget_and_loop_only() -> None:
    """`resume` clears budget and loop; refractory and storm guard stand."""
    hour = [woken(40 * SECOND + n * SECOND, thread="T") for n in range(20)]
    assert isinstance(judge(mail(), past=hour, lifted_ago=40 * SECOND, limits=Limits(storm=99)), Go)
    assert (
        held(judge(mail(), past=hour, lifted_ago=41 * SECOND, limits=Limits(wakes_per_hour=1, storm=99)))[0]
        is HoldReason.BUDGET
    )
    one_an_hour = Limits(wakes_per_hour=1, refractory=0)
    assert isinstance(judge(mail(), past=[woken(5)], lifted_ago=5, limits=one_an_hour), Go)
    assert held(judge(mail(), past=[woken(5)], lifted_ago=6, limits=one_an_hour))[0] is HoldReason.BUDGET
    assert isinstance(judge(mail(), past=ping_pong(12), lifted_ago=120 * SECOND), Go)
    assert held(judge(mail(), past=hour, lifted_ago=0))[0] is HoldReason.STORM
    assert held(judge(mail(), past=[woken(5 * SECOND)], lifted_ago=0))[0] is HoldReason.REFRACTORY


def ping_pong(turns: int, *, thread: str = "T", spacing: int = 120 * SECOND) -> list[PastWake]:
    """Two agents in two panes who answer each other; the newest `spacing` ago."""
    return [
        woken(n * spacing, identity=OTHER if n % 2 else ME, pane="there" if n % 2 else PANE, thread=thread)
        for n in range(turns, 0, -1)
    ]


def test_two_agents_who_answer_each_other_are_stopped_after_twelve_wakes() -> None:
    """12 agent-to-agent wakes per thread and hour without a human message, over all panes."""
    assert isinstance(judge(mail(), past=ping_pong(11)), Go)
    verdict = judge(mail(), past=ping_pong(12))
    assert held(verdict) == (HoldReason.LOOP, HOUR - 12 * 120 * SECOND)
    assert isinstance(verdict, Hold)
    assert verdict.detail == "12 wakes within an hour in thread T"
    assert verdict.where == "agents:1.0"
    assert held(judge(mail(), past=ping_pong(14))) == (HoldReason.LOOP, HOUR - 12 * 120 * SECOND)


def test_an_hour_later_one_more_turn_is_free() -> None:
    """The hour is a rolling one; the wake that leaves it makes room for one."""
    past = ping_pong(12)
    frees_at = Instant(past[0].at + HOUR)
    assert isinstance(judge(mail(), past=past, now=Instant(frees_at - 1)), Hold)
    assert isinstance(judge(mail(), past=past, now=frees_at), Go)


def test_a_persons_word_lets_the_thread_go_on() -> None:
    """Without a human message: one in the thread counts anew, one in this very set clears it."""
    agents, person = mail(), mail(human=True)
    assert judge(agents, person, past=ping_pong(12)) == Go((agents, person))
    spoke = [*ping_pong(12), woken(60 * SECOND, thread="T", human_thread="T")]
    assert isinstance(judge(agents, past=spoke), Go)
    answered = [woken(59 * 60 * SECOND, thread="T", human_thread="T"), *ping_pong(11)]
    assert isinstance(judge(agents, past=answered), Go)
    elsewhere = [*ping_pong(12), woken(60 * SECOND, human_thread="another")]
    assert held(judge(agents, past=elsewhere))[0] is HoldReason.LOOP
    long_ago = [woken(50 * 60 * SECOND, human_thread="T"), *ping_pong(12)]
    assert held(judge(agents, past=long_ago))[0] is HoldReason.LOOP


def test_a_loop_holds_its_own_thread_and_nothing_else() -> None:
    """What is held is the loop: a person's mail in another thread does not wait for it, nor is the rest lost."""
    looping, person = mail("T"), mail("U", human=True)
    assert judge(looping, person, past=ping_pong(12)) == Go((person,))
    assert judge(looping, mail("U", status=EventStatus.READ), past=ping_pong(12)) != Go((looping,))


def test_what_rides_beside_a_loop_does_not_carry_it() -> None:
    """A `next_turn` event is no reason to wake, so the loop is what is held."""
    rider = mail("U", policy=WakePolicy.NEXT_TURN)
    assert held(judge(mail("T"), rider, past=ping_pong(12)))[0] is HoldReason.LOOP


def test_an_urgent_event_in_a_loop_does_not_hurry_the_others() -> None:
    """The refractory is skipped for what is announced, not for what is held back."""
    past = [*ping_pong(12), woken(10 * SECOND)]
    assert held(judge(mail("T", window=0), mail("U"), past=past)) == (HoldReason.REFRACTORY, 20 * SECOND)


def test_a_broadcast_to_more_agents_than_a_thread_has_wakes_reaches_all() -> None:
    """A loop is who wakes each other again and again; who was not woken in the thread yet is no part of it."""
    others = [woken(n * SECOND, identity=Identity(f"@a{n}"), pane=f"p{n}", thread="T") for n in range(30)]
    assert isinstance(judge(mail(), past=others), Go)
    assert held(judge(mail(), past=[*others, woken(40 * SECOND, thread="T")]))[0] is HoldReason.LOOP


def test_what_belongs_to_no_thread_is_no_loop() -> None:
    """Permissions and pulses have no thread; a task has."""
    past = ping_pong(12)
    right = PermissionDetail("edge", "CAN_REPLY_TO", "@x", NOW, granted_at_observed=False)
    assert isinstance(judge(replace(mail(), detail=right), past=past), Go)
    assert isinstance(judge(mail(""), past=ping_pong(12, thread="")), Go)
    task = TaskDetail("MESSAGE:t", "Submitted", "Working", "@x", "@y", None, thread="T")
    assert held(judge(replace(mail(), detail=task), past=past))[0] is HoldReason.LOOP


def test_the_thread_named_in_a_hold_is_harmless() -> None:
    """Text from the graph is made harmless before a person reads it."""
    thread = "T\x1b[2J\n@x" + "y" * 500
    verdict = judge(mail(thread), past=ping_pong(12, thread=thread))
    assert isinstance(verdict, Hold)
    assert verdict.detail == "12 wakes within an hour in thread T ＠x" + "y" * 59 + "…"


def test_a_clock_that_went_back_holds_no_longer_than_the_limit_lasts() -> None:
    """A loaded remainder longer than its nominal length is clamped to it; one from next year counts nothing."""
    assert held(judge(mail(), past=[woken(-20 * SECOND)])) == (HoldReason.REFRACTORY, 30 * SECOND)
    assert isinstance(judge(mail(), past=[woken(-31 * SECOND)]), Go)
    assert isinstance(judge(mail(), past=[woken(-365 * DAY)] * 500), Go)


def test_limits_of_zero_rest_never_and_wake_never() -> None:
    """Limits: a refractory of 0 is none; a count below 1 is not configurable and still raises nothing."""
    assert isinstance(judge(mail(), past=[woken(0)], limits=Limits(refractory=0)), Go)
    assert held(judge(mail(), limits=Limits(storm=0))) == (HoldReason.STORM, 60 * SECOND)
