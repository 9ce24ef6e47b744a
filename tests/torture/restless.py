"""A person who renames, closes, splits, swaps, respawns and restarts at random among twelve agents with mail."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.torture.hazards import ALMOST, LOOKED, PASTED
from tests.torture.house import OUR_MARK, House
from tests.torture.oracle import RESULTS, UNKNOWN, Found, comes_true, committed, reckon, waits_until_at_rest
from tests.torture.pen import Pen, Plan
from tests.torture.person import DEEDS, Person
from tests.torture.remedies import REMEDIES_HELP, takes_remedies
from tests.torture.report import Table, Verdict
from tests.torture.rig import SENDER, going_on
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.crash_points import Point

ABOUT: Final = (
    "Twelve agents in one tmux server, six of them with the same harness in the same directory, are found by indexes, by names"
    " of windows and of sessions, through [targets] and through subscriptions. Each has been woken once. Then a person renames,"
    " closes, splits, swaps, moves, respawns, quits and starts anew by chance, while mail comes for all; the daemon is started"
    " anew as well, and stands still between two steps of a wake, so that such things happen there. A wake may be submitted by"
    " the agent of its own identity alone, never by a neighbour, a stranger's agent or a shell; no wake twice. In the end the"
    " person does literally what each hold says: nothing may be lost."
)
ABOUT_DEEDS: Final = (
    "What the person did, and how many of these things were done while the daemon stood still between two steps of a wake for"
    " that very agent."
)
ABOUT_REMEDIES: Final = "What the holds said in the end, and whether the person's doing so ended them."

FREELY: Final = "at any time"
BETWEEN: Final = {
    LOOKED: "between look and paste",
    PASTED: "between paste and last look",
    ALMOST: "between last look and Enter",
}
MOMENTS: Final = (FREELY, *BETWEEN.values())
UNKNOWN_AGAIN: Final = 15
"""Seconds."""

PER_SECOND: Final = 1.5
EVERY: Final = 0.5
"""Seconds between two deeds at any time, on average."""

DAEMON_LIVES: Final = 20.0
"""Seconds after which the daemon is started anew, to stand still elsewhere."""

TOLD: Final = 12
"""Lines of the person's story that are printed with a violation."""


def be_restless(directory: Path, tmux: PrivateTmux, *, seconds: float, seed: int) -> list[Table]:
    """So many seconds."""
    chance = random.Random(seed)
    mail = Table("Mail for twelve agents that a person moves about", ABOUT, "messages", RESULTS)
    deeds = Table("What the person did", ABOUT_DEEDS, "deed", MOMENTS, [one.name for one in DEEDS])
    remedies = Table("Remedies taken literally", ABOUT_REMEDIES, "what the hold says", REMEDIES_HELP)
    began = time.monotonic()
    row = f"{seconds / 60:.1f} min"
    with House(directory / "restless", tmux, unknown_again=UNKNOWN_AGAIN) as house:
        person = Person(house, chance)
        _is_found(house, mail, row)
        plan = Plan(SENDER, [one.identity for one in house.agents], 1_000_000, per_second=PER_SECOND, seed=seed)
        with Pen(house.plain.graph, plan) as pen:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                _live(person, chance.choice((None, LOOKED, PASTED, ALMOST)), min(left, DAEMON_LIVES), deeds)
            pen.stop()
        daemon = house.daemon()
        person.daemon = daemon
        for agent in house.agents:
            house.send(agent, "the last one")
        takes_remedies(person, remedies, lambda: _never_came(house))
        rests = waits_until_at_rest(house, 60)
        found = reckon(house)
        found.into(mail, row)
        for message in _never_came(house):
            mail.demand(
                holds=False,
                row=row,
                broken=f"lost: its outcome is unknown, no agent ever got it:\n{house.story(message)}",
            )
        mail.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
        for wrong in _wrongs(house):
            mail.demand(holds=False, row=row, broken=wrong)
        if mail.violations or remedies.violations or deeds.violations:
            mail.violations.append(f"{row}: the person's story:\n" + "\n".join(person.story))
        mail.measures |= _measures(house, found)
    for table in (mail, deeds, remedies):
        table.seconds = time.monotonic() - began
    return [mail, deeds, remedies]


