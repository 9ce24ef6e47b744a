"""A week of a laptop with five agents, on time that is turned by hand."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.torture.report import Table, Verdict
from wake_bridge.domain.delivery import Outcome
from wake_bridge.domain.names import DAY, HOUR, Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.testing.turned_clock import TurnedClock, live
from wake_bridge.testing.whole_engine import WholeEngine

MONDAY: Final = Instant(1_767_600_000_000)
"""2026-01-05 08:00 UTC."""

AGENTS: Final = ("a", "b", "c", "d", "e")
DAY_SECONDS: Final = 24 * 3600

OVER_NIGHT: Final = 0.1
"""The part of a day's mail that is in the graph when the lid is opened."""

MEGABYTE: Final = 1024 * 1024
ABOUT: Final = (
    "Five agents, the engine with a real graph and a real ledger, time turned by hand: the lid is open fifteen hours a day,"
    " a tenth of a day's mail is there when it opens. No message may be lost, the budgets hold, there is one digest for each"
    " agent in the morning, and with two days of retention the ledger grows no more after the third."
)
RETENTION: Final = 2 * DAY
PRUNED_EVERY: Final = 6 * 3600
MAIL_ON_ITS_WAY: Final = 1800
"""Seconds at the end of a day without new mail: what is under way arrives."""


@dataclass
class Week:
    """What came of it."""

    sent: int = 0
    lost: list[str] = field(default_factory=list)
    """Messages that the ledger does not know at the end of their day, or that still wait at the end of the week."""
    submits: int = 0
    unknown: int = 0
    most_per_hour: int = 0
    most_per_day: int = 0
    most_per_minute: int = 0
    morning_wakes: list[int] = field(default_factory=list)
    """Wakes of each agent within two minutes after the lid was opened."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of the ledger at the end of each day."""
    rows: list[int] = field(default_factory=list)


def live_a_week(directory: Path, *, days: int, messages: int, seed: int) -> Table:
    """So many days of fifteen hours, with `messages` in all; each message is a trial."""
    table = Table("A laptop that sleeps every night, on the turned clock", ABOUT, "messages", ("told", "lost"))
    began = time.monotonic()
    found = week(directory, days=days, hours=15, messages=messages, seed=seed)
    table.seconds = time.monotonic() - began
    row = f"{days} days"
    table.add(row, Verdict("told"), found.sent - len(found.lost))
    for message in found.lost:
        table.add(row, Verdict("lost", (f"{message} is lost",)))
    table.demand(found.unknown == 0, row, f"{found.unknown} are unknown")
    table.demand(max(found.morning_wakes) <= 1, row, f"wakes in the first two minutes of a day: {found.morning_wakes}")
    for most, limit in ((found.most_per_minute, 8), (found.most_per_hour, 20), (found.most_per_day, 150)):
        table.demand(most <= limit, row, f"{most} wakes of a pane where {limit} are allowed")
    # two days are kept: from the third on it grows no more
    table.demand(max(found.rows[3:], default=0) <= 1.25 * found.rows[2], row, f"rows of the ledger: {found.rows}")
    grown = max(found.sizes[3:], default=0) - 1.25 * found.sizes[2]
    table.demand(grown <= MEGABYTE, row, f"bytes of the ledger: {found.sizes}")
    table.measures |= {
        "wakes of a pane at most": f"{found.most_per_minute}/min, {found.most_per_hour}/h, {found.most_per_day}/d",
        "ledger after each day": ", ".join(f"{size / MEGABYTE:.1f}" for size in found.sizes) + " MB",
    }
    return table


def week(directory: Path, *, days: int, hours: float, messages: int, seed: int) -> Week:
    """Live through it: so many days with the lid open for so many hours each, and so much mail in all of them."""
    clock = TurnedClock(MONDAY)
    return live(clock, _story(directory, clock, days, hours * 3600, messages, random.Random(seed)))


