"""What came of the trials: a table for each question, which is data as well."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self, TypeVar

Lane = TypeVar("Lane")
Trial = TypeVar("Trial")

LOAD: Final = Path("/proc/loadavg")
MOST_RUNNING: Final = 4
"""Threads that want to run, for each processor, above which no trial is begun."""

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
        measures: figures that are no counts, by what they are of.
        details: what else is kept of the run, as JSON.
    """

    title: str
    about: str
    label: str
    results: Sequence[str]
    names: InitVar[Iterable[str]] = ()
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    measures: dict[str, str] = field(default_factory=dict)
    details: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self, names: Iterable[str]) -> None:
        self.rows |= {name: Counter() for name in names}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The table of such a `record`."""
        table = cls(record["title"], record["about"], record["label"], record["results"])
        table.rows = {name: Counter(row) for name, row in record["rows"].items()}
        table.violations = list(record["violations"])
        table.seconds = record["seconds"]
        table.measures = dict(record["measures"])
        table.details = record.get("details")
        return table

    def add(self, row: str, verdict: Verdict, trials: int = 1) -> None:
        """Count one trial, or several of one result; may be called from any thread."""
        with self._lock:
            self.rows.setdefault(row, Counter())[verdict.result] += trials
            self.violations += [f"{row}: {one}" for one in verdict.violations]

    def demand(self, holds: object, row: str, broken: str) -> None:
        """Something that must hold of the trials together: it is a violation of that row if it does not."""
        if not holds:
            with self._lock:
                self.violations.append(f"{row}: {broken}")

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
        measures = [f"- {name}: {measured}" for name, measured in self.measures.items()]
        after = ["", *measures] if measures else []
        return "\n".join([f"### {self.title}", "", self.about, "", summary, "", head, rule, *body, *after])

    def record(self) -> dict[str, Any]:
        """The table as JSON."""
        return {
            "title": self.title,
            "about": self.about,
            "label": self.label,
            "results": list(self.results),
            "trials": self.trials,
            "seconds": round(self.seconds, 1),
            "violations": self.violations,
            "rows": {name: dict(row) for name, row in self.rows.items()},
            "measures": self.measures,
            **({} if self.details is None else {"details": self.details}),
        }

    def show(self) -> None:
        """Print it, and every violation after it."""
        print(f"\n{self.markdown()}\n")
        for violation in self.violations:
            print(f"VIOLATION {violation}")


def run_in_lanes(
    table: Table,
    lanes: Sequence[Lane],
    trials: Iterable[Trial],
    run: Callable[[Lane, Trial], tuple[str, Verdict] | tuple[str, Verdict, int]],
) -> None:
    """Run every trial, in all lanes at once, each lane one after the other; a trial that breaks is a violation.

    `run` runs one trial in one lane, and answers its row and its verdict, and how many trials it was if not one.
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
            waits_for_room()
            try:
                table.add(*run(lane, trial))
            except Exception as broken:  # noqa: BLE001 - one trial's trouble must not hide what the others find
                table.add(str(trial), Verdict("broken", (f"{type(broken).__name__}: {broken}",)))

    start = time.monotonic()
    with ThreadPoolExecutor(len(lanes)) as pool:
        try:
            for done in [pool.submit(work, lane) for lane in lanes]:
                done.result()
        except BaseException:
            # whoever was told to end waits for the trials under way, and for no others
            while not waiting.empty():
                waiting.get()
            raise
    table.seconds += time.monotonic() - start


def waits_for_room(patience: float = 3.0) -> None:
    """Wait, but not for ever, while far more wants to run than there are processors: such a trial would judge the machine."""
    deadline = time.monotonic() + patience
    while LOAD.exists() and time.monotonic() < deadline:
        running = int(LOAD.read_text(encoding="ascii").split()[3].partition("/")[0])
        if running <= MOST_RUNNING * (os.cpu_count() or 1):
            return
        time.sleep(0.2)


def _shown(number: int) -> str:
    return str(number) if number else "·"