def _is_found(house: House, table: Table, row: str) -> None:
    """Everybody is woken once where its name leads: that pane counts from then on."""
    daemon = house.daemon()
    for agent in house.agents:
        house.send(agent, "found by its name, once")
    came = comes_true(lambda: _told(house) >= set(house.tenants), 60)
    table.demand(came, row, f"woken at first were only {_told(house)}")
    daemon.stop(60)


def _told(house: House) -> set[str]:
    return {one.identity for one in house.tenants.values() if one.fake.submits()}


def _live(person: Person, point: Point | None, seconds: float, deeds: Table) -> None:
    """One life of a daemon, that stands still at a point every time it comes there, or nowhere."""
    house, chance = person.house, person.chance
    if point is None:
        person.daemon, person.halt = house.daemon(), None
    else:
        person.daemon, person.halt = house.halting(point)
    daemon, halt = person.daemon, person.halt
    person.tells(f"a daemon, {f'still {BETWEEN[point]}' if point else 'as everybody has it'}")
    until = time.monotonic() + seconds
    due = time.monotonic()
    while time.monotonic() < until and daemon.process.poll() is None:
        if halt is not None and point is not None and halt.is_reached():
            whom = house.tenants[_at_the_point(house, point)]
            if chance.random() < 0.75 and not whom.is_lost:
                person.tells(f"{BETWEEN[point]} of a wake for {whom.identity}:")
                if done := person.does(whom):
                    deeds.add(done, Verdict(BETWEEN[point]))
            halt.go()
        elif time.monotonic() >= due:
            if done := person.does():
                deeds.add(done, Verdict(FREELY))
            due = time.monotonic() + chance.expovariate(1 / EVERY)
        else:
            time.sleep(0.01)
    deeds.demand(daemon.process.poll() is None, FREELY, f"the daemon ended:\n{daemon.log()[-3000:]}")
    with going_on(halt):
        daemon.stop(60)
    person.daemon = person.halt = None


def _at_the_point(house: House, point: Point) -> str:
    """Whose wake has come to the point last."""
    with closing(LedgerStore.open(house.plain.state_dir, read_only=True)) as ledger:
        row = ledger._db.row(
            "SELECT identity FROM journal JOIN delivery ON delivery.id = delivery_id"
            " WHERE step = ? ORDER BY journal.rowid DESC LIMIT 1",
            (point.step,),
        )
    assert row is not None
    return str(row["identity"])


def _never_came(house: House) -> list[str]:
    """Messages of unknown outcome that no agent has got: that may not be the last word."""
    got = "".join(text for one in house.tenants.values() for text in one.fake.submits())
    unknown = [message for (message, _), one in reckon(house).verdicts.items() if one.result == UNKNOWN]
    return [one for one in unknown if not any(teller.id in got for teller in house.tellers(one))]


def _wrongs(house: House) -> Iterator[str]:
    """What went where it may never go, besides what the oracle of all runs looks at."""
    for stranger in house.strangers.all_agents:
        if got := stranger.bytes_received():
            yield f"{stranger.name}, whom nobody asked for, got {got!r}"
    for pane in house.empty_panes():
        house.looks_at_shell(pane)
    yield from house.shells_told


def _measures(house: House, found: Found) -> dict[str, str]:
    with closing(LedgerStore.open(house.plain.state_dir, read_only=True)) as ledger:
        rows = ledger._db.rows("SELECT detail FROM journal WHERE step = 'held'")
    holds = Counter(json.loads(row["detail"]).get("reason", "") for row in rows)
    return {
        "messages": str(len(committed(house.plain.graph, house.agents))),
        "wakes that agents submitted": str(
            sum(OUR_MARK in text for one in house.tenants.values() for text in one.fake.submits())
        ),
        "agents started": str(sum(one.starts() for one in house.tenants.values())),
        "holds on the way": ", ".join(f"{reason} {times}" for reason, times in holds.most_common()),
        "dialogs that came up when Enter was on its way, and got it": str(found.overtaken),
    }
