"""`python -m tests.mutants [--at-once N] [NAME…]` (`make mutants`): is each guard missed by its test?

A run writes its rows into `tests/mutants/figures.json`, each with the commit on which it was tried last, and their sum
into `docs/reliability.md`. The exit status is 1 unless every mutant was killed by an assertion.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutant import Mutant, mutants
from tests.mutants.table import FIGURES_FILE, figures, keep, kept
from tests.mutants.trial import KILLED, Verdict, trials
from tests.mutants.workshop import Workshop

LONGEST_COMMAND = 120
"""Characters of a command that the page still shows whole."""


def main() -> int:
    """Try the mutants that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Take guards out, see tests fail.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file in tests/mutants/patches, without .toml")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="copies to work in (2)")
    asked = parser.parse_args()
    start = time.monotonic()
    verdicts = _tried([*mutants(asked.names)], asked.at_once)
    seconds = time.monotonic() - start
    killed = sum(one.result == KILLED for one in verdicts)
    print(f"{len(verdicts)} mutants, {killed} killed by assertion, {seconds:.0f} s")
    rows = figures(verdicts, earlier=kept(FIGURES_FILE), all_names=[one.name for one in mutants([])])
    if rows is not None:
        named = f' ONLY="{" ".join(asked.names)}"' if asked.names else ""
        command = f"make mutants{named}" if len(named) < LONGEST_COMMAND else f"make mutants (of {len(verdicts)})"
        keep(rows, command, seconds)
    return 0 if killed == len(verdicts) else 1


def _tried(chosen: list[Mutant], at_once: int) -> list[Verdict]:
    """The verdicts in the order of the mutants, each told as it comes."""
    verdicts: dict[str, Verdict] = {}

    def work(number: int) -> None:
        # side by side are tests of one file: what they share is set up once with the guards
        share = sorted(chosen, key=lambda one: one.test)[number :: min(at_once, len(chosen))]
        for verdict in trials(Workshop(Path(directory, str(number))), share):
            verdicts[verdict.mutant.name] = verdict
            said = verdict.said if verdict.result != KILLED else ""
            row = f"{verdict.seconds:5.1f} s  {verdict.result:19}  {verdict.mutant.name} → {verdict.mutant.test_name}"
            print(f"{row}  {said}".rstrip(), flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as directory, ThreadPoolExecutor(at_once) as threads:
        for _ in threads.map(work, range(min(at_once, len(chosen)))):
            pass
    return [verdicts[one.name] for one in chosen]


if __name__ == "__main__":
    raise SystemExit(main())
