"""Every instant that is stored and waited for survives a clock that is set, a night with a missing hour, and a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final

import pytest

from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.office import Office

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
SHIFTS: Final = {"an hour ahead": 3600, "an hour back": -3600, "a day ahead": 86_400, "a day back": -86_400}
"""Seconds by which the wall clock is set."""

SLACK: Final = 61 * SECOND
"""A look is at most a minute away after a start."""

WAITED_FOR: Final = {
    ("wake_event", "not_before"): "moved by `rebase` with `matched_at`; a quarter of a second from it",
    ("wake_event", "due_at"): "made of `matched_at` and the window, `rebase` sets the first",
    ("delivery", "due_at"): "`rebase`: PENDING as its events, DISPATCHED now",
    ("delivery", "next_look_at"): "at most 15 min away, `rebase`: at most 1 min",
    ("delivery", "lease_until"): "`rebase`: at most 1 min",
    ("delivery", "act_at"): "made of the three above",
    ("paused", "until"): "`rebase` keeps its length; judged anew at each look",
    ("limit_lift", "at"): "`rebase`: at most now; wakes after it count again",
    ("delivery", "ack_by"): "`rebase`: at most its length away",
    ("wake_event", "leased_until"): "`rebase`: at most its length away, so that an item is not out of sight for long",
    ("journal", "at"): "limits count by it; `rebase` notes up to which line it is not to be believed",
    ("heartbeat", "nudged_at"): "`rebase`: at most now",
    ("heartbeat", "cooldown"): "a length; counts from `nudged_at`",
    ("receiver", "next_try_at"): "`rebase`: at most 1 min away, of a suspended one its longest wait",
    ("receiver", "suspended_at"): "`rebase`: at most now; after three days of it the receiver is degraded",
    (
        "signed_wake",
        "taken_at",
    ): "`rebase`: at most now; an eventId is forgotten 90 days after it, and after `emitted_at`",
    ("signed_wake", "emitted_at"): "the sender's word; of one without a timestamp it may be at most 5 min ahead",
    ("remembered_pane", "seen_at"): "`rebase`: at most now; compared with the start of an agent",
    ("send", "created_at"): "`rebase`: at most now; a message is given up a day after it",
    ("send", "next_try_at"): "`rebase`: at most an hour away, the longest of its waits",
    ("send", "lease_until"): "`rebase`: at most 1 min",
    ("reminder", "due_at"): "of the wall clock, and compared with it: a person's own time, however the clock is set",
    ("episode", "began_at"): "`rebase`: at most now; told after a length from it",
    ("episode", "resets_at"): "`rebase` keeps its length from `began_at`; `resume`, or a turn that runs, ends its hold",
}
"""What is waited for, or compared with now to decide whether somebody is woken: table and column, and what keeps it right."""

NOT_WAITED_FOR: Final = {
    ("wake_event", "matched_at"),
    ("wake_event", "occurred_at"),
    ("wake_event", "status_at"),
    ("wake_event", "delivered_at"),
    ("delivery", "created_at"),
    ("delivery", "settled_at"),
    ("delivery", "submit_at"),
    ("delivery", "escalated_at"),
    ("activity", "at"),
    ("announced", "at"),
    ("quarantine", "at"),
    ("binding", "at"),
    ("paused", "since"),
    ("degraded", "at"),
    ("notice", "at"),
    ("session", "seen_at"),
    ("remembered_pane", "since"),
    ("former_agent", "until"),
    ("receiver", "degraded_at"),
    ("reminder", "created_at"),
    ("reminder", "last_at"),
    ("reminder", "ended_at"),
    ("send", "since"),
    ("send", "settled_at"),
    ("send_line", "at"),
    ("episode", "told_at"),
    ("episode", "ended_at"),
}
"""Told, or forgotten with the retention: a wrong one wakes nobody and keeps nobody waiting."""


def test_every_stored_instant_is_in_the_table(tmp_path: Path) -> None:
    """Whoever adds a column for an instant says here what keeps it right when the clock is set."""
    ledger = LedgerStore.open(tmp_path)
    rows = ledger._db.rows(
        "SELECT m.name AS tab, c.name AS col FROM sqlite_schema m, pragma_table_xinfo(m.name) c"
        " WHERE m.type = 'table' AND c.type = 'INTEGER'"
    )
    ledger.close()
    endings = ("at", "by", "until", "since", "before", "cooldown")
    found = {(row["tab"], row["col"]) for row in rows if row["col"].rpartition("_")[2] in endings}
    assert found - {("wake_event", "by_heartbeat")} == {*WAITED_FOR, *NOT_WAITED_FOR}


Story = Callable[[Office], Coroutine[None, None, None]]


def played(directory: Path, story: Story, *, start: int | None = None, zone: tzinfo = UTC, window: int = 0) -> None:
    async def run() -> None:
        office = Office(
            directory, ["@other", "@agent"], start=int(time.time() * 1000) if start is None else start, zone=zone
        )
        metadata = {"adapter": "memory", "tmuxSession": "agent", "coalesceWindow": window}
        office.subscribe("@agent", pane="agent", harnessTargetMetadata=metadata)
        async with office:
            await story(office)

    asyncio.run(run())


def configured(office: Office, **changes: object) -> None:
    office.current.settings = replace(office.current.settings, **changes)  # type: ignore[arg-type]


async def sends(office: Office) -> None:
    sent_at = datetime.fromtimestamp(office.clock.wall() / 1000, UTC).isoformat(timespec="milliseconds")
    office.core.send("@other", "@agent", "a question", sentAt=sent_at.replace("+00:00", "Z"))
    await office.reads()


async def set_over_a_restart(office: Office, shift: int) -> None:
    office.clock.set_wall(shift)
    await office.restarts()


@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
def test_a_held_wake_arrives_within_a_minute_of_its_moment(tmp_path: Path, shift: int) -> None:
    """It waited as `window` until the old time came round: its window had closed before the restart."""

    async def story(office: Office) -> None:
        office.agent("agent").state = PresenceState.ACTIVE
        await sends(office)
        await office.works()
        await set_over_a_restart(office, shift)
        office.agent("agent").state = PresenceState.IDLE
        office.clock.turn(SLACK)
        await office.works()
        assert len(office.agent("agent").received) == 1

    played(tmp_path, story)


@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
def test_a_window_lasts_no_longer_than_its_length(tmp_path: Path, shift: int) -> None:
    """A remainder that is longer than the window is the window."""

    async def story(office: Office) -> None:
        await sends(office)
        await office.works()
        assert office.agent("agent").received == []
        await set_over_a_restart(office, shift)
        office.clock.turn(300 * SECOND + SLACK)
        await office.works()
        assert len(office.agent("agent").received) == 1

    played(tmp_path, story, window=300)


@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
def test_a_pause_lasts_no_longer_than_its_length(tmp_path: Path, shift: int) -> None:
    """An hour's pause is over after an hour, whatever was done to the clock."""

    async def story(office: Office) -> None:
        now = office.clock.now()
        office.ledger.pause("@agent", type(now)(now + HOUR), now)
        await sends(office)
        await office.works()
        await set_over_a_restart(office, shift)
        await _until_woken(office, HOUR + SLACK)

    played(tmp_path, story)


