"""Agents that swallow Enters and show pastes late, at random: what is said to be submitted was."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wake_bridge_adapters.screens.profile_file import BUNDLED

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Agent, Rig, since
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Outcome

ABOUT: Final = (
    "The profile says that the harness swallows Enters: each agent ignores none to three of them, and shows paste and keys up"
    " to 1.2 s late, as chance has it. A wake that the"
    " ledger calls submitted must have been submitted, once and alone; one that is not must be reported as `staged` or"
    " unknown. 99.9 % must be submitted without anybody's help."
)
ONCE: Final = "submitted once"
REPORTED: Final = "reported as staged"
RESULTS: Final = (ONCE, REPORTED, "unknown", "broken rule")
LANES: Final = 8
ENDS_WITHIN: Final = 120.0
"""Seconds; an attempt takes three, and what stands in a composer is looked at again each second."""


@dataclass(frozen=True, slots=True)
class Mood:
    """How an agent behaves during one wake."""

    swallows: int
    paste_delay: int
    echo_delay: int

    def __str__(self) -> str:
        return f"{self.swallows} Enters are ignored"


def moods(count: int, chance: random.Random) -> Iterator[Mood]:
    """So many, most of them with at least one Enter ignored."""
    for _ in range(count):
        yield Mood(
            chance.choice((0, 1, 1, 2, 2, 3, 3)),
            chance.choice((0, 0, 300, 1200)),
            chance.choice((0, 0, 100, 400)),
        )


def swallow(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """So many wakes."""
    rows = [str(Mood(number, 0, 0)) for number in range(4)]
    table = Table("Enters that are ignored", ABOUT, "what happens", RESULTS, rows)
    screens = directory / "screens"
    screens.mkdir()
    bundled = (BUNDLED / "fake.toml").read_text(encoding="utf-8")
    (screens / "fake.toml").write_text(bundled.replace("[paste]\n", "[paste]\nswallows_enter = true\n", 1))
    settings = f'[screens]\ndirectory = "{screens}"\n'
    with Rig(directory / "moody", tmux, [f"moody{at}" for at in range(LANES)], settings=settings) as rig:
        rig.daemon()
        lanes = [(rig, agent) for agent in rig.agents]
        run_in_lanes(table, lanes, moods(count, random.Random(seed)), run_mood)
    share = table.count(ONCE) / max(1, table.trials)
    table.demand(share >= 0.999, "all", f"only {share:.2%} were submitted without help")
    table.measures["submitted without help"] = f"{table.count(ONCE)} of {table.trials}, {share:.2%}"
    return table


def run_mood(lane: tuple[Rig, Agent], mood: Mood) -> tuple[str, Verdict]:
    """One wake."""
    rig, agent = lane
    start = len(agent.fake.records())
    agent.fake.turn(swallow_enter=mood.swallows, paste_delay=mood.paste_delay, echo_delay=mood.echo_delay)
    message = rig.send(agent, str(mood))
    standing = rig.waits_until_settled(message, ENDS_WITHIN)
    reported = standing is not None and standing.hold == "staged"
    agent.fake.turn(swallow_enter=0, paste_delay=0, echo_delay=0)
    if reported:
        # a person empties the composer: it is not typed again
        agent.clear()
        standing = rig.waits_until_settled(message, ENDS_WITHIN)
    delivery = standing.delivery if standing else None
    submits = [one["text"] for one in since(agent.fake.records(), start, "submit")]
    wrongs = []
    if delivery is None or not delivery.state.is_terminal:
        wrongs.append(f"it never ended:\n{rig.story(message)}")
    elif delivery.outcome is Outcome.SUBMITTED and submits != [delivery.digest]:
        wrongs.append(f"said to be submitted, but the agent got {submits!r}\n{rig.story(message)}")
    elif delivery.outcome is not Outcome.SUBMITTED and len(submits) > 1:
        wrongs.append(f"submitted more than once: {submits!r}")
    if since(agent.fake.records(), start, "empty-enter"):
        wrongs.append(f"an Enter met an empty composer\n{rig.story(message)}")
    agent.clear()
    outcome = delivery.outcome if delivery else None
    result = REPORTED if reported else ONCE if outcome is Outcome.SUBMITTED else "unknown"
    return str(mood), Verdict("broken rule" if wrongs else result, tuple(wrongs))
