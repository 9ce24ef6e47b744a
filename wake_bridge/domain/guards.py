"""Guards: what may stop a wake before its delivery is locked: switches, windows and limits.

Counted is what was begun, whatever came of it: an unknown outcome may have cost a turn as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold, Outcome
from wake_bridge.domain.events import EventStatus, ItemDetail, PresenceDetail, WakeEvent
from wake_bridge.domain.names import DAY, EPOCH_START, HOUR, MINUTE, Identity, Instant, WakePolicy
from wake_bridge.domain.receivers import is_program
from wake_bridge.domain.signed_wakes import is_signed
from wake_bridge.domain.text import ID_LIMIT, harmless
from wake_bridge.domain.values import dataclass

_MINUTES_A_DAY: Final = 1440
_ANY: Final = 1_000_000_000

LOOKED_AT_EVERY: Final = 15 * 60_000
"""Milliseconds after which a held wake is judged anew, whenever it was expected to go.

What another host drives needs no look before: its lease, or what it tells, ends that hold.
"""

LOOK_AGAIN: Final = 30_000
"""Milliseconds to the next look where only somebody's act ends the hold; that act brings the look forward anyway."""

_PAUSES: Final = {
    Cause.PAUSED: "",
    Cause.ALL_PAUSED: "all identities are paused",
    Cause.BOTH_PAUSED: "this identity and all others are paused",
}

_SPAN: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Limits:
    """How often may be woken. Counts, and seconds for `refractory` and `storm_period`."""

    refractory: int = 30
    storm: int = 8
    storm_period: int = 60
    wakes_per_hour: int = 20
    wakes_per_day: int = 150
    thread_wakes: int = 12


@dataclass(frozen=True, slots=True)
class PastWake:
    """One submit that was begun: for refractory, storm, budget and the loop brake.

    `threads` are the conversations its agent-caused messages belong to; `human_threads` those a person spoke in.
    """

    at: Instant
    identity: Identity
    pane_key: str
    threads: tuple[str, ...] = ()
    human_threads: tuple[str, ...] = ()

    def counts_for(self, identity: Identity, pane_key: str) -> bool:
        """Whether it counts against the limits of a wake of that identity there: one agent on all its routes, one pane.

        What was handed over within a turn that ran anyway names no place, and counts against nobody's. A receiver is a
        target of its own.
        """
        if is_program(self.pane_key) or is_program(pane_key):
            return self.pane_key == pane_key
        return bool(self.pane_key) and (self.identity == identity or self.pane_key == pane_key)


def limits_of_receiver(limits: Limits, per_minute: int) -> Limits:
    """A receiver has no turn to rest from and no pane's budget: so many wakes a minute, and the loop brake; 0 is no limit."""
    return Limits(
        refractory=0,
        storm=per_minute or _ANY,
        storm_period=60,
        wakes_per_hour=_ANY,
        wakes_per_day=_ANY,
        thread_wakes=limits.thread_wakes,
    )


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A stretch of each local day, in minutes after midnight; it may cross midnight. `end` is not part of it."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: str) -> QuietHours | None:
        """Read `22:00-07:00`; None for an empty text. Raises `ValueError` for anything else."""
        if not text:
            return None
        span = _SPAN.fullmatch(text)
        if span is None:
            raise ValueError('must be "HH:MM-HH:MM", such as "22:00-07:00"')
        from_hour, from_minute, to_hour, to_minute = map(int, span.groups())
        start, end = from_hour * 60 + from_minute, to_hour * 60 + to_minute
        if start == end:
            raise ValueError("starts and ends at the same time; leave it empty for no quiet hours")
        return cls(start, end)

    def minutes_left(self, local_minutes: int) -> int:
        """Minutes until they end; 0 outside of them."""
        since_start = (local_minutes - self.start) % _MINUTES_A_DAY
        length = (self.end - self.start) % _MINUTES_A_DAY
        return max(0, length - since_start)


@dataclass(frozen=True, slots=True)
class OtherDriver:
    """What else drives the same agents, in a clause, or why nobody can tell."""

    told: str
    cause: Cause = Cause.OTHER_DRIVER


def moved_to(host: str) -> OtherDriver:
    """What holds the wakes of an identity that a person has just moved to another host: nobody drives it yet."""
    return OtherDriver(f"{host}, which has not taken it yet", Cause.LEASE_MOVES)