@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
@pytest.mark.parametrize(
    ("limits", "length"),
    [
        (Limits(refractory=30), 30 * SECOND),
        (Limits(refractory=0, wakes_per_hour=1), HOUR),
        (Limits(refractory=0, storm=1, storm_period=600), 600 * SECOND),
        (Limits(refractory=0, thread_wakes=1), HOUR),
    ],
    ids=["rest", "budget", "storm", "loop"],
)
def test_a_limit_holds_no_longer_than_its_period(tmp_path: Path, shift: int, limits: Limits, length: int) -> None:
    """A wake of before counts as of now at the most."""

    async def story(office: Office) -> None:
        configured(office, limits=limits)
        await sends(office)
        await office.works()
        office.clock.turn(SECOND)
        assert len(office.agent("agent").received) == 1
        await sends(office)
        await office.works()
        await set_over_a_restart(office, shift)
        await _until_woken(office, length + SLACK, count=2)

    played(tmp_path, story, window=1)


async def _until_woken(office: Office, within: int, count: int = 1) -> None:
    """Work every half minute until so many wakes arrived."""
    for _ in range(within // (30 * SECOND) + 1):
        await office.works()
        if len(office.agent("agent").received) == count:
            return
        office.clock.turn(30 * SECOND)
    await office.works()
    assert len(office.agent("agent").received) == count, [one.hold for one in office.deliveries("@agent")]


class Berlin(tzinfo):
    """The nights of 2027 in which an hour is left out (28 March, 2 o'clock) and comes twice (31 October, 3 o'clock)."""

    SPRING, AUTUMN = datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 10, 31, 1, tzinfo=UTC)

    def fromutc(self, dt: datetime) -> datetime:
        is_summer = self.SPRING <= dt.replace(tzinfo=UTC) < self.AUTUMN
        return dt + timedelta(hours=2 if is_summer else 1)

    def utcoffset(self, dt: datetime | None) -> timedelta:
        del dt
        return timedelta(hours=1)

    def tzname(self, dt: datetime | None) -> str:
        del dt
        return "Berlin"

    def dst(self, dt: datetime | None) -> timedelta:
        del dt
        return timedelta(0)


