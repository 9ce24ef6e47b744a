"""Several hosts on one graph in PostgreSQL, in pieces of a few minutes each: every trouble while mail is told.

See `tests.torture.fleet` for the hosts, `tests.torture.lease_troubles` for what happens to them, and
`tests.torture.lease_model` for the oracle.
"""

from __future__ import annotations

import random
import signal
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psycopg

from tests import namespaces
from tests.torture.fleet import Fleet, fleet_of
from tests.torture.lease_model import RESULTS, judge, told_by
from tests.torture.lease_troubles import (
    CABLES,
    CLOCKS,
    KILLS,
    LINES,
    SERVERS,
    STOPS,
    Trouble,
    Troubles,
    crash_environment,
)
from tests.torture.machine import waited_for_processor
from tests.torture.report import Table, Verdict

ABOUT: Final = (
    "Every host sees a pane of every agent. Mail is committed for all agents, and something happens to a host, its line or the"
    " database, while more mail comes. Then each message must be told once, or be one of which nobody can know; decision 15 says which"
    " may be, and the oracle proves each. Violations: told twice, told nowhere, told to another agent, an Enter without a commit"
    " of its host or later than 2 s after it, a commit under a token that was not the latest."
)
STUCK: Final = 180.0
"""Seconds without any progress after which what is still waited for counts as never told: it hangs."""

PERSON_COMES: Final = 20.0
"""Seconds without progress after which a person looks at the panes."""

MAIL_WITHIN: Final = 2.0
"""Seconds within which mail is told while a transaction is open in another database."""

PIECES: Final[Mapping[str, Troubles]] = {
    "steps": KILLS,
    "stops": STOPS,
    "lines": LINES,
    "partition": CABLES,
    "server": SERVERS,
    "clocks": CLOCKS,
    "eight": {name: one for name, one in (STOPS | LINES | SERVERS).items() if "until" not in name},
}


def strike(
    directory: Path, piece: str, *, hosts: int, agents: int, times: int, seed: int, most: int | None = None
) -> Table:
    """Each trouble of a piece so many times, with two messages for each agent.

    Args:
        directory: an empty one.
        piece: which of `PIECES`.
        hosts: how many.
        agents: how many, each with a pane on every host.
        times: how often each trouble is played.
        seed: what all chance comes from.
        most: of so many troubles at most, chosen by chance.
    """
    chance = random.Random(f"{piece} {seed}")
    troubles = PIECES[piece]
    table = Table(f"Several hosts on one graph: {piece}", ABOUT, "what happens", RESULTS, troubles)
    began = time.monotonic()
    names = [*troubles] * times
    chance.shuffle(names)
    names = names[:most]
    has = {"has_clocks": piece == "clocks", "has_cables": piece == "partition"}
    if has["has_cables"] and not namespaces.are_possible():
        table.add(names[0], Verdict("not for this machine"), len(names))
        return table
    with fleet_of(directory, hosts=hosts, agents=agents, **has) as fleet:
        for number, name in enumerate(names):
            _round(fleet, table, number, name, troubles[name], chance)
        judge(fleet, table)
    table.seconds = time.monotonic() - began
    return table


def _round(fleet: Fleet, table: Table, number: int, name: str, trouble: Trouble, chance: random.Random) -> None:
    began = time.monotonic()
    serving = fleet.serving()
    # mostly one that has something to lose
    host = chance.choice([one for one in fleet.hosts if one.name in serving] or fleet.hosts)
    if environment := crash_environment(name):
        host.restarts(environment)
    subjects = [_send(fleet, agent, number, 0, name) for agent in fleet.names]
    more = _More(fleet, number, name, random.Random(chance.random()))
    fleet.send_more = more.begin
    if not name.startswith("failover"):
        more.begin()
    trouble(fleet, host, chance)
    more.begin()
    subjects += more.ended()
    _waits_until_told(fleet, table, name, subjects)
    print(f"{number} {name}: {time.monotonic() - began:.1f} s", flush=True)


def _send(fleet: Fleet, agent: str, number: int, part: int, row: str) -> str:
    subject = f"{2 * number + part} for {agent}"
    while True:
        try:
            fleet.send(agent, subject, row)
        except psycopg.OperationalError:
            # the server is not there: whoever sends tries again
            time.sleep(0.1)
        else:
            return subject


