"""Mail that has to be answered, between two hosts that are linked by ssh: answered on either side while something happens to them.

Judged is what the ledgers of both hosts say of each answer that was accepted, what the panes received, and what the person was told.
"""

from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.torture.hosts import (
    AGENTS,
    BLOWS,
    LANES,
    LONGEST,
    NEEDS_DISKS,
    Hosts,
    lanes_of,
    message_of,
    shuffled,
    signal_all,
)
from tests.torture.oracle import comes_true, reckon
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import SENDER, Agent
from wake_bridge.control.client import poke
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Step
from wake_bridge.testing.memory_core import MemoryCore

WITHIN: Final = 900
"""Seconds to answer in: nobody's time is over because the machine is slow."""

IGNORED_WITHIN: Final = 15
"""Seconds to answer in what nobody answers."""

SIDES: Final = (("there",), ("there",), ("here",), ("here", "there"), ())
"""Where somebody answers; nowhere is a person's in the end."""

ANSWERED: Final = "known on both"
PERSON: Final = "passed to the person"
STALE: Final = "too late, kept as stale"
UNSENT: Final = "stands unsent"
RESULTS: Final = (ANSWERED, PERSON, STALE, UNSENT, "twice", "lost", "not for this machine")

AFTER_THERE: Final = "kill -9 of the panes' daemon between an answer there and its arrival here"
AFTER_HERE: Final = "kill -9 of the graph's daemon between an answer here and its arrival there"

ABOUT: Final = (
    "Mail that has to be answered is committed to the graph of the near host for agents in panes of the far one. Each message is answered over"
    " there, under the lease that the pane was told, or here by the person, or on both, or by nobody, before, while or after something"
    " happens as above. *known on both*: either ledger has the answer. *too late*: the person had it already. *stands unsent*: a blow left"
    " the text in the composer, so nobody could answer; its host says so, and tells a person after fifteen minutes, longer than is waited"
    " here. *lost*: an answer that a command accepted is not known on one of the hosts, or a message that nobody answered never came to the"
    " person. *twice*: it was typed twice, or the person was told twice, or on both hosts."
)

_TOLD: Final = re.compile(r"wake-bridge ack ([0-9A-HJKMNP-TV-Z]{26}) --lease (\d+)")
_TOO_LATE: Final = 7


@dataclass
class Question:
    """One message that has to be answered; `accepted` are the sides whose command said that it was."""

    row: str
    message: str
    agent: Agent
    sides: Sequence[str]
    accepted: list[str] = field(default_factory=list)
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.message} for {self.agent.identity}, answered {self.accepted} of {self.sides}"

    @property
    def is_done(self) -> bool:
        """Whether whoever wanted to answer has."""
        return self.is_refused or len(self.accepted) == len(self.sides)


@dataclass
class Lane:
    """Two hosts, and all that was asked of their agents."""

    hosts: Hosts
    chance: random.Random
    asked: list[Question] = field(default_factory=list)


def answer_all(directory: Path, tmux: PrivateTmux, *, messages: int, seed: int, lanes: int = LANES) -> Table:
    """At least so many messages, each answered around something that happens."""
    names = [*BLOWS, AFTER_THERE, AFTER_HERE]
    table = Table("Mail that has to be answered on a linked host", ABOUT, "what happens", RESULTS, names)
    began = time.monotonic()
    with ExitStack() as stack:
        made = [Lane(*one) for one in lanes_of(directory, tmux, "a", seed, lanes, stack)]
        run_in_lanes(table, made, shuffled(names, messages, seed), _strike)
        for lane in made:
            _judge(table, lane)
    table.seconds = time.monotonic() - began
    return table


