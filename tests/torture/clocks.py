"""Clocks that are set, and processes that stand still, under a real daemon."""

from __future__ import annotations

import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tests.torture.machine import waited_for_processor
from tests.torture.oracle import comes_true, reckon, waits_until_at_rest
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import SENDER, Agent, Rig
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing import set_clock
from wake_bridge.testing.memory_core import MemoryCore

WINDOW: Final = 6
"""Seconds that a wake gathers."""

LOOKS: Final = 3.0
"""Seconds that the two looks at an agent may take after a window."""

ABOUT_CLOCK: Final = (
    "The wall clock of a daemon and of all who send is set while it runs: in the middle of a window of 6 s, while another wake is held, and again"
    " back. Before and after that messages are sent. No window may end more than 1 s early, or more than 1 s and two looks"
    " late; no wake is lost, doubled, or told as a flood."
)
ABOUT_STOP: Final = (
    "The daemon is stopped (SIGSTOP) while thirty messages are sent to each of four agents, and goes on after a while. Two"
    " polls later (and one second for the machine) all of it must be in the ledger; each agent gets one digest of all thirty;"
    " the daemon's sign of life is written again."
)
SHIFTS: Final = {"a day ahead": 86_400, "a day back": -86_400, "five minutes ahead": 300, "five minutes back": -300}
RESULTS: Final = ("on time, once", "broken")


