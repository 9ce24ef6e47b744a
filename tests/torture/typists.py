"""A person at the keys while a wake comes in, at every moment of it; `draft_rule` says how that is judged."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.torture.draft_rule import (
    IN_A_RACE,
    POINTS,
    RESULTS,
    STAGED,
    Attack,
    aimed_attacks,
    judge,
    random_attacks,
    row_of,
)
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Agent, Rig, Standing, going_on
from wake_bridge.demo.tmux_server import PrivateTmux, Typist
from wake_bridge.domain.delivery import Outcome
from wake_bridge.testing.crash_points import Halt

RESULTS_BESIDE: Final = ("submitted once", "broken rule")

LANES: Final = 8
"""Trials under way at once."""

ABOUT_RANDOM: Final = (
    "A real client types into the agent's pane at a random moment within 0.9 s of a committed message; a third of the keys"
    " are echoed 0.2 to 1.5 s late. Judged are the agent's own log of bytes, pastes and submits, its composer, and what the"
    " ledger reports. Afterwards the composer is cleared, and the wake must have been submitted exactly once in the end; staged text that"
    " was cleared with it must be `unknown`, and never come again."
)
ABOUT_CHOSEN: Final = (
    "The daemon stands still at that moment, the key comes 0.3 s before it goes on, or in a race with it (30 ms before to"
    " 12 ms after). Judged as above."
)
ABOUT_BESIDE: Final = (
    "The client types without a pause into a pane beside the agent's: the wake must arrive all the same."
)

QUIET: Final = 3.6
"""Seconds without a key after which a wake of an idle, watched pane goes out at once."""

SETTLED_DOWN: Final = 0.8
"""Seconds after the key from which on a hold counts as the answer to it."""


@dataclass(slots=True)
class Seat:
    """An agent, and a person at a client of its session."""

    rig: Rig
    agent: Agent
    typist: Typist


def type_at_random(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """Keys at random phases of the wake; all agents are served by one daemon."""
    table = Table("A typist at random moments of the wake", ABOUT_RANDOM, "the key came in", RESULTS)
    with Rig(directory / "random", tmux, [f"random{number}" for number in range(LANES)]) as rig:
        seats = [_seat(rig, agent) for agent in rig.agents]
        rig.daemon()
        run_in_lanes(table, seats, random_attacks(count, random.Random(seed)), run_attack)
    return table


def type_at_chosen_moments(directory: Path, tmux: PrivateTmux, *, times: int, seed: int) -> Table:
    """`times` keys at each of `POINTS`."""
    table = Table(
        "A typist at chosen moments of the wake",
        ABOUT_CHOSEN,
        "the key came in",
        RESULTS,
        [name + race for name in POINTS for race in ("", IN_A_RACE)],
    )
    attacks = [attack for aim in POINTS for attack in aimed_attacks(times, aim, random.Random(f"{seed} {aim}"))]
    with ExitStack() as stack:
        rigs = [
            stack.enter_context(Rig(directory / f"aimed{at}", tmux, [f"aimed{at}"], is_born=True))
            for at in range(LANES // 2)
        ]
        run_in_lanes(table, [_seat(rig, rig.agents[0]) for rig in rigs], attacks, run_attack)
    return table


def type_beside(directory: Path, tmux: PrivateTmux, *, count: int) -> Table:
    """A person who types without a pause in another pane of the same window."""
    table = Table("A typist in another pane of the window", ABOUT_BESIDE, "wakes", RESULTS_BESIDE)
    with Rig(directory / "beside", tmux, [f"beside{number}" for number in range(LANES // 2)]) as rig:
        for agent in rig.agents:
            tmux.run("split-window", "-t", agent.pane_id, "cat")
        seats = [_seat(rig, agent) for agent in rig.agents]
        rig.daemon()
        run_in_lanes(table, seats, range(count), run_beside)
    return table


def _seat(rig: Rig, agent: Agent) -> Seat:
    typist = rig.tmux.attach(agent.session, 100, 25)
    typist.waits_until_shown()
    return Seat(rig, agent, typist)


def run_attack(seat: Seat, attack: Attack) -> tuple[str, Verdict]:
    """One wake with a person at the keys, and then without: in the end it must have been submitted once.

    An attack that is aimed has a daemon of its own; the others need one that runs already.
    """
    if not attack.aim:
        return _run(seat, attack, None)
    daemon, halt = seat.rig.halting(POINTS[attack.aim])
    try:
        return _run(seat, attack, halt)
    finally:
        with going_on(halt):
            daemon.stop(60)


def _run(seat: Seat, attack: Attack, halt: Halt | None) -> tuple[str, Verdict]:
    agent, rig = seat.agent, seat.rig
    agent.fake.turn(echo_delay=attack.echo_delay)
    time.sleep(QUIET)
    start = len(agent.fake.records())
    message = rig.send(agent, f"typed {attack.keys!r}")
    if halt is None:
        time.sleep(attack.after)
        pressed = seat.typist.types(attack.keys)
    else:
        halt.waits_until_reached()
        pressed = _race(seat.typist, halt, attack)
    standing = _answer(seat, message, pressed, attack, halt)
    received = agent.fake.records()[start:]
    composer = agent.fake.state()["composer"]
    result, wrongs = judge(attack, received, composer, standing)
    row = row_of(attack, received)
    wrongs += _afterwards(seat, message, halt, is_staged=result == STAGED)
    shown = [f"{one}\n  composer {composer!r}\n{_told(received)}\n{rig.story(message)}" for one in wrongs]
    return row, Verdict("broken rule" if wrongs else result, tuple(shown))


def _race(typist: Typist, halt: Halt, attack: Attack) -> float:
    """Press the keys shortly before or after the daemon goes on; when they were pressed."""
    if attack.after < 0:
        halt.go()
        time.sleep(-attack.after)
        return typist.types(attack.keys)
    pressed = typist.types(attack.keys)
    time.sleep(attack.after)
    halt.go()
    return pressed


def _answer(seat: Seat, message: str, pressed: float, attack: Attack, halt: Halt | None) -> Standing | None:
    """How the message stands once the bridge has had its say about the key."""
    earliest = pressed + SETTLED_DOWN + attack.echo_delay / 1000

    def is_said(standing: Standing) -> bool:
        return time.time() > earliest and (standing.is_settled or standing.hold in {"userTyping", "staged"})

    with going_on(halt):
        return seat.rig.waits_for(message, is_said, 12)


def _afterwards(seat: Seat, message: str, halt: Halt | None, *, is_staged: bool) -> list[str]:
    """The person goes away and leaves an empty composer: now the wake must come, or have come, once.

    Where our text stood staged, it was taken away with what else stood there: nobody can tell that from a submit, so it is
    unknown, and the text never pasted again (decision 10).
    """
    agent = seat.agent
    with going_on(halt):
        agent.clear()
        agent.fake.turn(echo_delay=0)
        standing = seat.rig.waits_until_settled(message)
    agent.clear()
    delivery = standing.delivery if standing else None
    if delivery is None:
        return ["in the end it is lost"]
    times = agent.submits_of(delivery.id)
    if is_staged and delivery.outcome is Outcome.UNKNOWN:
        return [] if times == 0 else [f"in the end it is unknown, and was submitted {times} times"]
    if delivery.outcome is not Outcome.SUBMITTED:
        return [f"in the end it is {delivery.outcome}"]
    return [] if times == 1 else [f"in the end it was submitted {times} times"]


def _told(received: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(f"  {one}" for one in received)


# -- a person in another pane ----------------------------------------------------------------------------------------


def run_beside(seat: Seat, trial: int) -> tuple[str, Verdict]:
    """One wake while a person types without a pause in another pane of the same window: it arrives all the same."""
    message = seat.rig.send(seat.agent, f"beside {trial}")
    with _typing(seat.typist):
        standing = seat.rig.waits_until_settled(message, 15)
    delivery = standing.delivery if standing else None
    name = "while keys go to the pane beside"
    arrived = delivery is not None and delivery.outcome is Outcome.SUBMITTED
    times = seat.agent.submits_of(delivery.id) if delivery is not None else 0
    if arrived and times == 1:
        return name, Verdict(RESULTS_BESIDE[0])
    return name, Verdict("broken rule", (f"{times} submits\n{seat.rig.story(message)}",))


@contextmanager
def _typing(typist: Typist) -> Iterator[None]:
    ended = threading.Event()

    def type_on() -> None:
        while not ended.wait(0.12):
            typist.types("word ")

    hand = threading.Thread(target=type_on)
    hand.start()
    try:
        yield
    finally:
        ended.set()
        hand.join()
