"""The table program × state: what came of each cell, printed, and written into docs/harnesses.md after a whole run."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.harness.installed import executable, search_path
from tests.harness.programs import PROGRAMS, Program

PAGE: Final = Path(__file__).parents[2] / "docs" / "harnesses.md"
BEGIN: Final = "<!-- programs: begin -->\n"
END: Final = "<!-- programs: end -->\n"

SKIPPED: Final = "skip"
_NOT_RUN: Final = "·"


@dataclass(slots=True)
class Results:
    """What came of the cells so far; `columns` are the states, in order."""

    columns: tuple[str, ...]
    began: float = field(default_factory=time.time)
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def put(self, program: str, column: str, result: str) -> None:
        """Note `pass`, `fail` or `skip`, or the figure that stands for a pass."""
        self.cells[program, column] = result

    @property
    def is_whole(self) -> bool:
        """Whether every cell of every program was tried."""
        return all(self.cells.get((name, column), SKIPPED) != SKIPPED for name in PROGRAMS for column in self.columns)

    def markdown(self) -> str:
        """One row a state, one column a program, and what was run."""
        names = list(PROGRAMS)
        rows = [["state", *(f"{name} {self.versions.get(name, '')}".strip() for name in names)]]
        rows += [[column, *(self.cells.get((name, column), _NOT_RUN) for name in names)] for column in self.columns]
        widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
        head, *body = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
        rule = "| " + " | ".join("-" * width for width in widths) + " |"
        return "\n".join([head, rule, *body, "", self._summary()]) + "\n"

    def _summary(self) -> str:
        found = list(self.cells.values())
        failed, skipped = found.count("fail"), found.count(SKIPPED)
        passed = len(found) - failed - skipped
        tmux = subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=False).stdout.strip()
        day, minutes = time.strftime("%Y-%m-%d", time.gmtime(self.began)), (time.time() - self.began) / 60
        return f"{passed} passed, {failed} failed, {skipped} skipped; {day}, {tmux}, {minutes:.0f} minutes."

    def write(self) -> None:
        """Put the table into the page."""
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}{self.markdown()}{END}{after}", encoding="utf-8")


def version_of(program: Program, home: Path) -> str:
    """What the program says its version is; run in a HOME of its own."""
    file = executable(program)
    assert file is not None
    environment = {"PATH": search_path(), "HOME": str(home), "LANG": "C.UTF-8"}
    answer = subprocess.run(
        [file, "--version"], capture_output=True, text=True, check=False, timeout=60, env=environment, cwd=home
    )
    words = answer.stdout.split()
    return next((word.strip("()") for word in words if word[:1].isdigit()), "?")
