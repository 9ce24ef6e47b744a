from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from wake_bridge.domain.delivery import Hold, HoldReason
from wake_bridge.domain.events import EventStatus, MessageDetail, WakeEvent
from wake_bridge.domain.guards import (
    Go,
    Limits,
    Nothing,
    PastWake,
    QuietHours,
    Switches,
    WakeCandidate,
    before_lock,
)
from wake_bridge.domain.names import DAY, HOUR, Epoch, EventKind, Identity, Instant, LogId, WakePolicy

START = Instant(1_800_000_000_000)
PANES = {Identity("@a"): "p1", Identity("@b"): "p1", Identity("@c"): "p2", Identity("@d"): "p3"}
THREADS = ("", "T", "U")


@dataclass(frozen=True)
class Arrival:
    """One event of a schedule, `at` ms after the start."""

    at: int
    identity: Identity
    thread: str
    human: bool
    window: int
    rides: bool


arrivals = st.builds(
    Arrival,
    at=st.one_of(st.integers(0, 6 * HOUR), st.integers(0, 20).map(lambda second: second * 1000), st.just(0)),
    identity=st.sampled_from(sorted(PANES)),
    thread=st.sampled_from(THREADS),
    human=st.booleans() | st.just(False),
    window=st.sampled_from([0, 0, 30, 300]),
    rides=st.just(False) | st.booleans(),
)
small_limits = st.builds(
    Limits,
    refractory=st.sampled_from([0, 30, 120]),
    storm=st.integers(1, 4),
    storm_period=st.sampled_from([10, 60]),
    wakes_per_hour=st.integers(1, 6),
    wakes_per_day=st.integers(1, 12),
    thread_wakes=st.integers(1, 4),
)


def event(number: int, arrival: Arrival) -> WakeEvent:
    return WakeEvent(
        id=f"E{number}",
        epoch=Epoch(1),
        log_id=LogId(number),
        identity=arrival.identity,
        kind=EventKind.MESSAGE,
        subject_key=f"M{number}",
        detail=MessageDetail(f"M{number}", "s", "@x", thread=arrival.thread, from_human=arrival.human),
        subscription_id="S",
        matched_at=Instant(START + arrival.at),
        policy=WakePolicy.NEXT_TURN if arrival.rides else WakePolicy.IMMEDIATE,
        window=arrival.window,
    )


@dataclass
class Bridge:
    """The smallest engine that honours the guards: one open set an identity, looked at when told to."""

    limits: Limits
    quiet: QuietHours | None = None
    open: dict[Identity, list[WakeEvent]] = field(default_factory=dict)
    wakes: list[tuple[PastWake, tuple[WakeEvent, ...]]] = field(default_factory=list)
    looks: list[tuple[int, Identity]] = field(default_factory=list)
    count: Counter[HoldReason] = field(default_factory=Counter)

    def arrive(self, one: WakeEvent) -> None:
        """It joins what is open for its identity, and is looked at."""
        self.open.setdefault(one.identity, []).append(one)
        heapq.heappush(self.looks, (one.matched_at, one.identity))

    def look(self, now: Instant, identity: Identity) -> None:
        """Judge what is open and do as told."""
        events = self.open.get(identity, [])
        immediate = [one for one in events if one.policy is WakePolicy.IMMEDIATE]
        candidate = WakeCandidate(
            identity=identity,
            events=tuple(events),
            due_at=min((one.due_at for one in immediate), default=now),
            pane_key=PANES[identity],
        )
        minutes = now // 60_000 % 1440
        past = [wake for wake, _ in self.wakes if wake.at > now - DAY]
        verdict = before_lock(candidate, self.limits, past, Switches(quiet_hours=self.quiet), now, minutes)
        if isinstance(verdict, Hold):
            assert verdict.next_look_at > now, "a hold that is over is no hold"
            self.count[verdict.reason] += 1
            heapq.heappush(self.looks, (verdict.next_look_at, identity))
        elif isinstance(verdict, Go):
            self.wake(now, identity, verdict.events)
        else:
            assert isinstance(verdict, Nothing)
            assert not immediate

    def wake(self, now: Instant, identity: Identity, events: tuple[WakeEvent, ...]) -> None:
        """Announce those events; the others stay open and are looked at."""
        assert any(one.policy is WakePolicy.IMMEDIATE for one in events)
        wake = PastWake(
            at=now,
            identity=identity,
            pane_key=PANES[identity],
            threads=tuple({one.thread for one in events if one.thread and not one.from_human}),
            human_threads=tuple({one.thread for one in events if one.thread and one.from_human}),
        )
        self.wakes.append((wake, events))
        gone = {one.id for one in events}
        self.open[identity] = [one for one in self.open[identity] if one.id not in gone]
        heapq.heappush(self.looks, (now, identity))


def run(schedule: list[Arrival], limits: Limits, quiet: QuietHours | None = None) -> tuple[Bridge, list[WakeEvent]]:
    """Play a schedule to its end; fails when it does not come to one."""
    bridge = Bridge(limits, quiet)
    events = [event(number, one) for number, one in enumerate(schedule)]
    for one in events:
        heapq.heappush(bridge.looks, (one.matched_at, one.identity))
    waiting = sorted(events, key=lambda one: one.matched_at)
    for _ in range(20_000):
        if not bridge.looks:
            return bridge, events
        now, identity = heapq.heappop(bridge.looks)
        while waiting and waiting[0].matched_at <= now:
            bridge.arrive(waiting.pop(0))
        bridge.look(Instant(now), identity)
    raise AssertionError("holds that never end")


