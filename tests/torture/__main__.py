"""`make torture`: all runs of the bench, some side by side, and one table of what came of them.

    python -m tests.torture [--long] [--seed N] [NAME ...]

The exit status is 1 if a rule was broken in any trial, or a run broke off. The long form leaves each run's figures in
`tests/torture/figures.json` and its row in `docs/reliability.md`.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from tests.torture.catalogue import RUNS
from tests.torture.reliability import FIGURES, PAGE, keep_piece, keep_run
from tests.torture.report import DOCS, Table, Verdict
from tests.torture.run import Run

WORKING: Final = 3
"""Runs at a time that work; each waits for panes half of its time."""

WAITING: Final = 3
"""Runs at a time that mostly wait."""

SHOWN: Final = 20
"""Violations of a run that are printed; more teach little."""

UNDER_WAY: Final[set[subprocess.Popen[bytes]]] = set()
"""The processes of the runs that are being played."""

BOUNDS: Final = {False: 570, True: 3 * 3600}
"""Seconds that a run may take in the short and in the long form."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    run: Run
    tables: Sequence[Table]
    seconds: float
    is_whole: bool = True
    """Whether it came to its end."""

    @property
    def violations(self) -> list[str]:
        """Of all its tables."""
        return [one for table in self.tables for one in table.violations]

    @property
    def trials(self) -> int:
        """In all its tables."""
        return sum(table.trials for table in self.tables)


def play(run: Run, *, seed: int, is_long: bool) -> Outcome:
    """One run in a process of its own; one that breaks off or takes too long is a violation."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as directory:
        file, log = Path(directory) / "tables.json", Path(directory) / "log"
        form = "long" if is_long else "short"
        with log.open("wb") as stream:
            command = [sys.executable, "-m", "tests.torture.alone", run.name, str(seed), form, str(file)]
            process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=DOCS.parent)
            UNDER_WAY.add(process)
            ended = _ended(process, BOUNDS[is_long])
            UNDER_WAY.discard(process)
        is_whole = file.exists()
        if is_whole:
            tables = [Table.of(record) for record in json.loads(file.read_text(encoding="utf-8"))]
        else:
            why = f"it broke off ({ended}):\n{log.read_text(encoding='utf-8', errors='replace')[-4000:]}"
            tables = [Table(run.name, "", "run", (), ())]
            tables[0].add(run.name, Verdict("broken", (why,)))
    return Outcome(run, tables, time.monotonic() - began, is_whole)


def _ended(process: subprocess.Popen[bytes], bound: float) -> str:
    """Wait for a run; one that takes too long is told to end, and made to if it does not."""
    try:
        return f"exit status {process.wait(bound)}"
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
    return f"not done after {bound:.0f} s"


def keep(outcome: Outcome, *, seed: int, is_long: bool, file: Path = FIGURES, page: Path = PAGE) -> None:
    """Leave the run's figures, and its row in the table of all runs."""
    figures = outcome.run.figures(outcome.tables, seed=seed, is_long=is_long)
    command = f"make torture{' LONG=1' if is_long else ''} ONLY={outcome.run.name}"
    whole = next((one for one in RUNS if outcome.run in one.pieces), None)
    if whole is None:
        keep_run(outcome.run.name, command, figures, seconds=outcome.seconds, file=file, page=page)
    else:
        keep_piece(
            whole.name, whole.what, outcome.run.name, command, figures, seconds=outcome.seconds, file=file, page=page
        )


def table_of(outcomes: Sequence[Outcome]) -> str:
    """One row a run."""
    head = ("run", "goals", "what", "trials", "violations", "seconds")
    rows = [
        (
            one.run.name,
            ", ".join(one.run.goals),
            one.run.what,
            str(one.trials),
            str(len(one.violations)),
            f"{one.seconds:.0f}",
        )
        for one in outcomes
    ]
    total = (
        "all",
        "",
        "",
        str(sum(one.trials for one in outcomes)),
        str(sum(len(one.violations) for one in outcomes)),
        "",
    )
    widths = [max(len(row[at]) for row in (head, *rows, total)) for at in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    first, last = (
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (head, total)
    )
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([first, rule, *lines, last])


def main(arguments: Sequence[str]) -> int:
    """Play what is asked for; answers the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="All runs of the torture bench.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"runs: {', '.join(run.name for run in RUNS)}")
    parser.add_argument("--long", action="store_true", help="the full counts; leaves its rows in docs/reliability.md")
    parser.add_argument("--seed", type=int, default=None, help="has the trials of an earlier run again")
    asked = parser.parse_args(arguments)
    known = [one for run in RUNS for one in (run.pieces if asked.long and run.pieces else [run])]
    asked.names += [one.name for run in RUNS if run.name in asked.names for one in run.pieces if asked.long]
    unknown = set(asked.names) - {one.name for one in (*RUNS, *known)}
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    chosen = [run for run in known if run.name in asked.names or not asked.names]
    signal.signal(signal.SIGTERM, _end_all)
    print(f"{'long' if asked.long else 'short'} form, seed {seed}", flush=True)
    began = time.monotonic()
    done = _play_all(chosen, seed=seed, is_long=asked.long)
    print(f"\n{table_of([done[run.name] for run in chosen])}\n")
    wrongs = sum(len(one.violations) for one in done.values())
    print(
        f"{'long' if asked.long else 'short'} form, seed {seed}: {wrongs} violations, {time.monotonic() - began:.0f} s"
    )
    return 1 if wrongs else 0


def _end_all(*_: object) -> NoReturn:
    """Whoever ends the bench ends its runs."""
    for process in [*UNDER_WAY]:
        process.terminate()
    sys.exit("told to end")


def _play_all(chosen: Sequence[Run], *, seed: int, is_long: bool) -> Mapping[str, Outcome]:
    """Two pools side by side; each run is shown when it is done."""
    done: dict[str, Outcome] = {}
    with ThreadPoolExecutor(WORKING) as working, ThreadPoolExecutor(WAITING) as waiting:
        under_way: list[Future[Outcome]] = [
            (waiting if run.mostly_waits else working).submit(play, run, seed=seed, is_long=is_long) for run in chosen
        ]
        try:
            for future in as_completed(under_way):
                outcome = future.result()
                done[outcome.run.name] = outcome
                print(
                    f"{outcome.run.name}: {outcome.trials} trials, {len(outcome.violations)} violations, {outcome.seconds:.0f} s"
                )
                for violation in outcome.violations[:SHOWN]:
                    print(f"VIOLATION {outcome.run.name}: {violation}")
                if len(outcome.violations) > SHOWN:
                    print(f"VIOLATION {outcome.run.name}: and {len(outcome.violations) - SHOWN} more")
                if len(chosen) == 1:
                    print("\n" + "\n\n".join(table.markdown() for table in outcome.tables))
                sys.stdout.flush()
                if is_long and outcome.is_whole:
                    keep(outcome, seed=seed, is_long=is_long)
        except BaseException:
            for future in under_way:
                future.cancel()
            raise
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
