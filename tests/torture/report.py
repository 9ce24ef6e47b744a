"""What came of the trials: a table for each question, and the file that all of them end in."""

from __future__ import annotations

import json
import platform
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

Lane = TypeVar("Lane")
Trial = TypeVar("Trial")

DOCS: Final = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one trial came to, and what in it must never happen."""

    result: str
    violations: tuple[str, ...] = ()


@dataclass(slots=True)
class Table:
    """The trials of one question, by row and result.

    Args:
        title: the question.
        about: how a trial goes and what it is judged by.
        label: what the rows are.
        results: the columns, in order; also those that stay empty.
        names: the rows, in order.
    """

    title: str
    about: str
    label: str
    results: Sequence[str]
    names: InitVar[Iterable[str]] = ()
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self, names: Iterable[str]) -> None:
        self.rows |= {name: Counter() for name in names}

    def add(self, row: str, verdict: Verdict) -> None:
        """Count one trial; may be called from any thread."""
        with self._lock:
            self.rows.setdefault(row, Counter())[verdict.result] += 1
            self.violations += [f"{row}: {one}" for one in verdict.violations]

    @property
    def trials(self) -> int:
        """How many there were."""
        return sum(row.total() for row in self.rows.values())

    def violations_of(self, row: str) -> list[str]:
        """What was wrong in one row."""
        return [one for one in self.violations if one.startswith(f"{row}: ")]

    def count(self, result: str) -> int:
        """Trials with that result."""
        return sum(row[result] for row in self.rows.values())

    def markdown(self) -> str:
        """The table, with a line of sums."""
        results = [*self.results, *sorted({one for row in self.rows.values() for one in row} - set(self.results))]
        lines = [[self.label, "trials", *results]]
        lines += [[name, str(row.total()), *(_shown(row[one]) for one in results)] for name, row in self.rows.items()]
        lines += [["**all**", str(self.trials), *(_shown(self.count(one)) for one in results)]]
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        head, *body = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
        summary = f"{self.trials} trials in {self.seconds:.0f} s, {len(self.violations)} violations."
        return "\n".join([f"## {self.title}", "", self.about, "", summary, "", head, rule, *body])

    def record(self) -> dict[str, Any]:
        """The table as JSON."""
        return {
            "title": self.title,
            "about": self.about,
            "trials": self.trials,
            "seconds": round(self.seconds, 1),
            "violations": self.violations,
            "rows": {name: dict(row) for name, row in self.rows.items()},
        }

    def show(self) -> None:
        """Print it, and every violation after it."""
        print(f"\n{self.markdown()}\n")
        for violation in self.violations:
            print(f"VIOLATION {violation}")


def run_in_lanes(
    table: Table, lanes: Sequence[Lane], trials: Iterable[Trial], run: Callable[[Lane, Trial], tuple[str, Verdict]]
) -> None:
    """Run every trial, in all lanes at once, each lane one after the other; a trial that breaks is a violation.

    `run` runs one trial in one lane, and answers its row and its verdict.
    """
    waiting: SimpleQueue[Trial] = SimpleQueue()
    for trial in trials:
        waiting.put(trial)

    def work(lane: Lane) -> None:
        while True:
            try:
                trial = waiting.get_nowait()
            except Empty:
                return
            try:
                table.add(*run(lane, trial))
            except Exception as broken:  # noqa: BLE001 - one trial's trouble must not hide what the others find
                table.add(str(trial), Verdict("broken", (f"{type(broken).__name__}: {broken}",)))

    start = time.monotonic()
    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(work, lane) for lane in lanes]:
            done.result()
    table.seconds += time.monotonic() - start


@dataclass(slots=True)
class Record:
    """All tables of one run of the torture, with what is needed to run it again."""

    seed: int
    began: float = field(default_factory=time.time)
    tables: list[Table] = field(default_factory=list)

    def keep(self, table: Table) -> None:
        """Print a table and keep it for the files."""
        table.show()
        self.tables.append(table)

    def facts(self) -> dict[str, Any]:
        """The run as JSON."""
        return {
            "seed": self.seed,
            "commit": _output("git", "rev-parse", "HEAD"),
            "uncommitted_changes": bool(_output("git", "status", "--porcelain", "--untracked-files=no")),
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "duration_seconds": round(time.time() - self.began),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "tmux": _output("tmux", "-V"),
            "trials": sum(table.trials for table in self.tables),
            "violations": sum(len(table.violations) for table in self.tables),
            "tables": [table.record() for table in self.tables],
        }

    def write(self, directory: Path = DOCS) -> None:
        """Leave the figures in `torture.json` and `torture.md`."""
        facts = self.facts()
        (directory / "torture.json").write_text(
            json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        head = (
            "# Torture\n\n"
            "What `make torture` last found; the same figures as data are in [torture.json](torture.json). "
            "What each table asks, and how it is judged, stands in the tests of `tests/torture`.\n\n"
            f"{facts['trials']} trials, **{facts['violations']} violations**, {facts['duration_seconds']} s; "
            f"began {facts['began']}, seed {facts['seed']}, commit `{facts['commit'][:12]}`"
            f"{' with uncommitted changes' if facts['uncommitted_changes'] else ''}, {facts['tmux']}, "
            f"Python {facts['python']}, {facts['system']}.\n\n"
        )
        text = head + "\n\n".join(table.markdown() for table in self.tables) + "\n"
        (directory / "torture.md").write_text(text, encoding="utf-8")


def _shown(number: int) -> str:
    return str(number) if number else "·"


def _output(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=DOCS.parent)
    return answer.stdout.strip()