@dataclass(frozen=True, slots=True)
class LimitMet:
    """An agent stands at a usage limit: until when it is not woken, as an instant and as a person reads it, and where."""

    ends_at: Instant
    told: str
    where: str
    cause: Cause = Cause.LIMITED


@dataclass(frozen=True, slots=True)
class Switches:
    """What people have switched off, and the usage limit that the agent has met.

    `participation` is the identity's own `participationStatus`.
    `paused_until` None means until resumed; `all_are_paused` is the pause of everybody, beside the identity's own.
    `other_driver` is what else drives the same agents, None if nothing does.
    """

    is_paused: bool = False
    paused_until: Instant | None = None
    all_are_paused: bool = False
    all_paused_until: Instant | None = None
    participation: str = "active"
    quiet_hours: QuietHours | None = None
    other_driver: OtherDriver | None = None
    limit: LimitMet | None = None


@dataclass(frozen=True, slots=True)
class WakeCandidate:
    """A delivery about to be locked.

    Args:
        identity: who is to be woken.
        events: what it would announce, with the statuses they have now; `next_turn` ones ride along.
        due_at: when its window closes.
        pane_key: where; limits are counted by it and by the identity: two identities in one pane share them, and so do
            the routes to one agent. Empty if unknown.
        where: the pane as a person reads it.
        lifted_at: when `resume` last lifted budget and loop brake for the identity.
    """

    identity: Identity
    events: Sequence[WakeEvent]
    due_at: Instant = EPOCH_START
    pane_key: str = ""
    where: str = ""
    lifted_at: Instant = EPOCH_START


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing stops it. `events` are those to announce; the others stay open and come later."""

    events: tuple[WakeEvent, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing left to announce: settle with `outcome`."""

    outcome: Outcome


GuardVerdict = Go | Hold | Nothing


def before_lock(
    candidate: WakeCandidate,
    limits: Limits,
    past: Sequence[PastWake],
    switches: Switches,
    now: Instant,
    local_minutes: int,
) -> GuardVerdict:
    """Judge one delivery; the first line that applies wins.

    Args:
        candidate: what would be announced, to whom and where.
        limits: the configured ones.
        past: all wakes begun in the last day, of every pane.
        switches: what people have switched off.
        now: the moment of judging.
        local_minutes: the same in minutes after local midnight, for quiet hours.

    Returns:
        A `Hold` says when it can end by itself, exactly; where only an act of somebody ends it, when to look again.
        Never raises, and drops nothing: an event not in `Go.events` stays as it is.
    """
    news = [one for one in candidate.events if one.status is EventStatus.OPEN]
    if not _wakes(news):
        return Nothing(_outcome_of(candidate.events))
    off = switched_off(switches, now, local_minutes)
    if off is not None:
        return _told_of(off, news)
    ripe = [one for one in news if one.not_before <= now]
    if candidate.due_at > now or not _wakes(ripe):
        first = min((one for one in news if _wakes([one])), key=lambda one: one.not_before)
        closes_at = first.not_before
        if first.failed_turns and candidate.due_at <= now:
            again = f"announcement {first.failed_turns + 1}, {_until(closes_at, now, local_minutes)}"
            return Hold(HoldReason.LIMITED, again, candidate.where, closes_at, Cause.TURN_FAILED)
        return Hold(HoldReason.WINDOW, next_look_at=Instant(max(candidate.due_at, closes_at)))
    brakes = _brakes(ripe, candidate, limits, past, now)
    # a loop holds its own thread: a person's message in another one must not wait for it
    free = [one for one in ripe if one.thread not in brakes]
    chosen = free if _wakes(free) else ripe
    full = next(_limits_reached(chosen, candidate, limits, past, now, local_minutes), None)
    if full is not None:
        return full
    return Go(tuple(chosen)) if chosen is free else _braked(brakes, candidate, limits)


def _wakes(events: Iterable[WakeEvent]) -> bool:
    """Whether one of them is reason enough; `next_turn` events only ride along."""
    return any(one.policy is WakePolicy.IMMEDIATE for one in events)


def _outcome_of(events: Sequence[WakeEvent]) -> Outcome:
    shown = {EventStatus.READ, EventStatus.ANNOUNCED}
    return Outcome.READ if any(one.status in shown for one in events) else Outcome.EMPTY