def _strike(lane: Lane, name: str) -> tuple[str, Verdict, int]:
    """One blow; its messages are judged at the end."""
    hosts, chance = lane.hosts, lane.chance
    if name in NEEDS_DISKS and len(hosts.disks) < 2:
        return name, Verdict("not for this machine"), 1
    asked = _ask(lane, name)
    if name in {AFTER_THERE, AFTER_HERE}:
        _kill_between(hosts, chance, asked)
    else:
        if chance.random() < 0.5:
            comes_true(lambda: all(_lease_of(hosts, one) for one in asked), LONGEST)
        people = [threading.Thread(target=_answer, args=(hosts, one, chance.random() * 4)) for one in asked]
        for one in people:
            one.start()
        time.sleep(chance.random())
        BLOWS[name](hosts, chance)
        for one in people:
            one.join()

    def is_known() -> bool:
        poke(hosts.near.state_dir)
        here, there = _Side(hosts.near), _Side(hosts.far.plain)
        return all(not one.accepted or (here.knows(one) and there.knows(one, is_far=True)) for one in asked)

    if not comes_true(is_known, LONGEST, 0.3):
        logs = f"{hosts.here.log()[-2500:]}\n{hosts.there.log()[-1500:]}"
        return name, Verdict("lost", (f"an answer is not known on both: {[*map(str, asked)]}\n{logs}",)), 0
    return name, Verdict(ANSWERED), 0


def _ask(lane: Lane, name: str) -> list[Question]:
    asked = []
    for agent in lane.chance.sample(lane.hosts.far.agents, lane.chance.randint(1, AGENTS)):
        sides = {AFTER_THERE: ("there",), AFTER_HERE: ("here",)}.get(name) or lane.chance.choice(SIDES)
        with MemoryCore(lane.hosts.near.graph) as core:
            within = WITHIN if sides else IGNORED_WITHIN
            message = core.send(SENDER, agent.identity, f"{name} {len(lane.asked)}", ackWithin=within)
        asked.append(Question(name, message, agent, sides))
        lane.asked.append(asked[-1])
    return asked


def _kill_between(hosts: Hosts, chance: random.Random, asked: Sequence[Question]) -> None:
    """Nothing passes ssh between the answers and the end of the daemon that took them."""
    comes_true(lambda: all(_lease_of(hosts, one) for one in asked), LONGEST)
    ssh = hosts.ssh()
    signal_all(ssh, signal.SIGSTOP)
    for one in asked:
        _answer(hosts, one, 0)
    daemon = hosts.there if "there" in asked[0].sides else hosts.here
    daemon.kill()
    signal_all(ssh, signal.SIGCONT)
    time.sleep(chance.random() * 3)
    if daemon is hosts.there:
        hosts.restart_there()
    else:
        hosts.restart_here()


def _lease_of(hosts: Hosts, question: Question) -> tuple[str, str] | None:
    """The delivery of the far host, and its lease as the pane was told; None while it was not."""
    mine = {one["id"] for one in _Side(hosts.far.plain).deliveries(question)}
    told = [found for text in question.agent.fake.submits() for found in _TOLD.findall(text)]
    return next((found for found in reversed(told) if found[0] in mine), None)


def _answer(hosts: Hosts, question: Question, after: float) -> None:
    """Answer on each side that is to, again and again until the command accepts it, as whoever reads its complaint does."""
    time.sleep(after)
    deadline = time.monotonic() + LONGEST
    while not question.is_done and time.monotonic() < deadline:
        for side in question.sides:
            # a command that meets a full disk or a daemon that stands still has said so
            with suppress(Exception):
                if side not in question.accepted and (words := _words(hosts, question, side)):
                    sandbox = hosts.near if side == "here" else hosts.far.plain
                    code = sandbox.run("ack", *words, expect=None).returncode
                    question.accepted += [side] if code == 0 else []
                    question.is_refused |= code == _TOO_LATE
        time.sleep(0.2)


def _words(hosts: Hosts, question: Question, side: str) -> list[str]:
    if side == "here":
        return [one["id"] for one in _Side(hosts.near).deliveries(question)][-1:]
    told = _lease_of(hosts, question)
    return [told[0], "--lease", told[1]] if told else []


