"""What came of the mutants: the file with the figures, and the section that is made from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.mutants.mutant import ROOT
from tests.mutants.trial import KILLED, Verdict

FIGURES: Final = ROOT / "docs" / "mutants.json"
PAGE: Final = ROOT / "docs" / "reliability.md"
HEADING: Final = "## Mutants"

_SECTION: Final = re.compile(rf"^{HEADING}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def figures(verdicts: Sequence[Verdict], **about: str | float) -> dict[str, Any]:
    """All that is kept of a run. `about` says when and where it was."""
    rows = [
        {
            "name": one.mutant.name,
            "fault": one.mutant.fault,
            "without": one.mutant.without,
            "file": one.mutant.file,
            "test": one.mutant.test_name,
            "result": one.result,
            "seconds": round(one.seconds, 1),
        }
        for one in verdicts
    ]
    return {**about, "mutants": rows}


def section(run: Mapping[str, Any]) -> str:
    """The section of the page, made from the figures."""
    rows = run["mutants"]
    killed = sum(row["result"] == KILLED for row in rows)
    about = (
        "For each of these kinds of fault (docs/faults.md) the guard is taken out of a copy of the program, and the test"
        " named must then fail by an assertion of its own, not by an error; with the guard it must pass. The patches are"
        " in `tests/mutants/patches`; `make mutants` runs them and writes this section."
    )
    came_to = (
        f"{len(rows)} mutants, **{killed} killed by assertion**, {run['seconds']:.0f} s; began {run['began']},"
        f" commit `{run['commit']}`, tmux {run['tmux']}, Python {run['python']}, {run['machine']}."
    )
    table = [
        f"| {row['fault']} | {row['without']} | `{row['file']}` | `{row['test']}` | {row['result']} |" for row in rows
    ]
    head = ["| kind of fault | without | in | test | result |", "|---|---|---|---|---|"]
    lines = [HEADING, "", about, "", came_to, "", *head, *table]
    return "\n".join(lines) + "\n"


def with_section(page: str, made: str) -> str:
    """The page with the section in its place, at the end if it has none."""
    if _SECTION.search(page):
        return _SECTION.sub(lambda found: made + ("\n" if found.end() < len(page) else ""), page)
    return f"{page.rstrip()}\n\n{made}"


def write(run: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write figures and section; answers where."""
    FIGURES.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Reliability\n"
    PAGE.write_text(with_section(page, section(run)), encoding="utf-8")
    return FIGURES, PAGE
