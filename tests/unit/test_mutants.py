"""The patches of the mutation check apply, and its table is of these patches (`make mutants` tries them)."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.mutants.mutant import ROOT, Mutant, StalePatch, mutants
from tests.mutants.table import FIGURES_FILE, section
from tests.mutants.trial import KILLED

ALL = [*mutants()]
FAULTS = {
    line.split("|")[1].strip()
    for line in (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
}

each_mutant = pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)


@each_mutant
def test_a_patch_applies_to_what_it_was_made_for(mutant: Mutant) -> None:
    """What it replaces stands there exactly once, and what it makes is still a program."""
    patched = mutant.patched((ROOT / mutant.file).read_text(encoding="utf-8"))

    assert Path(mutant.file).parts[0] in {"wake_bridge", "adapters"}
    assert patched.count(mutant.after) >= 1
    if mutant.file.endswith(".py"):
        ast.parse(patched)


@each_mutant
def test_a_mutant_belongs_to_a_kind_of_fault_and_names_a_test(mutant: Mutant) -> None:
    """A row of docs/faults.md, and a test that exists; so does its one parameter set."""
    file, _, name = mutant.test.partition("::")

    assert mutant.fault in FAULTS
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
    traps = (ROOT / "tests" / "integration" / "tmux" / "trap_table.py").read_text(encoding="utf-8")
    assert not mutant.case or f'"{mutant.case}"' in traps


def test_a_stale_patch_is_an_error() -> None:
    """A guard that was rewritten takes its patch along, or says so."""
    twice = Mutant("name", "fault", "guard", "file", before="a guard", after="", test="test")

    for text in ("no such thing", "a guard and a guard"):
        with pytest.raises(StalePatch, match=r"name: what it replaces stands [02] times in file"):
            twice.patched(text)


def test_the_table_is_of_these_mutants_and_all_were_killed() -> None:
    """The figures are of a run of all that there are, and the page's section is made from them."""
    rows = json.loads(FIGURES_FILE.read_text(encoding="utf-8"))["figures"]
    tried = {row["name"]: (row["fault"], row["without"], row["file"], row["test"]) for row in rows}

    assert len(ALL) >= 25
    assert tried == {one.name: (one.fault, one.without, one.file, one.test_name) for one in ALL}
    assert {row["result"] for row in rows} == {KILLED}
    assert section(rows) in (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