class _Side:
    """What a ledger says, read once."""

    def __init__(self, sandbox: Sandbox) -> None:
        with closing(sqlite3.connect(sandbox.state_dir / "state.sqlite", timeout=30)) as ledger:
            ledger.row_factory = sqlite3.Row
            self._rows = ledger.execute(
                "SELECT subject_key, wake_event.identity AS who, delivery.* FROM wake_event"
                " JOIN delivery_event ON event_id = wake_event.id JOIN delivery ON delivery.id = delivery_event.delivery_id"
                " WHERE wake_event.subject_key LIKE 'MESSAGE:%' ORDER BY delivery.seq"
            ).fetchall()
            self._late = {
                row["delivery_id"]
                for row in ledger.execute(
                    "SELECT delivery_id FROM journal WHERE step = ? AND detail LIKE '%an answer on%'", (Step.STALE,)
                )
            }

    def deliveries(self, question: Question) -> list[sqlite3.Row]:
        """Those that told of it, oldest first."""
        key = (question.message, question.agent.identity)
        return [one for one in self._rows if (message_of(one["subject_key"]), one["who"]) == key]

    def knows(self, question: Question, *, is_far: bool = False) -> bool:
        """Whether its answer is on disk; the far host need not know of what it was never handed."""
        found = self.deliveries(question)
        is_known = any(one["proof"] >= 3 for one in found) or (not is_far and self.is_late(question))
        return is_known or (is_far and not found)

    def is_late(self, question: Question) -> bool:
        """Whether the journal keeps an answer that came too late."""
        return any(one["id"] in self._late for one in self.deliveries(question))


def _told(home: Path) -> list[Mapping[str, str]]:
    """What a person was told on a host of what nobody has answered."""
    file = home / "told"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [one for line in lines if (one := json.loads(line))["reason"] == "escalated"]


def _judge(table: Table, lane: Lane) -> None:
    hosts = lane.hosts
    ignored = [one for one in lane.asked if not one.accepted]

    def is_at_rest() -> bool:
        here, told = _Side(hosts.near), {one["subject"] for one in _told(hosts.near.home)}
        return all(told & {each["id"] for each in here.deliveries(one)} for one in ignored)

    # the deadline, a minute for a link that is down, and the looks that come every ten seconds
    comes_true(is_at_rest, LONGEST + 90)
    here, there = _Side(hosts.near), _Side(hosts.far.plain)
    told = {side: _told(home) for side, home in (("here", hosts.near.home), ("there", hosts.far.plain.home))}
    for one in lane.asked:
        table.add(one.row, _verdict(one, here, there, told))
    for wrong in reckon(hosts.far, []).wrongs:
        table.demand(holds=False, row="all", broken=wrong)


def _verdict(question: Question, here: _Side, there: _Side, told: Mapping[str, Sequence[Mapping[str, str]]]) -> Verdict:
    mine, theirs = here.deliveries(question), there.deliveries(question)
    ids = {one["id"] for one in [*mine, *theirs]}
    story = f"{question}: {[(*one,) for one in [*mine, *theirs]]}"
    typed = sum(one["id"] in text for text in question.agent.fake.submits() for one in theirs)
    # what a crash cut off comes again under the same id, by which its program knows it
    notices = {one["id"] for one in told["here"] if one["subject"] in ids}
    if typed > 1 or len(notices) > 1 or any(one["subject"] in ids for one in told["there"]):
        return Verdict("twice", (f"typed {typed} times, told {len(notices)} times: {story}",))
    if not question.accepted:
        if notices:
            return Verdict(PERSON)
        stands = not typed and theirs and (theirs[-1]["state"], theirs[-1]["hold_reason"]) == ("LOCKED", "staged")
        return Verdict(UNSENT) if stands else Verdict("lost", (f"the person never heard of it: {story}",))
    if not here.knows(question) or not there.knows(question, is_far=True):
        return Verdict("lost", (f"the answer is not known on both: {story}",))
    if notices and all(one["outcome"] != "unknown" for one in theirs):
        return Verdict("twice", (f"answered, and the person was told: {story}",))
    return Verdict(STALE if here.is_late(question) else ANSWERED)
