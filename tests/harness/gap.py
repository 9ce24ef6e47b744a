"""How soon after a paste the real programs take an Enter, offline, by the adapter itself: which gap loses none.

    python -m tests.harness.gap NAME… [--gap MS]… [--trials N] [--minutes M] [--panes P] [--write]

Each trial is one wake by the tmux adapter's own `deliver`, with a gap drawn from those named in place of the profile's.
What became of the Enter is read from the requests that the model got, never from the screen. `--write` adds the counts to
`docs/harnesses-gaps.json` and renews the table in docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from wake_bridge_adapters.screens.profile import Profile
from wake_bridge_adapters.screens.profile_file import load_profiles
from wake_bridge_adapters.tmux.attempt import DriverProcess, PaneAttempt
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.deliver import deliver
from wake_bridge_adapters.tmux.occupants import Occupants
from wake_bridge_adapters.tmux.view import Observer, PaneView

from tests.harness.house import PATIENCE, STARTS_WITHIN, House
from tests.harness.manners import MANNERS
from tests.harness.programs import PROGRAMS, Program
from tests.harness.table import DOCS, version_of
from wake_bridge.domain.delivery import Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid

GAPS: Final = (0, 10, 25, 50, 100, 150, 300)
"""Milliseconds."""

ROUND: Final = 150
"""Trials in one pane before everything begins anew: conversation, scrollback and memory stay small."""

RESTS: Final = 0.5
"""Seconds between two looks that must agree before a trial."""

SETTLES: Final = 15.0
"""Seconds from the first idle screen of a pane to its first wake: programs draw a composer before they read their keys."""

LATE: Final = 30.0
"""Seconds for which a request is waited for after the adapter has given up looking: an Enter that is late is not lost."""

STARTS: Final = 180.0
"""The same for the first wake of a pane, which is not counted."""

DATA: Final = DOCS / "harnesses-gaps.json"
PAGE: Final = DOCS / "performance.md"
BEGIN, END = "<!-- gaps: begin -->\n", "<!-- gaps: end -->\n"

_TEXT: Final = (
    '[WAKE][priority:high] 1 event for @agent: 1 new message (latest: "Review request" from @alice)\n'
    "Automated notice, not your user. Read: wake-bridge inbox @agent --bodies --consume\n"
    "Subscription: WAKE_SUB:01 Window: 31s Wake: {mark}"
)
"""Three lines: every program takes them as they are. Where `@name` reads a file, digests have another sign."""


@dataclass(slots=True)
class Trial:
    """One Enter, and how many seconds after the text was seen to stand it went out."""

    gap: int
    wake: Wake
    distance: float


@dataclass(slots=True)
class Count:
    """What became of the Enters of one gap."""

    trials: int = 0
    swallowed: int = 0
    changed: int = 0
    doubled: int = 0
    distances: list[float] = field(default_factory=list)
    """Milliseconds."""
    loads: list[float] = field(default_factory=list)

    def told(self) -> str:
        """For a person who watches."""
        seen = f", {min(self.distances):.0f} · {statistics.median(self.distances):.0f} ms" if self.distances else ""
        counted = f"{self.trials} trials, {self.swallowed} swallowed, {self.changed} changed, {self.doubled} twice"
        return f"{counted}{seen}, load {min(self.loads):.0f} to {max(self.loads):.0f}"

    def added_to(self, before: Mapping[str, Any] | None) -> dict[str, Any]:
        """As it is kept; the median is that of the larger run."""
        sums = {what: getattr(self, what) + (before[what] if before else 0) for what in _SUMMED}
        soonest, median = round(min(self.distances)), round(statistics.median(self.distances))
        if before:
            soonest = min(soonest, before["soonest"])
            median = median if self.trials * 2 > sums["trials"] else before["median"]
        loads = [*self.loads, *(before["loads"] if before else [])]
        return {**sums, "soonest": soonest, "median": median, "loads": [round(min(loads)), round(max(loads))]}


_SUMMED: Final = ("trials", "swallowed", "changed", "doubled")


class Room(House):
    """A house without a wake-bridge, in which panes of the program are opened."""

    def turns(self, start: int, mark: str) -> list[str]:
        """The texts with this mark that began a turn."""
        asked = [one.asked for one in self.model.requests(start)]
        return [
            text
            for one in asked
            if (one.tools or self.program.registry == "pypi") and not one.is_after_tool and mark in one.last
            for text in one.messages[-1]
            if mark in text
        ]


class Trials:
    """One round: some panes, each woken again and again.

    Args:
        room: where they are.
        gaps: milliseconds to draw from.
        enough: when to stop, by the monotonic clock.
    """

    def __init__(self, room: Room, gaps: Sequence[int], enough: float) -> None:
        self._room = room
        self._gaps = gaps
        self._enough = enough
        self._server = TmuxServer(str(room.tmux.socket_path), 30, os.environ)
        profile = load_profiles()[room.program.name]
        self._observers = {gap: Observer(self._server, _occupants(profile, gap), 0) for gap in gaps}
        self._text = _TEXT.replace("@", "＠") if profile.paste.at_reads_files else _TEXT
        self.made: list[Trial] = []

    async def pane(self, number: int) -> None:
        """All trials of one pane; one that is spoilt is opened anew."""
        name = await self._opened()
        for _ in range(number):
            if time.monotonic() > self._enough:
                return
            if not await self._trial(name):
                self._room.tmux.run("kill-pane", "-t", name)
                name = await self._opened()

    async def _opened(self) -> str:
        name = self._room.opens_another(self._room.work)
        await self._at_rest(name, self._gaps[0], STARTS_WITHIN)
        await asyncio.sleep(SETTLES)
        await self._trial(name, patience=STARTS)
        return name

    async def _trial(self, pane: str, patience: float = LATE) -> bool:
        """One wake; False where the pane is not fit for another. Counted where it is given no more than `LATE`."""
        gap = random.choice(self._gaps)
        try:
            view = await self._at_rest(pane, gap, PATIENCE)
        except TimeoutError as problem:
            print(problem, file=sys.stderr, flush=True)
            return False
        mark, start = new_ulid(), len(self._room.model.requests())
        wake = Wake(delivery_id=mark, text=self._text.format(mark=mark), mark=mark)
        times: dict[Step, float] = {}

        async def journal(step: Step, evidence: Mapping[str, str]) -> None:  # noqa: ARG001 - as a journal is called
            times[step] = time.monotonic()

        attempt = PaneAttempt(
            server=self._server,
            observer=self._observers[gap],
            pane_id=pane,
            label=pane,
            harness="",
            wake=wake,
            fence=view.fence,
            journal=journal,
            driver=DriverProcess.here("0"),
            clock=SteadyClock(),
        )
        outcome = await deliver(attempt, "")
        if Step.INTENT_SUBMIT not in times:
            print(f"no Enter: {outcome}", file=sys.stderr, flush=True)
            return Step.INTENT_STAGE not in times or Step.REFUSED in times
        if patience <= LATE:
            self.made.append(Trial(gap, wake, times[Step.INTENT_SUBMIT] - times[Step.STAGED]))
        deadline = time.monotonic() + patience
        while not self._room.turns(start, mark):
            if time.monotonic() > deadline:
                print(f"swallowed after {gap} ms: {outcome}", file=sys.stderr, flush=True)
                return False
            await asyncio.sleep(0.05)
        return True

    async def _at_rest(self, pane: str, gap: int, timeout: float) -> PaneView:
        """The pane once two looks agree that it is idle. Raises `TimeoutError`."""
        deadline, before = time.monotonic() + timeout, ""
        while True:
            view = await self._observers[gap].view(pane, "")
            if isinstance(view, PaneView):
                is_idle = view.verdict.vote is PresenceState.IDLE
                if is_idle and view.fingerprint and view.fingerprint == before:
                    return view
                before = view.fingerprint if is_idle else ""
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"never idle: {view.verdict.told}\n{view.screen}" if isinstance(view, PaneView) else view.why
                )
            await asyncio.sleep(RESTS)


def _occupants(profile: Profile, gap: int) -> Occupants:
    paste = replace(profile.paste, gap_ms=gap)
    return Occupants({profile.name: replace(profile, paste=paste)})


def one_round(program: Program, gaps: Sequence[int], panes: int, enough: float) -> list[tuple[Trial, list[str]]]:
    """A house, its trials, and for each the texts that began a turn."""
    with TemporaryDirectory(prefix="wbg-") as directory:
        room = Room(program, Path(directory), (sys.executable, "-m", "wake_bridge"))
        try:
            room.moves_in()
            trials = Trials(room, gaps, enough)

            async def all_panes() -> None:
                done = await asyncio.gather(*(trials.pane(ROUND) for _ in range(panes)), return_exceptions=True)
                for problem in filter(None, done):
                    print(f"a pane gave up: {problem}", file=sys.stderr, flush=True)

            asyncio.run(all_panes())
            return [(one, room.turns(0, one.wake.mark)) for one in trials.made]
        finally:
            with suppress(TimeoutError):
                room.close()


def _judge(count: Count, trial: Trial, texts: Sequence[str], exact: re.Pattern[str]) -> None:
    count.trials += 1
    count.swallowed += not texts
    count.doubled += len(texts) > 1
    count.changed += any(not exact.fullmatch(text) for text in texts)
    count.distances.append(trial.distance * 1000)


def run(program: Program, gaps: Sequence[int], wanted: int, minutes: float, panes: int) -> Iterator[dict[int, Count]]:
    """The counts of round after round, until there are so many trials or the time is over."""
    manners = MANNERS[program.name]
    enough, done = time.monotonic() + minutes * 60, 0
    while done < wanted and time.monotonic() < enough:
        counts = {gap: Count() for gap in gaps}
        loads = [os.getloadavg()[0]]
        made = one_round(program, gaps, panes, enough)
        loads.append(os.getloadavg()[0])
        for trial, texts in made:
            exact = manners.heads.pattern + re.escape(trial.wake.text) + manners.adds.pattern
            _judge(counts[trial.gap], trial, texts, re.compile(exact, manners.adds.flags))
        for count in counts.values():
            count.loads = loads
        done += len(made)
        yield counts


def keep(program: Program, version: str, counts: Mapping[int, Count]) -> None:
    """Add the counts to the data, and renew the page."""
    data = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    rows = data.setdefault(program.name, {}).setdefault(version, {})
    for gap, count in counts.items():
        if count.trials:
            rows[str(gap)] = count.added_to(rows.get(str(gap)))
    data[program.name][version] = dict(sorted(rows.items(), key=lambda one: int(one[0])))
    DATA.write_text(json.dumps(dict(sorted(data.items())), indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}{table(data)}{END}{tail}", encoding="utf-8")


LEAST: Final = 50
"""Milliseconds: slower terminals than these were not tried."""

ENOUGH: Final = 1000
"""Trials."""


def twice_what_lost_none(gaps: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The gap for a profile by these counts: twice the smallest that lost no Enter in `ENOUGH` trials; None where there is none."""
    fit = (int(gap) for gap, one in gaps.items() if one["trials"] >= ENOUGH and not one["swallowed"])
    smallest = min(fit, default=None)
    return None if smallest is None else max(2 * smallest, LEAST)


