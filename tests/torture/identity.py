"""Panes that are not the ones that were meant: another server, another name, a name that only begins alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.torture.oracle import RESULTS as RESULTS_IN_THE_END
from tests.torture.oracle import comes_true, reckon
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Rig
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.playground import AgentPane

ABOUT: Final = (
    "While a daemon runs, the pane it would wake is gone or is called otherwise, and an idle stranger stands where it could be"
    " mistaken for it: under its id after the server was started anew, in a session or window whose name begins like its own"
    " or was its own in another session. A message is sent. For at least two looks the stranger must not get one byte. A pane"
    " that is only called otherwise is still the agent's: the wake arrives there, once. Where the server was started anew it is"
    " held as `unreachable`, and arrives once the right pane is there again."
)
NOT_A_BYTE: Final = "the stranger untouched"
RESULTS: Final = (NOT_A_BYTE, "a byte to a stranger", "broken")
LOOKS: Final = 2.2
"""Seconds in which a hold is looked at again at least twice."""

LANES: Final = 5


@dataclass(slots=True)
class Street:
    """One tmux server, one agent that is to be woken there, and the strangers of the trial under way."""

    rig: Rig
    tmux: PrivateTmux
    number: int = 0

    def stranger(self, session: str, window: str = "") -> AgentPane:
        """An idle agent that nobody asked for."""
        self.number += 1
        stranger = AgentPane(self.tmux, self.rig.directory, f"stranger{self.number}", session=session)
        if window:
            self.tmux.run("rename-window", "-t", stranger.id, window)
        return stranger


Trap = Callable[[Street], tuple[list[AgentPane], Callable[[], object]]]
"""Puts strangers where the agent was; answers them, and what makes everything as it was."""


def renamed(street: Street) -> tuple[list[AgentPane], Callable[[], object]]:
    """The session has another name now; one that begins alike has an idle agent."""
    (agent,) = street.rig.agents
    stranger = street.stranger(f"{agent.session}-10")
    street.tmux.run("rename-session", "-t", f"={agent.session}", "elsewhere")

    def undo() -> None:
        street.tmux.run("rename-session", "-t", "=elsewhere", agent.session)
        street.tmux.run("kill-session", "-t", f"={agent.session}-10")

    return [stranger], undo


def shortened(street: Street) -> tuple[list[AgentPane], Callable[[], object]]:
    """The session has another name now; an idle agent is in one that its name begins with, and in one like a pattern."""
    (agent,) = street.rig.agents
    sessions = (agent.session[:-1], f"{agent.session}*")
    strangers = [street.stranger(one) for one in sessions]
    street.tmux.run("rename-session", "-t", f"={agent.session}", "elsewhere")

    def undo() -> None:
        street.tmux.run("rename-session", "-t", "=elsewhere", agent.session)
        for one in sessions:
            street.tmux.run("kill-session", "-t", f"={one}:")

    return strangers, undo


def in_a_window(street: Street) -> tuple[list[AgentPane], Callable[[], object]]:
    """The session has another name now; a window of another session has that name."""
    (agent,) = street.rig.agents
    stranger = street.stranger("neighbours", agent.session)
    street.tmux.run("rename-session", "-t", f"={agent.session}", "elsewhere")

    def undo() -> None:
        street.tmux.run("rename-session", "-t", "=elsewhere", agent.session)
        street.tmux.run("kill-session", "-t", "=neighbours")

    return [stranger], undo


def keep_out(directory: Path, *, count: int, seed: int) -> list[Table]:
    """`count` trials: two thirds with names, a third with a server that is started anew."""
    anew = count // 3
    return [by_name(directory, count=count - anew, seed=seed), by_id(directory, count=anew)]


def by_name(directory: Path, *, count: int, seed: int) -> Table:
    """Agents whose targets are names of sessions."""
    table = Table("Names that mean somebody else", ABOUT, "the stranger", RESULTS, TRAPS)
    chance = random.Random(seed)
    with ExitStack() as stack:
        streets = []
        for at in range(LANES):
            tmux = stack.enter_context(PrivateTmux())
            rig = stack.enter_context(Rig(directory / f"name{at}", tmux, [f"name{at}"]))
            text = rig.plain.config_file.read_text(encoding="utf-8")
            (agent,) = rig.agents
            rig.plain.config_file.write_text(text.replace(f'"{agent.pane_id}"', f'"{agent.session}"'), encoding="utf-8")
            rig.daemon()
            rig.waits_until_settled(rig.send(agent, "found by its name, once"))
            streets.append(Street(rig, tmux))
        run_in_lanes(table, streets, [chance.choice([*TRAPS]) for _ in range(count)], run_by_name)
        for street in streets:
            for wrong in reckon(street.rig).wrongs:
                table.demand(holds=False, row=f"lane {street.number}", broken=wrong)
    return table


def run_by_name(street: Street, trap: str) -> tuple[str, Verdict]:
    """One trial."""
    (agent,) = street.rig.agents
    rig = street.rig
    strangers, undo = TRAPS[trap](street)
    try:
        message = rig.send(agent, f"not for a stranger: {trap}")
        ended = rig.waits_until_settled(message)
        time.sleep(LOOKS)
        got = b"".join(one.fake.bytes_received() for one in strangers)
    finally:
        undo()
    wrongs = []
    if got:
        wrongs.append(f"a stranger got {got!r}")
    if ended is None or ended.delivery is None or agent.submits_of(ended.delivery.id) != 1:
        wrongs.append("it did not arrive once, though only the name had changed")
    shown = tuple(f"{one}\n{rig.story(message)}" for one in wrongs)
    return trap, Verdict(RESULTS[1] if got else "broken" if wrongs else NOT_A_BYTE, shown)


def by_id(directory: Path, *, count: int) -> Table:
    """Agents whose targets are pane ids, on servers that end and are started anew with strangers under the same ids."""
    row = "under its id, on a server started anew"
    table = Table("Ids that mean somebody else", ABOUT, "the stranger", RESULTS, [row])
    with ExitStack() as stack:
        streets = []
        for at in range(LANES):
            tmux = stack.enter_context(PrivateTmux())
            rig = stack.enter_context(Rig(directory / f"id{at}", tmux, [f"id{at}"]))
            rig.daemon()
            streets.append(Street(rig, tmux))
        run_in_lanes(table, streets, [row] * count, run_by_id)
        for street in streets:
            _arrives_in_the_end(street, table)
    return table


def run_by_id(street: Street, row: str) -> tuple[str, Verdict]:
    """One trial; what is sent stays held, for the agent that was meant is gone."""
    (agent,) = street.rig.agents
    street.tmux.close()
    stranger = street.stranger("anew")
    while stranger.id != agent.pane_id:
        stranger = street.stranger("anew")
    message = street.rig.send(agent, "not for who has the id now")
    held = street.rig.waits_for(message, lambda one: one.hold == "unreachable" or one.is_settled, 20)
    time.sleep(LOOKS)
    got = stranger.fake.bytes_received()
    wrongs = []
    if got:
        wrongs.append(f"a stranger got {got!r}")
    if held is None or held.hold != "unreachable":
        wrongs.append(f"held as {held.hold if held else 'lost'!r}")
    shown = tuple(f"{one}\n{street.rig.story(message)}" for one in wrongs)
    return row, Verdict(RESULTS[1] if got else "broken" if wrongs else NOT_A_BYTE, shown)


def _arrives_in_the_end(street: Street, table: Table) -> None:
    """The agent moves in again and says so: everything that was held arrives in its pane."""
    rig = street.rig
    (agent,) = rig.agents
    line = f"exec {' '.join(agent.fake.command())}"
    pane = rig.tmux.new_pane(line, session="moved")
    agent.fake.state()
    rig.plain.run("bind", agent.identity, "--pane", str(pane.pane_id))
    comes_true(lambda: not [one for one in reckon(rig).verdicts.values() if one.result == "still held"], 60)
    for key, verdict in reckon(rig).verdicts.items():
        for wrong in verdict.violations:
            table.demand(holds=False, row=RESULTS_IN_THE_END[0], broken=f"{key}: {wrong}")


TRAPS: Final[dict[str, Trap]] = {
    "in a session whose name begins alike": renamed,
    "in a session that its name begins with, and one like a pattern": shortened,
    "in a window of its name, in another session": in_a_window,
}