def _told_of(off: Hold, news: Sequence[WakeEvent]) -> Hold:
    """What no other host can know of waits here until a person does something about it."""
    is_here_alone = off.cause is Cause.OTHER_HOST and any(map(_is_known_here_alone, news))
    return replace(off, cause=Cause.KNOWN_HERE_ALONE) if is_here_alone else off


def _is_known_here_alone(event: WakeEvent) -> bool:
    """Whether it is no row of the graph, which other hosts would read as well."""
    return isinstance(event.detail, ItemDetail | PresenceDetail) or is_signed(event)


def switched_off(switches: Switches, now: Instant, local_minutes: int) -> Hold | None:
    """The first switch that is off, the one that comes back by itself last; None when all are on. Never raises."""
    return next(_switches_off(switches, now, local_minutes), None)


def every_hold(
    candidate: WakeCandidate,
    limits: Limits,
    past: Sequence[PastWake],
    switches: Switches,
    now: Instant,
    local_minutes: int,
) -> list[Hold]:
    """All that would hold the candidate now, where `before_lock` stops at the first; for `why`. Never raises."""
    news = [one for one in candidate.events if one.status is EventStatus.OPEN]
    holds = [
        *(_told_of(one, news) for one in _switches_off(switches, now, local_minutes)),
        *_limits_reached(news, candidate, limits, past, now, local_minutes),
    ]
    brakes = _brakes(news, candidate, limits, past, now)
    return [*holds, *(_braked({thread: frees_at}, candidate, limits) for thread, frees_at in brakes.items())]


def _switches_off(switches: Switches, now: Instant, local_minutes: int) -> Iterator[Hold]:
    by_hand = Instant(now + LOOK_AGAIN)
    yield from _pauses(switches, now)
    if switches.participation != "active":
        detail = f"participationStatus is {harmless(switches.participation, ID_LIMIT)}"
        yield Hold(HoldReason.BENCHED, detail, next_look_at=by_hand)
    if switches.other_driver:
        other = switches.other_driver
        look_at = Instant(now + LOOKED_AT_EVERY) if other.cause is Cause.OTHER_HOST else by_hand
        yield Hold(other.cause.reason, other.told, next_look_at=look_at, cause=other.cause)
    left = switches.quiet_hours.minutes_left(local_minutes) if switches.quiet_hours else 0
    if left:
        ends_at = Instant(now - now % MINUTE + left * MINUTE)
        yield Hold(HoldReason.QUIET_HOURS, _until(ends_at, now, local_minutes), next_look_at=ends_at)
    limit = switches.limit
    if limit is not None and limit.ends_at > now:
        yield Hold(HoldReason.LIMITED, limit.told, limit.where, limit.ends_at, limit.cause)


def _pauses(switches: Switches, now: Instant) -> Iterator[Hold]:
    """One hold for the identity's own pause and that of everybody: the longer one says when it ends by itself."""
    both = [
        (Cause.PAUSED, switches.is_paused, switches.paused_until),
        (Cause.ALL_PAUSED, switches.all_are_paused, switches.all_paused_until),
    ]
    lasting = [(cause, until) for cause, is_on, until in both if is_on and (until is None or until > now)]
    if not lasting:
        return
    ends = [until for _, until in lasting if until is not None]
    is_by_hand = len(ends) < len(lasting)
    cause = lasting[0][0] if len(lasting) == 1 else Cause.BOTH_PAUSED
    detail = ", ".join(filter(None, (_PAUSES[cause], "until resumed" if is_by_hand else "")))
    look_at = Instant(now + LOOK_AGAIN) if is_by_hand else max(ends)
    yield Hold(HoldReason.PAUSED, detail, next_look_at=look_at, cause=cause)


