"""One trial with a hazard: how it goes, and the rules that hold whatever the hazard is.

What was submitted is the digest, alone and once; nobody's dialog is answered; no shell and no other agent gets a byte; what
cannot be decided is unknown; all else arrives in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.torture.report import Verdict
from tests.torture.rig import Agent, Rig, Standing, going_on, since
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.domain.delivery import Outcome
from wake_bridge.testing.crash_points import Halt, Point

ONCE: Final = "submitted once"
HELD_THEN_ONCE: Final = "held, then submitted once"
HELPED: Final = "left staged, sent by a person"
UNKNOWN: Final = "unknown"
RESULTS: Final = (ONCE, HELD_THEN_ONCE, HELPED, UNKNOWN, "broken rule")


@dataclass(slots=True)
class Bout:
    """One trial under way."""

    rig: Rig
    agent: Agent
    message: str
    start: int
    halt: Halt | None

    def reach(self) -> None:
        """Wait until the daemon stands still."""
        assert self.halt is not None
        self.halt.waits_until_reached()

    def waits_for_hold(self, reason: str, timeout: float = 40) -> Standing | None:
        """How the message stands once it is held for that reason."""
        with going_on(self.halt):
            return self.rig.waits_for(self.message, lambda one: one.is_settled or one.hold == reason, timeout)

    def waits_for_end(self, timeout: float = 40) -> Standing | None:
        """How it stands at its end; what is left to a person is sent by one."""
        with going_on(self.halt):
            return self.rig.waits_with_help(self.message, lambda one: one.is_settled, timeout)


Strike = Callable[[Bout], None]


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing that can happen.

    Attributes:
        name: the row.
        expected: what may come of it.
        strike: does it and takes it away again; raises `AssertionError` when a rule of its own is broken.
        at: where the daemon stands still meanwhile; None where the harness itself is the hazard.
    """

    name: str
    expected: Sequence[str]
    strike: Strike
    at: Point | None = None

    def __str__(self) -> str:
        return self.name


def run_hazard(rig: Rig, hazard: Hazard) -> tuple[str, Verdict]:
    """One trial in a rig with one agent that is started before a shell."""
    (agent,) = rig.agents
    agent.clear()
    start = len(agent.fake.records())
    message = rig.send(agent, f"hazard: {hazard.name}")
    daemon, halt = _daemon(rig, hazard)
    bout = Bout(rig, agent, message, start, halt)
    try:
        hazard.strike(bout)
        standing = bout.waits_for_end()
        wrongs = list(_wrongs(bout, standing))
    except AssertionError as rule:
        standing, wrongs = rig.standing(message), [str(rule)]
    finally:
        with going_on(halt):
            daemon.stop(60)
        _recover(agent)
    result = _result(bout, standing)
    if not wrongs and result not in hazard.expected:
        wrongs.append(f"{result} instead of {' or '.join(hazard.expected)}")
    shown = tuple(f"{one}\n{rig.story(message)}\n{daemon.log()[-1500:]}" for one in wrongs)
    return hazard.name, Verdict("broken rule" if wrongs else result, shown)


def _daemon(rig: Rig, hazard: Hazard) -> tuple[DaemonProcess, Halt | None]:
    return rig.halting(hazard.at) if hazard.at is not None else (rig.daemon(), None)


def _recover(agent: Agent) -> None:
    agent.fake.turn(swallow_enter=0, paste_delay=0, echo_delay=0, dialog_after_paste=False)
    agent.clear()


def _result(bout: Bout, standing: Standing | None) -> str:
    delivery = standing.delivery if standing else None
    if delivery is None or not delivery.state.is_terminal:
        return "still held"
    if delivery.outcome is Outcome.UNKNOWN:
        return UNKNOWN
    if delivery.id in bout.rig.helped:
        return HELPED
    was_held = any(
        entry.step == "held" and entry.detail.get("reason") == "staged" for entry in bout.rig.journal(delivery.id)
    )
    return HELD_THEN_ONCE if was_held else ONCE


def _wrongs(bout: Bout, standing: Standing | None) -> Iterator[str]:
    """How the rules for all were broken."""
    received = bout.agent.fake.records()[bout.start :]
    delivery = standing.delivery if standing else None
    submits = [one["text"] for one in since(received, 0, "submit")]
    if delivery is None:
        yield "lost"
        return
    if delivery.outcome is Outcome.SUBMITTED and submits != [delivery.digest]:
        yield f"said to be submitted, but the agent got {submits!r}"
    if delivery.outcome is Outcome.UNKNOWN and len(submits) > 1:
        yield f"submitted more than once: {submits!r}"
    yield from (
        f"the agent saw a {event!r}" for event in ("approved", "shell", "empty-enter") if since(received, 0, event)
    )
    if left := list(bout.rig.work.iterdir()):
        yield f"a command was run: {left}"