class ClockRig(Rig):
    """A rig whose daemon has a wall clock that can be set."""

    def __init__(self, directory: Path, tmux: PrivateTmux, names: Sequence[str]) -> None:
        super().__init__(directory, tmux, names, target=f"window = {WINDOW}")
        self.offset = directory / "offset"
        self.ahead = 0.0
        self.set_clock(0)
        self.watched = Sandbox(directory, tmux.socket_name, (sys.executable, *set_clock.COMMAND))
        self.watched.environment[set_clock.CLOCK] = str(self.offset)

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock of the daemon, and of whoever sends, so far ahead of the real one."""
        self.ahead = seconds
        draft = self.offset.with_suffix(".new")
        draft.write_text(str(seconds), encoding="ascii")
        draft.replace(self.offset)

    def send(self, agent: Agent, subject: str) -> str:
        """Commit a message that was sent at the time that the clock shows."""
        with MemoryCore(self.plain.graph) as core:
            sent_at = datetime.now(UTC) + timedelta(seconds=self.ahead)
            return core.send(SENDER, agent.identity, subject, sentAt=sent_at.isoformat(timespec="milliseconds"))


def set_the_clock(directory: Path, tmux: PrivateTmux, *, times: int) -> Table:
    """Each of `SHIFTS` so many times."""
    table = Table("A wall clock that is set", ABOUT_CLOCK, "set to", RESULTS, SHIFTS)

    def run(lane: int, trial: tuple[int, str]) -> tuple[str, Verdict]:
        number, shift = trial
        name = f"clock{lane}-{number}"
        with ClockRig(directory / name, tmux, [name, f"held{lane}-{number}"]) as rig:
            wrongs = run_shift(rig, SHIFTS[shift])
        return shift, Verdict(RESULTS[1] if wrongs else RESULTS[0], tuple(wrongs))

    run_in_lanes(table, range(4), enumerate([*SHIFTS] * times), run)
    return table


def run_shift(rig: ClockRig, shift: float) -> list[str]:
    """One trial; what was wrong."""
    waiting, held = rig.agents
    held.fake.shows("busy")
    daemon = rig._started(rig.watched, {})
    wrongs = []
    first_held = rig.send(held, "held")
    rig.waits_for(first_held, lambda one: one.hold == "active", 40)
    for offset in (shift, 0):
        submits = len(waiting.fake.submits())
        message = rig.send(waiting, f"in the window, {offset}")
        comes_true(lambda message=message: rig.standing(message) is not None, 20, 0.02)  # type: ignore[misc]
        seen, waited = time.monotonic(), waited_for_processor(daemon.pid)
        time.sleep(WINDOW / 2)
        rig.set_clock(offset)
        comes_true(lambda submits=submits: len(waiting.fake.submits()) > submits, 60, 0.02)  # type: ignore[misc]
        took, waited = time.monotonic() - seen, waited_for_processor(daemon.pid) - waited
        if not WINDOW - 1 <= took <= WINDOW + 1 + LOOKS + waited:
            wrongs.append(f"a window of {WINDOW} s ended after {took:.1f} s\n{rig.story(message)}")
        rig.waits_until_settled(message)
    held.fake.shows("idle")
    if not waits_until_at_rest(rig, 60):
        wrongs.append(f"it never comes to rest\n{daemon.log()[-2000:]}")
    found = reckon(rig)
    wrongs += [one for verdict in found.verdicts.values() for one in verdict.violations] + list(found.wrongs)
    if len(waiting.fake.submits()) != 2 or len(held.fake.submits()) != 1:
        wrongs.append(f"submits: {len(waiting.fake.submits())} and {len(held.fake.submits())}, not 2 and 1")
    return wrongs


def stand_still(directory: Path, tmux: PrivateTmux, *, seconds: float, times: int) -> Table:
    """So many stops of so many seconds."""
    table = Table("A daemon that stands still", ABOUT_STOP, "agents", RESULTS)
    row = f"stopped for {seconds:.0f} s"
    with Rig(directory / "stopped", tmux, [f"stopped{at}" for at in range(4)]) as rig:
        began = time.monotonic()
        daemon = rig.daemon()
        alive = rig.plain.state_dir / "heartbeat.alive"
        for number in range(times):
            before = {one.identity: len(one.fake.submits()) for one in rig.agents}
            daemon.process.send_signal(signal.SIGSTOP)
            try:
                sent = _send_thirty(rig, number)
                time.sleep(seconds)
            finally:
                daemon.process.send_signal(signal.SIGCONT)
            went_on, waited = time.time(), waited_for_processor(daemon.pid)
            rests = waits_until_at_rest(rig, 90)
            waited = waited_for_processor(daemon.pid) - waited
            known = [_matched_at(rig, one) for one in sent]
            after = max(known) - went_on
            table.demand(min(known), row, "a message is not in the ledger")
            table.demand(after - waited <= 3.0, row, f"in the ledger only after {after:.1f} s")
            table.measures["in the ledger after"] = f"{after:.1f} s"
            table.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
            for agent in rig.agents:
                texts = agent.fake.submits()[before[agent.identity] :]
                is_one = len(texts) == 1 and "30 new messages" in texts[0]
                table.add(
                    row, Verdict(RESULTS[0]) if is_one else Verdict(RESULTS[1], (f"{len(texts)} digests: {texts!r}",))
                )
            # a daemon that was stopped before its first sign has none yet
            lives = comes_true(lambda since=went_on: alive.exists() and alive.stat().st_mtime > since, 60)  # type: ignore[misc]
            table.demand(lives, row, "the sign of life was not written again")
        for wrong in reckon(rig).wrongs:
            table.demand(holds=False, row=row, broken=wrong)
        table.seconds = time.monotonic() - began
    return table


def _matched_at(rig: Rig, message: str) -> float:
    """When a message came into the ledger, 0 if it never did."""
    with closing(sqlite3.connect(rig.plain.state_dir / "state.sqlite", timeout=30)) as ledger:
        row = ledger.execute("SELECT matched_at FROM wake_event WHERE subject_key = ?", (message,)).fetchone()
    return row[0] / 1000 if row else 0.0


def _send_thirty(rig: Rig, number: int) -> list[str]:
    with MemoryCore(rig.plain.graph) as core:
        return [core.send(SENDER, one.identity, f"stop {number}, {at}") for at in range(30) for one in rig.agents]
