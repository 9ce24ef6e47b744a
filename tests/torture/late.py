"""Programs that are late at any step of a wake: nothing is sent twice because nothing was seen (decision 10)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Agent, Rig, since
from wake_bridge.demo.fake_harness.screen import PASTE_START
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Outcome

ABOUT: Final = (
    "The agent is late by so many seconds at one step, or at every one; *redraws* has a clock of its go on meanwhile, and *asks* has the"
    " turn of the wake ask for an approval at once. One paste and one Enter at most may be sent, one prompt at most may"
    " arrive, with the digest in it once, and no approval may be answered. A row says what came of it and what was sent."
)
LATENESS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 20.0)
"""Seconds."""

STEPS: Final[Mapping[str, Sequence[str]]] = {
    "reads the paste late": ("paste_read_delay",),
    "draws the paste late": ("paste_delay",),
    "reads Enter late": ("enter_read_delay",),
    "acts on Enter late": ("echo_delay",),
    "draws everything late": ("draw_delay",),
    "is late at every step": ("paste_read_delay", "paste_delay", "enter_read_delay", "echo_delay", "draw_delay"),
}
"""What turns each of them, in the fake harness."""

ALL_KNOBS: Final = STEPS["is late at every step"]
ONCE: Final = "submitted"
HELD_THEN_ONCE: Final = "held, then submitted"
LANES: Final = 10
PATIENCE: Final = 60.0
"""Seconds, beside what the program takes, in which a delivery must have ended."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table; `lateness` is in seconds."""

    step: str
    lateness: float
    redraws: bool = False
    asks: bool = False

    def __str__(self) -> str:
        more = [name for name, is_so in (("redraws", self.redraws), ("asks", self.asks)) if is_so]
        return ", ".join([f"{self.step}: {self.lateness:g} s", *more])

    @property
    def takes(self) -> float:
        """Seconds until all of it has come to pass."""
        return self.lateness * len(STEPS[self.step])

    def knobs(self) -> dict[str, int | bool]:
        """How the fake harness is turned."""
        late = dict.fromkeys(STEPS[self.step], int(self.lateness * 1000))
        return {**late, "ticks": self.redraws, "dialog_after_submit": self.asks}


def every_cell(lateness: Sequence[float] = LATENESS) -> Iterator[Cell]:
    """Lateness × step × redraws × asks."""
    for step in STEPS:
        for late in lateness:
            for redraws in (False, True):
                for asks in (False, True):
                    yield Cell(step, late, redraws, asks)


def be_late(directory: Path, tmux: PrivateTmux, cells: Sequence[Cell], *, lanes: int = LANES) -> Table:
    """One wake a cell."""
    table = Table("Programs that are late", ABOUT, "what is late", (), map(str, cells))
    with Rig(directory / "late", tmux, [f"late{at}" for at in range(min(lanes, len(cells)))]) as rig:
        rig.daemon()
        by_length = sorted(cells, key=lambda cell: -cell.takes)
        run_in_lanes(table, [(rig, agent) for agent in rig.agents], by_length, _run_cell)
    return table


def _run_cell(lane: tuple[Rig, Agent], cell: Cell) -> tuple[str, Verdict]:
    rig, agent = lane
    start = len(agent.fake.records())
    agent.fake.turn(**cell.knobs())
    message = rig.send(agent, str(cell))
    standing = rig.waits_until_settled(message, 2 * cell.takes + PATIENCE)
    time.sleep(cell.takes + 0.5)  # whatever else was sent is taken that much later
    received = agent.fake.records()[start:]
    agent.fake.turn(**dict.fromkeys(ALL_KNOBS, 0), ticks=False, dialog_after_submit=False)
    agent.clear()
    keys = b"".join(bytes.fromhex(one["hex"]) for one in since(received, 0, "bytes"))
    pastes, enters = keys.count(PASTE_START), keys.count(b"\r")
    prompts = [one["text"] for one in since(received, 0, "submit")]
    delivery = standing.delivery if standing else None
    wrongs = []
    if delivery is None or not delivery.state.is_terminal:
        wrongs.append("it never ended")
    elif delivery.outcome is Outcome.SUBMITTED and prompts != [delivery.digest]:
        wrongs.append(f"said to be submitted, but the agent got {prompts!r}")
    if pastes > 1 or enters > 1 or len(prompts) > 1 or any(text.count("Wake: ") > 1 for text in prompts):
        wrongs.append(f"doubled: {pastes} pastes, {enters} Enters, prompts {prompts!r}")
    wrongs += [f"the agent saw {one!r}" for one in ("approved", "empty-enter", "shell") if since(received, 0, one)]
    shown = tuple(f"{one}\n{rig.story(message)}" for one in wrongs)
    sent = f"{pastes} paste, {enters} Enter, {len(prompts)} prompt"
    return str(cell), Verdict(f"{_outcome(rig, message, shown)}; {sent}", shown)


def _outcome(rig: Rig, message: str, wrongs: Sequence[str]) -> str:
    standing = rig.standing(message)
    delivery = standing.delivery if standing else None
    if wrongs or delivery is None:
        return "broken rule"
    if delivery.outcome is not Outcome.SUBMITTED:
        return str(delivery.outcome)
    was_held = any(
        entry.step == "held" and entry.detail.get("reason") == "staged" for entry in rig.journal(delivery.id)
    )
    return HELD_THEN_ONCE if was_held else ONCE
