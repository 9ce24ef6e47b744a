"""Several daemons for one state directory, or for one graph: one serves it, the others say who does."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.torture.oracle import comes_true, reckon, waits_until_at_rest
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import STARTS_WITHIN, Rig
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.demo.tmux_server import PrivateTmux

RACERS: Final = 3
LANES: Final = 3
ONE: Final = "one served, the others named it"
RESULTS: Final = (ONE, "broken")
ENDS: Final = {"killed": signal.SIGKILL, "ended": signal.SIGTERM}
ABOUT: Final = (
    "A message is sent, and three daemons are started at the same moment, on a state directory whose last daemon was killed or"
    " ended. Exactly one may go on; the others must end with exit code 5 and name its pid. Then that one is killed or ended."
    " In the end every message must have arrived once."
)

ABOUT_GRAPHS: Final = (
    "The same, but each of the three has a state directory and a HOME of its own, and no other lock in common than that of the"
    " graph. The one that goes on must wake for the message, once, and nobody else; then it is read, and that daemon is"
    " killed or ended."
)
ARRIVES_WITHIN: Final = 60.0
"""Seconds, on a machine that may be busy with much else."""


def race(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """So many races."""
    table = Table("Three daemons at once", ABOUT, "the last one was", RESULTS, ENDS)
    chance = random.Random(seed)
    with ExitStack() as stack:
        rigs = [stack.enter_context(Rig(directory / f"race{at}", tmux, [f"race{at}"], lease=4)) for at in range(LANES)]
        run_in_lanes(table, rigs, [chance.choice([*ENDS]) for _ in range(count)], run_race)
        for rig in rigs:
            daemon = rig.daemon()
            row = "in the end"
            table.demand(waits_until_at_rest(rig, 90), row, f"it never comes to rest\n{daemon.log()[-2000:]}")
            found = reckon(rig)
            for wrong in (*found.wrongs, *(one for verdict in found.verdicts.values() for one in verdict.violations)):
                table.demand(holds=False, row=row, broken=wrong)
            sent = sum(verdict.result == "submitted once" for verdict in found.verdicts.values())
            table.measures[f"messages of lane {rig.agents[0].session} that arrived once"] = str(sent)
    return table


def race_for_graph(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """So many races of daemons with state directories of their own."""
    table = Table("Three daemons at once for one graph", ABOUT_GRAPHS, "the last one was", RESULTS, ENDS)
    chance = random.Random(seed)
    with ExitStack() as stack:
        rigs = [
            stack.enter_context(Rig(directory / f"graph{at}", tmux, [f"graph{at}"], lease=4)) for at in range(LANES)
        ]
        run_in_lanes(table, rigs, [chance.choice([*ENDS]) for _ in range(count)], run_race_for_graph)
    return table


def run_race(rig: Rig, end: str) -> tuple[str, Verdict]:
    """One race for a state directory."""
    rig.send(rig.agents[0], f"before a race, then {end}")
    racers = [rig.starting() for _ in range(RACERS)]
    return end, _decided(racers, end, list)


def run_race_for_graph(rig: Rig, end: str) -> tuple[str, Verdict]:
    """One race for a graph."""
    agent = rig.agents[0]
    told = len(agent.fake.submits())
    rig.send(agent, f"before a race for the graph, then {end}")
    racers = [rig.starting(_own_place(rig.directory / f"racer{at}")) for at in range(RACERS)]

    def arrived_once() -> list[str]:
        if not comes_true(lambda: len(agent.fake.submits()) > told, ARRIVES_WITHIN, 0.05):
            return ["the message did not arrive"]
        rig.plain.run("inbox", agent.identity, "--consume")
        submits = len(agent.fake.submits()) - told
        return [] if submits == 1 else [f"the message was submitted {submits} times"]

    return end, _decided(racers, end, arrived_once)


def _own_place(directory: Path) -> dict[str, str]:
    """A HOME and a state directory that no other racer has."""
    directory.mkdir(exist_ok=True)
    return {"HOME": str(directory), "WAKE_BRIDGE_DAEMON_STATE_DIR": str(directory / "state")}


def _decided(racers: Sequence[DaemonProcess], end: str, also: Callable[[], list[str]]) -> Verdict:
    """Whether one of them went on, and did what it must besides; then that one is brought to its end."""
    wrongs = []

    def is_decided() -> bool:
        left = [one for one in racers if one.process.poll() is None]
        return len(left) <= 1 and all('"caught_up"' in one.log() for one in left)

    decided = comes_true(is_decided, STARTS_WITHIN, 0.05)
    left = [one for one in racers if one.process.poll() is None]
    if not decided or len(left) != 1:
        wrongs.append(f"{len(left)} went on:\n" + "\n".join(one.log()[-600:] for one in racers))
    else:
        (winner,) = left
        wrongs += [wrong for one in racers if one is not winner for wrong in _wrongs_of_loser(one, winner)]
        time.sleep(0.2)
        wrongs += also()
        if winner.process.poll() is not None:
            wrongs.append(f"the one that went on ended:\n{winner.log()[-600:]}")
    for one in left:
        one.process.send_signal(ENDS[end])
    for one in racers:
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(10)
        one.process.kill()
        one.process.wait()
    return Verdict(RESULTS[1] if wrongs else ONE, tuple(wrongs))


def _wrongs_of_loser(loser: DaemonProcess, winner: DaemonProcess) -> list[str]:
    wrongs = []
    if loser.process.returncode != 5:
        wrongs.append(f"it ended with {loser.process.returncode}, not 5:\n{loser.log()[-1000:]}")
    elif str(winner.pid) not in loser.log() or "error:" not in loser.log():
        wrongs.append(f"it did not name {winner.pid}:\n{loser.log()[-1000:]}")
    return wrongs
