"""Reminders on a turned clock in Berlin: a real ledger, a real file as the person's channel, crashes in the middle."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from wake_bridge.config.fields import Configuration
from wake_bridge.config.recipients import channels_of
from wake_bridge.domain.channels import Send
from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.names import DAY, HOUR, MINUTE, Epoch, Instant, LogId
from wake_bridge.domain.reminders import Reminder, at_time, next_after
from wake_bridge.engine.attention.outbox import Outbox
from wake_bridge.engine.attention.reminders import Reminders
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.integrations.channels import ChannelSenders
from wake_bridge.ports.human import Told
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids
from wake_bridge.testing.turned_clock import TurnedClock

BERLIN = ZoneInfo("Europe/Berlin")
STEP = 20_000


class Crash(BaseException):
    """The process ends here and now."""


class House:
    """A ledger and what fires reminders and sends messages, until the process ends."""

    def __init__(self, directory: Path, start: str) -> None:
        self.directory = directory
        self.file = directory / "messages.jsonl"
        self.clock = TurnedClock(int(datetime.fromisoformat(start).replace(tzinfo=BERLIN).timestamp() * 1000), BERLIN)
        self.new_id = counted_ids("EVENT")
        self.crashes_at: Callable[[str], bool] = lambda _: False
        self.crashes = 0
        self.ledger = LedgerStore.open(directory / "state")
        self.ledger.begin_epoch(Position(Epoch(1), LogId(0)), (), "a test", self.clock.now())
        self.begins()

    def begins(self) -> None:
        config = Configuration.model_validate(
            {"channels": {"log": {"kind": "file", "recipient": str(self.file), "default": True}}}
        )
        self.senders = ChannelSenders(config, self.directory / "config.toml", 5.0, [])
        current = Current(EngineSettings(channels=channels_of(config)))
        self.outbox = Outbox(self.ledger, self, current, self.clock)
        self.reminders = Reminders(self.ledger, self.clock, self.new_id, poke=lambda: self._here("after the commit"))

    def _here(self, place: str) -> None:
        if self.crashes_at(place):
            self.crashes += 1
            self.crashes_at = lambda _: False
            raise Crash

    async def tell(self, send: Send) -> Told:
        told = await self.senders.tell(send)
        if self.crashes_at("after the append"):
            self.crashes += 1
            self.crashes_at = lambda _: False
            raise asyncio.CancelledError
        return told

    async def lives_until(self, end: Instant) -> None:
        while self.clock.wall() < end:
            self.clock.turn(STEP)
            try:
                self.reminders.tick()
            except Crash:
                self._restarts()
            self.outbox.tick(self.clock.now())
            await self.outbox.drain()

    def _restarts(self) -> None:
        self.ledger.close()
        self.ledger = LedgerStore.open(self.directory / "state")
        self.ledger.rebase(self.clock.now())
        self.begins()

    def sets(self, number: int, *, at: str = "", cron: str = "", agent: bool = False) -> Reminder:
        now, zone = self.clock.wall(), "Europe/Berlin"
        due = at_time(at, zone, now) if at else next_after(cron, zone, now)
        made = Reminder(
            f"R{number:02}", f"text {number}", zone, due, "@docs" if agent else "", cron=cron, created_at=now
        )
        assert self.ledger.set_reminder(made)
        return made

    def fired(self) -> Counter[str]:
        """How often each one came: as an event of its agent, or as a line in the person's file."""
        rows = self.ledger._db.rows("SELECT subject_key FROM wake_event WHERE kind = 'pulse'")
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        subjects = [row["subject_key"] for row in rows] + [json.loads(line)["subject"] for line in lines]
        return Counter(one.split(":")[1] for one in subjects)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.mark.parametrize("night", ["2026-03-28", "2026-10-24"])
def test_a_day_in_berlin_with_thirty_reminders_and_three_crashes_tells_each_once(tmp_path: Path, night: str) -> None:
    """Both nights of the change: one at a time that is skipped or doubled, and 29 others; each comes once."""
    house = House(tmp_path, f"{night} 12:00")
    times = ["2:30", "2:00", "2:59", "3:00", "1:59", *(f"{hour % 24}:{7 * hour % 60:02}" for hour in range(13, 38))]
    for number, time in enumerate(times):
        hour, minute = time.split(":")
        if number % 2:
            house.sets(number, at=f"{int(hour)}:{minute}", agent=number % 4 == 1)
        else:
            house.sets(number, cron=f"{int(minute)} {hour} * * *", agent=number % 4 == 0)
    assert len(house.ledger.reminders()) == 30
    noon = Instant(house.clock.wall() + 24 * HOUR + (-HOUR if night.startswith("2026-03") else HOUR))

    async def story() -> None:
        plan = [(5 * HOUR, "after the commit"), (14 * HOUR, "after the append"), (16 * HOUR, "after the commit")]
        start = house.clock.wall()
        for after, place in plan:
            await house.lives_until(Instant(start + after))
            house.crashes_at = lambda here, place=place: here == place  # type: ignore[misc]
        await house.lives_until(Instant(noon - MINUTE))

    asyncio.run(story())
    assert house.crashes == 3
    assert house.fired() == Counter({f"R{number:02}": 1 for number in range(30)})
    assert not any("late" in one["body"] for one in house.lines())
    house.ledger.close()


def test_what_brings_it_about_and_that_it_was_done_are_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that refuses the event leaves the reminder due; a second process that is as quick changes nothing."""
    house = House(tmp_path, "2026-11-20 08:59")
    made = house.sets(1, at="9:00", agent=True)
    other = LedgerStore.open(tmp_path / "state")

    def refuses(*_: object) -> list[Any]:
        raise LedgerError("the disk is full")

    house.clock.turn(2 * MINUTE)
    with monkeypatch.context() as broken:
        broken.setattr(LedgerStore, "_insert_new", refuses)
        with pytest.raises(LedgerError):
            house.reminders.tick()
    assert (house.fired(), len(house.ledger.reminders())) == (Counter(), 1)
    rival = Reminders(other, house.clock, counted_ids("OTHER"), poke=lambda: None)
    rival.tick()
    house.reminders.tick()
    assert not house.ledger.fire_reminder(made, made, None, None, house.clock.now())
    assert house.fired() == Counter({"R01": 1})
    other.close()
    house.ledger.close()


def test_after_days_without_a_daemon_each_comes_once_late_and_says_so_or_not_at_all(tmp_path: Path) -> None:
    """Missed by up to 24 h: once, late; older ones roll on; a cancelled one never comes."""
    house = House(tmp_path, "2026-11-20 08:00")
    house.sets(1, cron="0 9 * * *")
    house.sets(2, at="10:00")
    house.sets(3, at="2026-11-22 20:00")
    cancelled = house.sets(4, cron="*/10 * * * *")
    assert house.ledger.end_reminder(cancelled, "cancelled", house.clock.wall())
    house.clock.suspend(3 * DAY / 1000)

    async def story() -> None:
        await house.lives_until(Instant(house.clock.wall() + 30 * MINUTE))

    asyncio.run(story())
    assert house.fired() == Counter({"R01": 1, "R03": 1})
    bodies = sorted(one["body"] for one in house.lines())
    assert bodies == [
        "text 1 (late: it was due at 09:00 on 2026-11-22)",
        "text 3 (late: it was due at 20:00 on 2026-11-22)",
    ]
    missed = house.ledger.find_reminder("R02")
    assert missed is not None
    assert missed.ending == "missed"
    assert [one.id for one in house.ledger.reminders()] == ["R01"]
    house.ledger.close()