def _limits_reached(
    events: Sequence[WakeEvent],
    candidate: WakeCandidate,
    limits: Limits,
    past: Sequence[PastWake],
    now: Instant,
    local_minutes: int,
) -> Iterator[Hold]:
    """Refractory, storm, budget: all of one pane, whoever is woken there, and of one agent, wherever it is."""
    here = [wake.at for wake in past if wake.counts_for(candidate.identity, candidate.pane_key)]
    since_lifted = [at for at in here if at > candidate.lifted_at]
    is_urgent = any(one.is_urgent and _wakes([one]) for one in events)
    rested_at = None if is_urgent else _frees_at(here, 1, limits.refractory * 1000, now)
    if rested_at is not None:
        yield Hold(HoldReason.REFRACTORY, f"rests {limits.refractory} s after a wake", candidate.where, rested_at)
    calm_at = _frees_at(here, limits.storm, limits.storm_period * 1000, now)
    if calm_at is not None:
        detail = f"{limits.storm} wakes within {limits.storm_period} s"
        yield Hold(HoldReason.STORM, detail, candidate.where, calm_at)
    spent = spent_budget(since_lifted, limits, now)
    if spent is not None:
        detail, frees_at = spent
        until = _until(frees_at, now, local_minutes)
        yield Hold(HoldReason.BUDGET, f"{detail}, {until}", candidate.where, frees_at)


def spent_budget(wakes: Sequence[Instant], limits: Limits, now: Instant) -> tuple[str, Instant] | None:
    """Why one pane's wakes since its limits were last lifted use its budget up, and when it frees; None if not."""
    tomorrow = _frees_at(wakes, limits.wakes_per_day, DAY, now)
    if tomorrow is not None:
        return f"{limits.wakes_per_day} wakes within a day", tomorrow
    next_hour = _frees_at(wakes, limits.wakes_per_hour, HOUR, now)
    if next_hour is not None:
        return f"{limits.wakes_per_hour} wakes within an hour", next_hour
    return None


def _until(end: Instant, now: Instant, local_minutes: int) -> str:
    """`until 07:00`, by the person's own clock, for what ends within a day."""
    minutes = local_minutes - -(end - (now - now % MINUTE)) // MINUTE
    day = " tomorrow" if minutes >= _MINUTES_A_DAY else ""
    return f"until {minutes // 60 % 24:02}:{minutes % 60:02}{day}"


def _braked(brakes: Mapping[str, Instant], candidate: WakeCandidate, limits: Limits) -> Hold:
    """The hold for the thread that frees first."""
    thread, frees_at = min(brakes.items(), key=lambda brake: brake[1])
    detail = f"{limits.thread_wakes} wakes within an hour in thread {harmless(thread, ID_LIMIT)}"
    return Hold(HoldReason.LOOP, detail, candidate.where, frees_at)


def _brakes(
    events: Sequence[WakeEvent], candidate: WakeCandidate, limits: Limits, past: Sequence[PastWake], now: Instant
) -> dict[str, Instant]:
    """Threads in which agents wake each other too often without a person, each with the moment it frees.

    All panes count, since a loop goes round among them; but whoever was not woken in the thread within the hour is not
    part of the loop: a broadcast to twenty agents reaches all twenty.
    """
    spoken_to_by_people = {one.thread for one in events if one.from_human}
    threads = {one.thread for one in events if one.thread} - spoken_to_by_people
    heard: dict[str, Instant] = {}
    turns: dict[str, list[PastWake]] = {}
    for wake in past:
        for thread in threads.intersection(wake.human_threads):
            heard[thread] = max(wake.at, heard.get(thread, EPOCH_START))
        for thread in threads.intersection(wake.threads):
            turns.setdefault(thread, []).append(wake)
    brakes: dict[str, Instant] = {}
    for thread, all_turns in turns.items():
        since = max(heard.get(thread, EPOCH_START), candidate.lifted_at, now - HOUR)
        recent = [wake for wake in all_turns if wake.at > since]
        frees_at = _frees_at([wake.at for wake in recent], limits.thread_wakes, HOUR, now)
        if frees_at is not None and any(wake.identity == candidate.identity for wake in recent):
            brakes[thread] = frees_at
    return brakes


def _frees_at(wakes: Iterable[Instant], most: int, period: int, now: Instant) -> Instant | None:
    """When fewer than `most` wakes lie within `period` ms again; None if that is so now.

    A wake further ahead than a period stems from a clock that has gone back since: it cannot be told when it was.
    """
    counted = sorted(at for at in wakes if now - period < at <= now + period)
    if len(counted) < most:
        return None
    oldest = counted[-most] if most > 0 else now
    # a remainder longer than its nominal length is clamped to it
    return Instant(min(now, oldest) + period)
