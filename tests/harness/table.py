"""The tables of docs/harnesses.md: what came of each cell, printed, and kept.

One table has a row for each state in which a wake may meet a program, the other one for each thing that an agent can stand at.
A program that was run through all rows has its column renewed, in the page and in the data beside it;
`python -m tests.harness.table` writes the page from the data.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.harness.installed import executable, search_path
from tests.harness.programs import PROGRAMS, Program
from tests.harness.states import STATES
from wake_bridge.domain.names import AttentionKind

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "harnesses.md"

TEN: Final = "10 wakes in idle"


@dataclass(frozen=True, slots=True)
class Sheet:
    """One of the tables: what its rows are, how the page marks it, and the file with its data."""

    title: str
    rows: tuple[str, ...]
    mark: str
    data: Path

    @property
    def begin(self) -> str:
        """What stands on the page before it."""
        return f"<!-- {self.mark}: begin -->\n"

    @property
    def end(self) -> str:
        """What stands behind it."""
        return f"<!-- {self.mark}: end -->\n"


IN_STATES: Final = Sheet("state", (*(state.name for state in STATES), TEN), "programs", DOCS / "harnesses.json")
OF_ATTENTION: Final = Sheet(
    "stands at", tuple(kind.value for kind in AttentionKind), "attention", DOCS / "harnesses-attention.json"
)

FAIL: Final = "fail"
SKIP: Final = "skip"
_NOT_RUN: Final = "·"

Column = Mapping[str, Any]
"""One program's run: `version`, `tmux`, `date`, `minutes`, and `cells` by row."""


@dataclass(slots=True)
class Results:
    """What came of the cells of one run so far."""

    sheet: Sheet = IN_STATES
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)

    def put(self, program: str, row: str, result: str, seconds: float = 0.0) -> None:
        """Note `pass`, `fail` or `skip`, or the figure that stands for a pass, and how long it took."""
        self.cells.setdefault(program, {})[row] = result
        self._seconds[program] = self._seconds.get(program, 0.0) + seconds

    def columns(self) -> dict[str, Column]:
        """What was run, by program."""
        tmux = subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=False).stdout.strip()
        return {
            name: {
                "version": self.versions.get(name, ""),
                "tmux": tmux,
                "date": time.strftime("%Y-%m-%d", time.gmtime()),
                "minutes": round(self._seconds[name] / 60, 1),
                "cells": cells,
            }
            for name, cells in self.cells.items()
        }

    def keep(self) -> None:
        """Renew the columns of the programs that were run through all rows."""
        whole = {name: one for name, one in self.columns().items() if _is_whole(one, self.sheet)}
        if whole:
            renewed = json.dumps(kept(self.sheet) | whole, indent=2, ensure_ascii=False)
            self.sheet.data.write_text(f"{renewed}\n", encoding="utf-8")
            write_page(self.sheet)

    def shown(self) -> str:
        """The table of this run."""
        return table(self.columns(), self.sheet)


def kept(sheet: Sheet) -> dict[str, Column]:
    """The columns of the page."""
    found: dict[str, Column] = json.loads(sheet.data.read_text(encoding="utf-8")) if sheet.data.exists() else {}
    return found


def table(columns: Mapping[str, Column], sheet: Sheet) -> str:
    """One row each, one column a program, and below what each was."""
    names = tuple(PROGRAMS)
    ran = [columns.get(name, {}) for name in names]
    rows = [[sheet.title, *(f"{name} {one.get('version', '')}".strip() for name, one in zip(names, ran, strict=True))]]
    rows += [[row, *(one.get("cells", {}).get(row, _NOT_RUN) for one in ran)] for row in sheet.rows]
    rows += [["run on", *(_shown(one, "date") for one in ran)], ["minutes", *(_shown(one, "minutes") for one in ran)]]
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    head, *body = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    return "\n".join([head, rule, *body, "", _summary(ran)]) + "\n"


def write_page(sheet: Sheet) -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(sheet.begin)
    _, _, after = rest.partition(sheet.end)
    PAGE.write_text(f"{before}{sheet.begin}{table(kept(sheet), sheet)}{sheet.end}{after}", encoding="utf-8")


def version_of(program: Program, home: Path) -> str:
    """What the program says its version is; run in a HOME of its own."""
    file = executable(program)
    assert file is not None
    environment = {"PATH": search_path(), "HOME": str(home), "LANG": "C.UTF-8"}
    answer = subprocess.run(
        [file, "--version"], capture_output=True, text=True, check=False, timeout=60, env=environment, cwd=home
    )
    words = answer.stdout.split()
    return next((word.strip("().") for word in words if word[:1].isdigit()), "?")


def _is_whole(column: Column, sheet: Sheet) -> bool:
    return all(column["cells"].get(row, SKIP) != SKIP for row in sheet.rows)


def _shown(column: Column, key: str) -> str:
    return str(column.get(key, _NOT_RUN))


def _summary(columns: Sequence[Column]) -> str:
    found = [result for one in columns for result in one.get("cells", {}).values()]
    failed, skipped = found.count(FAIL), found.count(SKIP)
    versions = ", ".join(sorted({str(one["tmux"]) for one in columns if one}))
    return f"{len(found) - failed - skipped} passed, {failed} failed, {skipped} skipped; {versions}."


if __name__ == "__main__":
    write_page(IN_STATES)
    write_page(OF_ATTENTION)
