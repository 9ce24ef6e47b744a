"""A person at the keys while a wake comes in: the draft rule of DESIGN §11, at every moment of the wake.

If the key precedes the condition, the draft is byte-identical and nothing of ours is there; if it follows the paste, our
text is staged, unsubmitted, reported; the two are never submitted together. A key after Enter is the next draft.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Agent, Rig, Standing, since
from wake_bridge.domain.delivery import Outcome
from wake_bridge.testing.crash_points import Halt, Point
from wake_bridge.testing.fake_harness.keys import PASTE_END, PASTE_START
from wake_bridge.testing.tmux_server import PrivateTmux
from wake_bridge.testing.typist import Typist

REFUSED: Final = "refused, draft intact"
STAGED: Final = "staged, unsubmitted, reported"
AFTER: Final = "submitted alone, key after it"
BY_PERSON: Final = "the person's Enter sent ours"
RESULTS: Final = (REFUSED, STAGED, AFTER, BY_PERSON, "broken rule")
RESULTS_BESIDE: Final = ("submitted once", "broken rule")

LANES: Final = 8
"""Trials under way at once."""

QUIET: Final = 3.6
"""Seconds without a key after which a wake of an idle, watched pane goes out at once."""

LONGEST_WAKE: Final = 0.9
"""Seconds from a committed message to what follows its Enter, in a pane that is watched."""

SETTLED_DOWN: Final = 0.8
"""Seconds after the key from which on a hold counts as the answer to it."""

POINTS: Final = {
    "between look and paste": Point("intent_stage", "after"),
    "between paste and the last look": Point("staged", "after"),
    "between the last look and Enter": Point("intent_submit", "after"),
    "right after Enter": Point("submitted", "before"),
}
HEAD_STARTS: Final = (0.3, 0.0, -0.004, 0.004, -0.012, 0.03)
"""Seconds from the key to the daemon's going on: enough for the key to be first, then a race that either may win."""

IN_A_RACE: Final = ", in a race"


@dataclass(frozen=True, slots=True)
class Attack:
    """What a person does during one wake.

    Attributes:
        after: seconds from the committed message to the keys; or, where the daemon stands still, from the keys to its
            going on, negative for keys that come after that.
        keys: what is typed, at once.
        echo_delay: milliseconds until the agent shows it.
        aim: the moment at which the daemon stands still; empty for none.
    """

    after: float
    keys: str
    echo_delay: int = 0
    aim: str = ""

    @property
    def visible(self) -> str:
        """What of the keys is text."""
        return self.keys if self.keys.isalpha() else ""


@dataclass(slots=True)
class Seat:
    """An agent, and a person at a client of its session."""

    rig: Rig
    agent: Agent
    typist: Typist


def random_attacks(count: int, chance: random.Random) -> list[Attack]:
    """Keys at random phases of the wake; a third of them shown late."""
    return [
        Attack(
            after=chance.uniform(0.0, LONGEST_WAKE),
            keys=_keys(chance),
            echo_delay=chance.choice((200, 800, 1500)) if number % 3 == 0 else 0,
        )
        for number in range(count)
    ]


def aimed_attacks(count: int, aim: str, chance: random.Random) -> list[Attack]:
    """Keys right before the daemon's next command at one of `POINTS`."""
    return [Attack(HEAD_STARTS[number % len(HEAD_STARTS)], _keys(chance), aim=aim) for number in range(count)]


def _keys(chance: random.Random) -> str:
    """Mostly a few letters; now and then a key that leaves nothing to see, or the person's own Enter."""
    if chance.random() < 0.15:
        return chance.choice(("\r", "\x1b[D", "\x1b[A"))
    return "".join(chance.choice("bcdfghjklmpqrstvwxz") for _ in range(chance.randint(1, 6)))