@pytest.mark.parametrize(
    ("evening", "woken_at"),
    [
        (datetime(2027, 3, 27, 22, tzinfo=UTC), datetime(2027, 3, 28, 5, tzinfo=UTC)),
        (datetime(2027, 10, 30, 21, tzinfo=UTC), datetime(2027, 10, 31, 6, tzinfo=UTC)),
    ],
    ids=["an hour is left out", "an hour comes twice"],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_quiet_hours_end_by_the_clock_on_the_wall(
    tmp_path: Path, evening: datetime, woken_at: datetime, restarted: bool
) -> None:
    """Quiet hours end by the local clock of the morning, also in the night in which it is set."""

    async def story(office: Office) -> None:
        configured(office, quiet_hours=QuietHours.parse("22:00-07:00"))
        await sends(office)
        await office.works()
        assert office.agent("agent").received == []
        if restarted:
            await office.restarts()
        times = await _woken_at(office, timedelta(hours=12))
        assert woken_at <= times <= woken_at + timedelta(minutes=2)

    played(tmp_path, story, start=int(evening.timestamp() * 1000), zone=Berlin())


async def _woken_at(office: Office, within: timedelta) -> datetime:
    """When the agent is woken, looking every minute as the deliver loop would: only what is due is taken."""
    for _ in range(int(within.total_seconds() // 60)):
        office.clock.turn(MINUTE)
        await office._takes_due()
        if office.agent("agent").received:
            return datetime.fromtimestamp(office.clock.wall() / 1000, UTC)
    raise AssertionError([one.hold for one in office.deliveries("@agent")])


@pytest.mark.parametrize("shift", [6 * 3600, -6 * 3600], ids=["ahead", "back"])
def test_quiet_hours_end_soon_after_the_clock_was_set_past_their_end(tmp_path: Path, shift: int) -> None:
    """Without a restart: a look is never more than 15 min away."""

    async def story(office: Office) -> None:
        configured(office, quiet_hours=QuietHours.parse("01:00-04:00"))
        await sends(office)
        await office.works()
        office.clock.set_wall(shift)
        begun = datetime.fromtimestamp(office.clock.wall() / 1000, UTC)
        assert await _woken_at(office, timedelta(hours=1)) <= begun + timedelta(minutes=17)

    start = datetime(2027, 6, 1, 2, tzinfo=UTC)
    played(tmp_path, story, start=int(start.timestamp() * 1000))


def test_identities_are_what_they_were(tmp_path: Path) -> None:
    """After a restart on a clock that was set back nothing is told twice."""

    async def story(office: Office) -> None:
        await sends(office)
        await office.works()
        for shift in SHIFTS.values():
            await set_over_a_restart(office, shift)
            office.clock.turn(2 * HOUR)
            await office.works()
        assert len(office.agent("agent").received) == 1
        assert len(office.ledger.deliveries(state=None, identity=Identity("@agent"), limit=10)) == 1

    played(tmp_path, story)
