"""What came of the mutants: a section of `docs/reliability.md`, and the figures it is made from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.mutants.trial import KILLED, Verdict
from tests.torture.reliability import FIGURES, _output
from tests.torture.report import DOCS

SECTION: Final = "mutants"
"""What section and figures are called."""

Row = Mapping[str, str | float]


FIGURES_FILE: Final = DOCS / FIGURES / f"{SECTION}.json"


def kept(file: Path) -> dict[str, Row]:
    """What earlier runs found, by name, each with the commit on which it was found."""
    facts = json.loads(file.read_text(encoding="utf-8"))
    return {row["name"]: {"commit": facts["commit"][:12], **row} for row in facts["figures"]}


def figures(verdicts: Sequence[Verdict], earlier: Mapping[str, Row], all_names: Sequence[str]) -> list[Row] | None:
    """A row for each mutant there is: of this run, or of the earlier one that tried it; None while one was never tried."""
    commit = _output("git", "rev-parse", "HEAD")[:12]
    tried: dict[str, Row] = {
        one.mutant.name: {
            "name": one.mutant.name,
            "fault": one.mutant.fault,
            "without": one.mutant.without,
            "file": one.mutant.file,
            "test": one.mutant.test_name,
            "result": one.result,
            "seconds": round(one.seconds, 1),
            "commit": commit,
        }
        for one in verdicts
    }
    known = {**earlier, **tried}
    return [known[name] for name in all_names] if known.keys() >= set(all_names) else None


def section(rows: Sequence[Row]) -> str:
    """The section, made from the figures."""
    killed = sum(row["result"] == KILLED for row in rows)
    about = (
        "For each of these kinds of fault ([faults](faults.md)) the guard is taken out of a copy of the program. The test"
        " named passes with the guard, and must fail without it: by an assertion of its own, not by an error. The patches"
        f" are in `tests/mutants/patches`. {len(rows)} mutants, **{killed} killed by assertion**; the figures say of each on which"
        " commit it was tried last."
    )
    table = [
        f"| {row['fault']} | {row['without']} | `{row['file']}` | `{row['test']}` | {row['result']} |" for row in rows
    ]
    head = ["| kind of fault | without | in | test | result |", "|---|---|---|---|---|"]
    return "\n".join(["## Mutants", "", about, "", *head, *table])
