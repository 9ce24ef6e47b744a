"""kill -9 right before and right after every journalled step: what becomes of the wake.

A trial sends a message, runs a daemon that dies at its point, then a plain one until the delivery has ended. Judged are
what the agent received and what the ledger says, never what a daemon claims.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.torture.oracle import RESULTS as RESULTS_UNDER_LOAD
from tests.torture.oracle import reckon, waits_until_at_rest
from tests.torture.pen import Pen, Plan
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import POLL, SENDER, STARTS_WITHIN, Agent, Rig, since
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.testing.crash_points import WHENS, Halt, Point
from wake_bridge.testing.memory_core import MemoryCore

LEASE: Final = 4
"""Seconds that the dead daemon's lease runs on."""

LANES: Final = 8
LONGEST_LIFE: Final = 4.0
"""Seconds that a daemon under load lives at most: twice what a wake takes."""

PER_SECOND: Final = 50
"""Messages under load."""

DRAFT: Final = "half a thought"
LIFE: Final = (
    "matched",
    "opened",
    "joined",
    "dispatched",
    "held",
    "locked",
    "probed",
    "intent_stage",
    "refused",
    "released",
    "staged",
    "intent_submit",
    "submitted",
    "settled",
    "acked",
)
"""Every step, in the order of a delivery's life."""

ONCE: Final = "submitted once"
HELPED: Final = "left staged, sent by a person"
UNKNOWN: Final = "unknown"
RESULTS: Final = (ONCE, HELPED, UNKNOWN, "still held", "twice", "lost")

ABOUT_STEPS: Final = (
    "A message is sent, the daemon is killed right before or right after the step is on disk, and the next daemon goes on"
    " until the delivery has ended. *submitted once*: the agent got the digest, whole and alone, exactly once, and the ledger"
    " says so. *left staged*: Enter may have been pressed and the text stands there still; no second one is sent, a person is"
    " told and presses it. *unknown*: the ledger says that it cannot be known, and the agent got it once at most. *lost*: the"
    " ledger has lost the event, or says submitted and it was not. Unknown is the answer where a paste may be on its way and"
    " never shows, and in two rows that take away what could decide it."
    " (These daemons are forked from a process that has imported the program, so that a thousand of them can be started.)"
)
ABOUT_LOAD: Final = (
    "A writer process commits 50 messages a second for four agents while one daemon after the other is killed within 4 s,"
    " every other one of them within 4 s of its opening the graph; then one is left alone until everything has ended. Each"
    " message is a trial: graph, panes and ledger are compared."
)

Scene = Callable[[Rig, Agent, Point], list[str]]
"""Brings a daemon to its death; answers the messages that were sent."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kind of death: at which point, in which scene, and what happens before the next daemon starts."""

    point: Point
    scene: Scene
    aftermath: str = ""

    def __str__(self) -> str:
        return f"{self.point.step} · {self.point.when}" + (f", then {self.aftermath}" if self.aftermath else "")

    @property
    def expected(self) -> str:
        """What must come of it: what may have been sent is not sent again, and nothing is left to find of some."""
        if self.aftermath or str(self.point) in {"intent_stage:after", "refused:before"}:
            return UNKNOWN
        return HELPED if str(self.point) == "intent_submit:after" else ONCE


def every_kill() -> list[Kill]:
    """Each step, before and after; and the two that leave nothing to decide by."""
    scenes = {"joined": joining, "acked": acknowledging, "refused": refusing, "released": refusing}
    kills = [Kill(Point(step, when), scenes.get(step, plainly)) for step in LIFE for when in WHENS]
    return [
        *kills,
        Kill(Point("intent_submit", "after"), plainly, "the composer is cleared"),
        Kill(Point("submitted", "before"), plainly, "the transcript scrolls away"),
    ]


def kill_at_steps(directory: Path, tmux: PrivateTmux, *, times: int, seed: int, lanes: int = LANES) -> Table:
    """Every kill so many times, in any order."""
    table = Table("kill -9 at each journalled step", ABOUT_STEPS, "step", RESULTS, map(str, every_kill()))
    kills = every_kill() * times
    random.Random(seed).shuffle(kills)
    with ExitStack() as stack:
        rigs = [
            stack.enter_context(Rig(directory / f"kill{at}", tmux, [f"kill{at}"], lease=LEASE, is_born=True))
            for at in range(lanes)
        ]
        run_in_lanes(table, rigs, kills, run_kill)
    return table


def kill_at_random(directory: Path, tmux: PrivateTmux, *, kills: int, seed: int) -> Table:
    """Daemons killed at random moments of their lives, while messages keep coming for four agents."""
    table = Table("kill -9 at random moments under load", ABOUT_LOAD, "messages", RESULTS_UNDER_LOAD)
    chance = random.Random(seed)
    start = time.monotonic()
    with Rig(directory / "load", tmux, [f"load{at}" for at in range(4)], lease=LEASE) as rig:
        names = [one.identity for one in rig.agents]
        plan = Plan(SENDER, names, messages=1_000_000, per_second=PER_SECOND, seed=seed, subject="under load")
        with Pen(rig.plain.graph, plan) as pen:
            for number in range(kills):
                # every other one is let start first: on a busy machine its life would be over before it has begun
                daemon = rig.starting()
                if number % 2 == 0:
                    daemon.waits_for_log("graph_opened", timeout=STARTS_WITHIN)
                time.sleep(chance.uniform(0.0, LONGEST_LIFE))
                daemon.kill()
            sent = pen.stop()
        last = rig.daemon()
        rests = waits_until_at_rest(rig, 120, is_helped=True)
        table.seconds = time.monotonic() - start
        row = f"{kills} kills"
        reckon(rig, sent).into(table, row)
        table.demand(rests, row, f"it never comes to rest\n{last.log()[-3000:]}")
        table.measures |= {
            "messages a second, as they came": f"{len(sent) / table.seconds:.0f}",
            "wakes submitted": str(sum(len(one.fake.submits()) for one in rig.agents)),
        }
    return table


