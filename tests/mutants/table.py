"""What came of the mutants: the figures of each, and what `docs/reliability.md` says of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.mutants.trial import KILLED, Verdict
from tests.torture.reliability import output_of, put_section, run_facts

SECTION: Final = "mutants"
"""How its place in the page is marked."""

Row = Mapping[str, str | float]

FIGURES_FILE: Final = Path(__file__).with_name("figures.json")


def kept(file: Path) -> dict[str, Row]:
    """What earlier runs found, by name, each with the commit on which it was found."""
    facts = json.loads(file.read_text(encoding="utf-8"))
    return {row["name"]: {"commit": facts["commit"][:12], **row} for row in facts["figures"]}


def figures(verdicts: Sequence[Verdict], earlier: Mapping[str, Row], all_names: Sequence[str]) -> list[Row] | None:
    """A row for each mutant there is: of this run, or of the earlier one that tried it; None while one was never tried."""
    commit = output_of("git", "rev-parse", "HEAD")[:12]
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


def keep(rows: Sequence[Row], command: str, seconds: float) -> None:
    """Leave the figures of a run and what the page says of them."""
    facts = {**run_facts(command, seconds), "figures": rows}
    FIGURES_FILE.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    put_section(SECTION, section(rows))


def section(rows: Sequence[Row]) -> str:
    """What the page says of them, made from the figures."""
    killed = sum(row["result"] == KILLED for row in rows)
    return f"{len(rows)} guards taken out, each alone: **{killed} killed by an assertion** of the test that it names."