def type_at_random(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """Keys at random phases of the wake; all agents are served by one daemon."""
    table = Table("A typist at random moments of the wake", "the key came in", RESULTS)
    with Rig(directory / "random", tmux, [f"random{number}" for number in range(LANES)]) as rig:
        seats = [_seat(rig, agent) for agent in rig.agents]
        rig.daemon()
        run_in_lanes(table, seats, random_attacks(count, random.Random(seed)), run_attack)
    return table


def type_at_chosen_moments(directory: Path, tmux: PrivateTmux, *, times: int, seed: int) -> Table:
    """`times` keys at each of `POINTS`."""
    table = Table(
        "A typist at chosen moments of the wake",
        "the key came in",
        RESULTS,
        [name + race for name in POINTS for race in ("", IN_A_RACE)],
    )
    attacks = [attack for aim in POINTS for attack in aimed_attacks(times, aim, random.Random(f"{seed} {aim}"))]
    with ExitStack() as stack:
        rigs = [stack.enter_context(Rig(directory / f"aimed{at}", tmux, [f"aimed{at}"])) for at in range(LANES // 2)]
        run_in_lanes(table, [_seat(rig, rig.agents[0]) for rig in rigs], attacks, run_attack)
    return table


def type_beside(directory: Path, tmux: PrivateTmux, *, count: int) -> Table:
    """A person who types without a pause in another pane of the same window."""
    table = Table("A typist in another pane of the window", "wakes", RESULTS_BESIDE)
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
            daemon.stop()


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
    row = _row(attack, received)
    wrongs += _afterwards(seat, message, halt)
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


def judge(
    attack: Attack, received: Sequence[Mapping[str, Any]], composer: str, standing: Standing | None
) -> tuple[str, list[str]]:
    """What came of it by the draft rule, and how the rule was broken.

    Args:
        attack: what the person did.
        received: the agent's log of this wake.
        composer: what stands in the composer.
        standing: what the ledger says.
    """
    pastes = since(received, 0, "paste")
    submits = [one["text"] for one in since(received, 0, "submit")]
    ours = {one["text"] for one in pastes}
    hold = standing.hold if standing else "lost"
    wrongs = [f"pasted over {one['composer']!r}" for one in pastes if one["composer"]]
    wrongs += [f"submitted together: {text!r}" for text in submits if text not in ours]
    if len(submits) > 1:
        wrongs.append("submitted more than once")
    if submits:
        if composer != attack.visible:
            wrongs.append(f"after the submit there stands {composer!r}")
        return (BY_PERSON if attack.keys == "\r" and _person_sent_it(received) else AFTER), wrongs
    if pastes:
        (text,) = ours
        if composer.replace(text, "", 1) != attack.visible or text not in composer:
            wrongs.append(f"neither ours and the key's nor anything like it: {composer!r}")
        if hold != "staged":
            wrongs.append(f"staged, but reported as {hold!r}")
        return STAGED, wrongs
    if composer != attack.visible:
        wrongs.append(f"the draft became {composer!r}")
    if hold not in {"userTyping", "active", "unknown"}:
        wrongs.append(f"refused, but reported as {hold!r}")
    return REFUSED, wrongs


def _person_sent_it(received: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one Enter came in, and no second that found nothing to send."""
    return not since(received, 0, "empty-enter")


def _answer(seat: Seat, message: str, pressed: float, attack: Attack, halt: Halt | None) -> Standing | None:
    """How the message stands once the bridge has had its say about the key."""
    earliest = pressed + SETTLED_DOWN + attack.echo_delay / 1000

    def is_said(standing: Standing) -> bool:
        return time.time() > earliest and (standing.is_settled or standing.hold in {"userTyping", "staged"})

    with going_on(halt):
        return seat.rig.waits_for(message, is_said, 12)


def _afterwards(seat: Seat, message: str, halt: Halt | None) -> list[str]:
    """The person goes away and leaves an empty composer: now the wake must come, or have come, once."""
    agent = seat.agent
    with going_on(halt):
        agent.clear()
        agent.fake.turn(echo_delay=0)
        standing = seat.rig.waits_until_settled(message)
    agent.clear()
    delivery = standing.delivery if standing else None
    if delivery is None or delivery.outcome is not Outcome.SUBMITTED:
        return [f"in the end it is {delivery.outcome if delivery else 'lost'}"]
    times = agent.submits_of(delivery.id)
    return [] if times == 1 else [f"in the end it was submitted {times} times"]


@contextmanager
def going_on(halt: Halt | None) -> Iterator[None]:
    """Let the daemon go on wherever it stands still meanwhile."""
    ended = threading.Event()

    def let_go() -> None:
        while halt is not None and not ended.wait(0.005):
            if halt.is_reached():
                halt.go()

    helper = threading.Thread(target=let_go)
    helper.start()
    try:
        yield
    finally:
        ended.set()
        helper.join()


def _row(attack: Attack, received: Sequence[Mapping[str, Any]]) -> str:
    if attack.aim:
        return attack.aim + ("" if attack.after == max(HEAD_STARTS) else IN_A_RACE)
    return _phase(attack, received) + (", shown late" if attack.echo_delay else "")


def _phase(attack: Attack, received: Sequence[Mapping[str, Any]]) -> str:
    """Where among our bytes the key came in."""
    stream = b"".join(bytes.fromhex(one["hex"]) for one in since(received, 0, "bytes"))
    if attack.keys == "\r":
        return "the person's Enter"
    before, pasted, rest = stream.partition(PASTE_START)
    if not pasted or attack.keys.encode() in before:
        return "before the paste"
    gap = rest.partition(PASTE_END)[2].partition(b"\r")[0]
    return "after the paste, before Enter" if attack.keys.encode() in gap else "after Enter"


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