def table(data: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]) -> str:
    """The table of the page."""
    lines = [
        "| program | gap (ms) | trials | swallowed | changed | twice | stands → Enter, soonest and median (ms) | load |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, versions in data.items():
        for version, gaps in versions.items():
            for gap, one in gaps.items():
                counted = " | ".join(f"{one[what]:,}" for what in _SUMMED)
                seen = f"{one['soonest']} · {one['median']} | {one['loads'][0]} to {one['loads'][1]}"
                lines.append(f"| {name} {version} | {gap} | {counted} | {seen} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=list(PROGRAMS))
    parser.add_argument("--gap", type=int, action="append", default=[], help="milliseconds, instead of all")
    parser.add_argument("--trials", type=int, default=1400, help="so many of each program")
    parser.add_argument("--minutes", type=float, default=60, help="no longer than this for each program")
    parser.add_argument("--panes", type=int, default=4, help="panes of it at once")
    parser.add_argument("--write", action="store_true", help="add the counts to data and page")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # all programs end with it
    for name in given.names:
        program = PROGRAMS[name]
        with TemporaryDirectory(prefix="wbg-") as directory:
            version = version_of(program, Path(directory))
        print(name, version, flush=True)
        for counts in run(program, given.gap or GAPS, given.trials, given.minutes, given.panes):
            for gap, count in counts.items():
                print(name, f"{gap} ms:", count.told(), flush=True)
            if given.write:
                keep(program, version, counts)


if __name__ == "__main__":
    main()