class _More:
    """More mail for every agent while the trouble is played; a writer whose server is gone sends it again."""

    def __init__(self, fleet: Fleet, number: int, row: str, chance: random.Random) -> None:
        self._subjects: list[str] = []
        self._asked = (fleet, number, row, chance)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Begin, once."""
        if self._thread.ident is None:
            self._thread.start()

    def ended(self) -> Sequence[str]:
        """The subjects, once all are committed."""
        self._thread.join()
        return self._subjects

    def _run(self) -> None:
        fleet, number, row, chance = self._asked
        for agent in fleet.names:
            time.sleep(chance.random() * 4 / len(fleet.names))
            self._subjects.append(_send(fleet, agent, number, 1, row))


def _waits_until_told(fleet: Fleet, table: Table, row: str, subjects: Sequence[str]) -> None:
    """Return when each is told, or nobody can know of it; however long that takes, as long as something goes on."""
    since, before, helped = time.monotonic(), -1, False
    while True:
        looked = time.monotonic()
        told = told_by(fleet)
        missing = [one for one in subjects if fleet.sent[one].id not in told]
        if missing:
            unknown = fleet.unknown()
            missing = [one for one in missing if fleet.sent[one].id not in unknown]
        if missing and fleet.left_behind:
            known = {one for (one,) in fleet.rows("SELECT id FROM wake_bridge.nodes")}
            missing = [one for one in missing if fleet.sent[one].id in known]
        if not missing:
            return
        if len(missing) != before:
            since, before, helped = time.monotonic(), len(missing), False
        waited = time.monotonic() - since
        if waited > PERSON_COMES and not helped:
            fleet.clear_composers()
            helped = True
        if waited > STUCK:
            table.demand(holds=False, row=row, broken=f"never told: {missing} {fleet.standing()}")
            return
        # a look is a load of its own
        time.sleep(max(0.2, 3 * (time.monotonic() - looked)))


def stand_still(directory: Path, *, seconds: float, every: float, hosts: int, agents: int) -> Table:
    """One daemon is stopped for that long while mail comes for its agents every so many seconds; then it goes on."""
    row = f"SIGSTOP of a daemon for {seconds:.0f} s"
    table = Table("Several hosts on one graph: a long standstill", ABOUT, "what happens", RESULTS, [row])
    began = time.monotonic()
    with fleet_of(directory, hosts=hosts, agents=agents) as fleet:
        serving = fleet.serving()
        host = max(fleet.hosts, key=lambda one: serving.get(one.name, 0))
        number = _mail(fleet, table, row, 0)
        host.daemon.process.send_signal(signal.SIGSTOP)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            round_ends = time.monotonic() + every
            number = _mail(fleet, table, row, number)
            time.sleep(max(0.0, min(round_ends, until) - time.monotonic()))
        _send_all(fleet, row, number)
        host.daemon.process.send_signal(signal.SIGCONT)
        for after in range(number, number + 3):
            _mail(fleet, table, row, after + 1)
        judge(fleet, table)
    table.seconds = time.monotonic() - began
    return table


def _mail(fleet: Fleet, table: Table, row: str, number: int) -> int:
    _waits_until_told(fleet, table, row, _send_all(fleet, row, number))
    return number + 1


def _send_all(fleet: Fleet, row: str, number: int) -> list[str]:
    return [_send(fleet, agent, number, 0, row) for agent in fleet.names]


def wait_for_nobody(directory: Path, *, seconds: float, hosts: int, agents: int) -> Table:
    """A transaction stays open in another database of the server; each message must be told within two seconds."""
    row = f"a transaction open for {seconds:.0f} s in another database"
    about = f"{ABOUT} Here each message must also be told within {MAIL_WITHIN:.0f} s, without the time in which other programs had the processor."
    table = Table("Several hosts on one graph: an open transaction", about, "what happens", RESULTS, [row])
    began = time.monotonic()
    took: list[tuple[float, float]] = []
    with fleet_of(directory, hosts=hosts, agents=agents) as fleet:
        with psycopg.connect(fleet.server.url) as other:
            other.execute("SELECT pg_current_xact_id()")
            number = 0
            while time.monotonic() - began < seconds or number < 2:
                took += [_time_of(fleet, table, agent, number, row) for agent in fleet.names]
                number += 1
            lasted = time.monotonic() - began
        judge(fleet, table)
    whole, own = ([one[which] for one in took] for which in (0, 1))
    figures = (statistics.median(whole), max(whole), max(own))
    table.measures |= {
        "open for": f"{lasted:.0f} s",
        "told behind it": "after {:.2f} s, at most {:.2f} s; {:.2f} s without other programs".format(*figures),
    }
    table.seconds = time.monotonic() - began
    return table


def _time_of(fleet: Fleet, table: Table, agent: str, number: int, row: str) -> tuple[float, float]:
    """Seconds until it was told, and without those in which other programs had the processor."""
    processes = _processes(fleet, agent)
    waited, sent_at = sum(map(waited_for_processor, processes)), time.time()
    subject = _send(fleet, agent, number, 0, row)
    _waits_until_told(fleet, table, row, [subject])
    message = fleet.sent[subject].id
    submits = (one for each in fleet.submits.values() for one in each if message in one["messages"])
    took = min((float(one["at"]) / 1000 for one in submits), default=time.time()) - sent_at
    waited = sum(map(waited_for_processor, processes)) - waited
    table.demand(
        took - waited <= MAIL_WITHIN, row, f"{subject} was told after {took:.2f} s, {waited:.2f} s of it waited"
    )
    return took, max(0.0, took - waited)


def _processes(fleet: Fleet, agent: str) -> list[int]:
    """Everything that a message for that agent passes through, but for the server's own processes."""
    found = [host.daemon.pid for host in fleet.hosts]
    found += [host.world.tmux.server_pid for host in fleet.hosts]
    return [*found, *(int(host.agents[agent].pane.pane_pid or 0) for host in fleet.hosts)]