def run_kill(rig: Rig, kill: Kill) -> tuple[str, Verdict]:
    """One trial in a rig with one agent."""
    try:
        return str(kill), _run(rig, kill)
    finally:
        rig.rest()


def _run(rig: Rig, kill: Kill) -> Verdict:
    (agent,) = rig.agents
    agent.clear()
    start = len(agent.fake.records())
    messages = kill.scene(rig, agent, kill.point)
    _come_after(agent, kill.aftermath)
    daemon = rig.daemon()
    wants_proof = Proof.ACKNOWLEDGED if kill.point.step == "acked" else Proof.NONE
    for message in messages:
        rig.waits_with_help(message, lambda one: one.is_settled and one.proof >= wants_proof, 60)
    exit_code = daemon.stop(60)
    verdict = judged(rig, agent, messages, start)
    violations = list(verdict.violations)
    if exit_code:
        violations.append(f"the next daemon ended with {exit_code}:\n{daemon.log()[-2000:]}")
    if not violations and verdict.result != kill.expected:
        violations.append(f"{verdict.result}, not {kill.expected}:\n{_stories(rig, messages)}")
    return Verdict(verdict.result, tuple(violations))


def judged(rig: Rig, agent: Agent, messages: Sequence[str], start: int) -> Verdict:
    """What came of some messages to one agent, whose log stood at `start` before."""
    violations = [why for message in messages for why in _wrongs(rig, agent, message)]
    received = agent.fake.records()
    stray = [one["event"] for kind in ("empty-enter", "shell", "approved") for one in since(received, start, kind)]
    if stray:
        violations.append(f"keys went astray: {stray}\n{_stories(rig, messages)}")
    worst = max((_result(rig, agent, message) for message in messages), key=RESULTS.index)
    return Verdict(worst, tuple(violations))


def _result(rig: Rig, agent: Agent, message: str) -> str:
    standing = rig.standing(message)
    if standing is None:
        return "lost"
    submits = [agent.submits_of(one.id) for one in rig.tellers(message)]
    if sum(submits) > 1:
        return "twice"
    delivery = standing.delivery
    if delivery is None:
        return "lost"
    if not delivery.state.is_terminal:
        return "still held"
    if delivery.outcome is Outcome.UNKNOWN:
        return UNKNOWN
    if delivery.outcome is not Outcome.SUBMITTED or sum(submits) != 1:
        return "lost"
    return HELPED if delivery.id in rig.helped else ONCE


def _wrongs(rig: Rig, agent: Agent, message: str) -> list[str]:
    result = _result(rig, agent, message)
    wrongs = [f"{result}:\n{rig.story(message)}"] if result in {"twice", "lost"} else []
    for delivery in rig.tellers(message):
        other = [text for text in agent.fake.submits() if delivery.id in text and text != delivery.digest]
        wrongs += [f"submitted was not the digest but {text!r}" for text in other]
    return wrongs


def _stories(rig: Rig, messages: Sequence[str]) -> str:
    return "\n".join(rig.story(message) for message in messages)


# -- scenes ----------------------------------------------------------------------------------------------------------


def plainly(rig: Rig, agent: Agent, point: Point) -> list[str]:
    """A message to an idle agent."""
    message = rig.send(agent, f"dies at {point}")
    _dies(rig.dying(point), point)
    return [message]


def joining(rig: Rig, agent: Agent, point: Point) -> list[str]:
    """A second message, while the first is held because the agent is at work."""
    agent.fake.shows("busy")
    first = rig.send(agent, f"first, dies at {point}")
    daemon = rig.dying(point)
    rig.waits_for(first, lambda standing: standing.hold == "active", 40)
    second = rig.send(agent, f"second, dies at {point}")
    _dies(daemon, point)
    agent.clear()
    return [first, second]


def acknowledging(rig: Rig, agent: Agent, point: Point) -> list[str]:
    """The mail is read after the wake."""
    message = rig.send(agent, f"dies at {point}")
    daemon = rig.dying(point)
    rig.waits_until_settled(message)
    with MemoryCore(rig.plain.graph) as core:
        core.mark_read(message)
    _dies(daemon, point)
    return [message]


def refusing(rig: Rig, agent: Agent, point: Point) -> list[str]:
    """Somebody writes between the look and the paste, which is refused; the draft stays as it is until it is cleared."""
    message = rig.send(agent, f"dies at {point}")
    daemon, halt = rig.halting(Point("intent_stage", "after"), dying_at=point)
    halt.waits_until_reached()
    agent.fake.shows("draft", DRAFT)
    halt.go()
    _dies(daemon, point, halt)
    left = agent.fake.state()["composer"]
    assert left == DRAFT, f"the draft became {left!r}"
    agent.clear()
    return [message]


def _dies(daemon: DaemonProcess, point: Point, halt: Halt | None = None) -> None:
    deadline = time.monotonic() + 60
    while daemon.process.poll() is None:
        if halt is not None and halt.is_reached():
            halt.go()
        assert time.monotonic() < deadline, f"it never came to {point}:\n{daemon.log()[-3000:]}"
        time.sleep(POLL)
    assert daemon.process.returncode == -signal.SIGKILL, f"it ended otherwise:\n{daemon.log()[-3000:]}"


def _come_after(agent: Agent, aftermath: str) -> None:
    if aftermath == "the composer is cleared":
        agent.clear()
    elif aftermath == "the transcript scrolls away":
        agent.fake.control(say="\n".join(f"answer {number}" for number in range(60)))