def most_within(instants: list[int], period: int) -> int:
    """The most instants in any half-open stretch of `period` ms."""
    ordered = sorted(instants)
    return max((bisect_right(ordered, at + period - 1) - place for place, at in enumerate(ordered)), default=0)


@settings(max_examples=150)
@given(st.lists(arrivals, min_size=8, max_size=60), small_limits)
def test_no_schedule_exceeds_a_limit_and_nothing_is_dropped(schedule: list[Arrival], limits: Limits) -> None:
    """Storm and budget per pane and rolling period; every hold frees; every event is announced once or still rides."""
    bridge, events = run(schedule, limits)
    for pane in set(PANES.values()):
        here = [wake.at for wake, _ in bridge.wakes if wake.pane_key == pane]
        assert most_within(list(here), limits.storm_period * 1000) <= limits.storm
        assert most_within(list(here), HOUR) <= limits.wakes_per_hour
        assert most_within(list(here), DAY) <= limits.wakes_per_day
    announced = [one.id for _, told in bridge.wakes for one in told]
    still_open = [one.id for left in bridge.open.values() for one in left]
    assert sorted(announced + still_open) == sorted(one.id for one in events)
    assert all(one.policy is WakePolicy.NEXT_TURN for left in bridge.open.values() for one in left)


@settings(max_examples=150)
@given(st.lists(arrivals, min_size=8, max_size=60), small_limits)
def test_the_refractory_is_skipped_for_urgent_wakes_only(schedule: list[Arrival], limits: Limits) -> None:
    """Two wakes of a pane lie a refractory apart, unless the later one tells a window-0 event."""
    bridge, _ = run(schedule, limits)
    for pane in set(PANES.values()):
        here = [(wake.at, told) for wake, told in bridge.wakes if wake.pane_key == pane]
        for (before, _), (after, told) in pairwise(here):
            urgent = any(one.window == 0 and one.policy is WakePolicy.IMMEDIATE for one in told)
            assert urgent or after - before >= limits.refractory * 1000


@settings(max_examples=150)
@given(st.lists(arrivals.map(lambda one: replace(one, human=False)), min_size=8, max_size=60), small_limits)
def test_agents_alone_cannot_keep_a_thread_going(schedule: list[Arrival], limits: Limits) -> None:
    """Without people a thread has its wakes an hour, and one more only for each who is new to it."""
    bridge, _ = run(schedule, limits)
    for thread in THREADS[1:]:
        turns = [wake for wake, _ in bridge.wakes if thread in wake.threads]
        for last in turns:
            hour = [wake for wake in turns if last.at - HOUR < wake.at <= last.at]
            again = [wake for place, wake in enumerate(hour) if wake.identity in {one.identity for one in hour[:place]}]
            assert len(again) < limits.thread_wakes
            assert len(hour) <= limits.thread_wakes + len(PANES) - 1


@settings(max_examples=100)
@given(st.lists(arrivals, max_size=25), st.integers(0, 1439), st.integers(1, 1439))
def test_nobody_is_woken_in_quiet_hours_and_all_are_after(schedule: list[Arrival], start: int, length: int) -> None:
    """Quiet_hours: holds every priority; what waited comes when they end."""
    quiet = QuietHours(start, (start + length) % 1440)
    bridge, events = run(schedule, Limits(), quiet)
    assert all(quiet.minutes_left(wake.at // 60_000 % 1440) == 0 for wake, _ in bridge.wakes)
    assert sum(len(told) for _, told in bridge.wakes) + sum(map(len, bridge.open.values())) == len(events)


def test_a_burst_of_a_thousand_messages_at_window_zero_obeys_the_storm_guard() -> None:
    """A burst of 1,000 messages at window 0: at most 8 wakes a minute, 20 an hour, nothing lost."""
    me = Identity("@c")
    burst = [Arrival(number * 50, me, f"T{number}", human=False, window=0, rides=False) for number in range(1_000)]
    bridge, _ = run(burst, Limits())
    assert sum(len(told) for _, told in bridge.wakes) == 1_000
    assert most_within([wake.at for wake, _ in bridge.wakes], 60_000) == 8
    assert bridge.count[HoldReason.STORM] > 0


def test_two_agents_who_answer_each_other_for_ever_get_twelve_wakes_an_hour() -> None:
    """They must not talk all night at their owner's cost; a person's word lets them go on."""
    bridge = Bridge(Limits(refractory=0, wakes_per_hour=1_000, wakes_per_day=1_000))
    number, now = 0, START
    ping = {Identity("@c"): Identity("@d"), Identity("@d"): Identity("@c")}
    bridge.arrive(event(0, Arrival(0, Identity("@c"), "T", human=False, window=0, rides=False)))
    while bridge.looks and now < START + 10 * HOUR:
        at, identity = heapq.heappop(bridge.looks)
        now, before = Instant(at), len(bridge.wakes)
        bridge.look(now, identity)
        if len(bridge.wakes) > before:
            number += 1
            answer = Arrival(now - START + 5_000, ping[identity], "T", human=False, window=0, rides=False)
            bridge.arrive(event(number, answer))
    assert most_within([wake.at for wake, _ in bridge.wakes], HOUR) == 12
    assert 100 <= len(bridge.wakes) <= 132
    assert bridge.count[HoldReason.LOOP] > 0
    assert {one.status for left in bridge.open.values() for one in left} == {EventStatus.OPEN}