async def _story(
    directory: Path, clock: TurnedClock, days: int, awake: float, messages: int, chance: random.Random
) -> Week:
    found = Week()
    wakes: dict[str, list[int]] = {name: [] for name in AGENTS}
    async with WholeEngine(directory, clock, AGENTS, poll_interval=5.0) as engine:
        lives = [asyncio.ensure_future(_works(engine, name, chance, wakes[name])) for name in AGENTS]
        upkeep = asyncio.ensure_future(_upkeep(engine))
        for day in range(days):
            today = messages * (day + 1) // days - messages * day // days
            at_once = int(today * OVER_NIGHT) if day else 0
            sent: dict[str, str] = {}
            for _ in range(at_once):
                _send(engine, chance, sent)
            if day:
                clock.suspend(DAY_SECONDS - awake)
                opened = engine.now
                await asyncio.sleep(120)
                found.morning_wakes += [sum(at > opened for at in wakes[name]) for name in AGENTS]
            moments = sorted(chance.uniform(0, awake - MAIL_ON_ITS_WAY - 120) for _ in range(today - at_once))
            before = 0.0
            for moment in moments:
                await asyncio.sleep(moment - before)
                before = moment
                _send(engine, chance, sent)
            await asyncio.sleep(awake - 120 - before)
            found.sent += len(sent)
            found.lost += [message for message, name in sent.items() if not _is_known(engine, name, message)]
            engine.core.prune(max(0, int(engine.tail.cursor) - 1000))
            found.sizes.append(_size(directory / "state"))
            found.rows.append(_rows(engine))
        await engine.until(lambda: not engine.ledger.unsettled(), 7200)
        for one in (*lives, upkeep):
            one.cancel()
        await asyncio.gather(*lives, upkeep, return_exceptions=True)
        waiting = "SELECT subject_key FROM wake_event WHERE status = 'open'"
        found.lost += [str(row[0]) for row in engine.ledger._db.rows(waiting)]
        found.submits = sum(len(agent.received) for agent in engine.agents.values())
        found.unknown = sum(one.outcome is Outcome.UNKNOWN for one in engine.deliveries())
    found.most_per_minute = max(_densest(times, 60_000) for times in wakes.values())
    found.most_per_hour = max(_densest(times, HOUR) for times in wakes.values())
    found.most_per_day = max(_densest(times, DAY) for times in wakes.values())
    return found


def _send(engine: WholeEngine, chance: random.Random, sent: dict[str, str]) -> None:
    name = chance.choice(AGENTS)
    other = chance.choice([one for one in AGENTS if one != name])
    # a person writes one in five; agents write in threads of many hands
    sender = "@me" if chance.random() < 0.2 else f"@{other}"
    thread = f"THREAD:{chance.randrange(200)}"
    message = engine.send(name, f"mail {len(sent)}", sender, partOfThread=thread)
    sent[message] = name


async def _works(engine: WholeEngine, name: str, chance: random.Random, wakes: list[int]) -> None:
    """An agent: woken, it works for a while, reads its mail and rests; sometimes a dialog waits for somebody."""
    agent = engine.agents[name]
    seen = 0
    while True:
        await asyncio.sleep(2)
        if len(agent.received) == seen:
            continue
        wakes += [engine.now] * (len(agent.received) - seen)
        seen = len(agent.received)
        agent.state = PresenceState.ACTIVE
        await asyncio.sleep(chance.uniform(20, 240))
        if chance.random() < 0.05:
            agent.state = PresenceState.WAITING_ON_APPROVAL
            await asyncio.sleep(chance.uniform(60, 3600))
        engine.read_all(name)
        agent.state = PresenceState.IDLE


async def _upkeep(engine: WholeEngine) -> None:
    while True:
        engine.ledger.prune(Instant(engine.now - RETENTION), 10_000)
        await asyncio.sleep(PRUNED_EVERY)


def _is_known(engine: WholeEngine, name: str, message: str) -> bool:
    return any(one.identity == f"@{name}" for one in engine.ledger.find_events(subject_key=message))


def _densest(times: list[int], period: int) -> int:
    """The most of them within any stretch of that many milliseconds."""
    most = first = 0
    for index, at in enumerate(times):
        while times[first] <= at - period:
            first += 1
        most = max(most, index - first + 1)
    return most


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("state.sqlite*"))


def _rows(engine: WholeEngine) -> int:
    tables = [row[0] for row in engine.ledger._db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return sum(int(engine.ledger._db.value(f"SELECT COUNT(*) FROM {table}")) for table in tables)
