"""What came of the mutants: a section of `docs/reliability.md`, and the figures it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.mutants.trial import KILLED, Verdict

SECTION: Final = "mutants"
"""What section and figures are called."""

Row = Mapping[str, str | float]


def figures(verdicts: Sequence[Verdict]) -> list[Row]:
    """All that is kept of a run, a row a mutant."""
    return [
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


def section(rows: Sequence[Row]) -> str:
    """The section, made from the figures."""
    killed = sum(row["result"] == KILLED for row in rows)
    about = (
        "For each of these kinds of fault ([faults](faults.md)) the guard is taken out of a copy of the program. The test"
        " named passes with the guard, and must fail without it: by an assertion of its own, not by an error. The patches"
        f" are in `tests/mutants/patches`. {len(rows)} mutants, **{killed} killed by assertion**."
    )
    table = [
        f"| {row['fault']} | {row['without']} | `{row['file']}` | `{row['test']}` | {row['result']} |" for row in rows
    ]
    head = ["| kind of fault | without | in | test | result |", "|---|---|---|---|---|"]
    return "\n".join(["## Mutants", "", about, "", *head, *table])
