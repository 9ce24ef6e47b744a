"""docs/performance.md: its tables are what the raw figures beside it say, and its contract is the one that is kept."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benchmarks import contest
from tests.benchmarks.figures import Figures
from tests.benchmarks.record import DOCS, Run, keep, with_tables

PAGE = (DOCS / "performance.md").read_text(encoding="utf-8")


def test_the_tables_are_made_of_the_raw_figures() -> None:
    """Nobody edits a figure by hand."""
    assert with_tables(PAGE, DOCS / "performance") == PAGE


def test_a_run_leaves_its_values_with_commit_machine_and_load_and_its_table(tmp_path: Path) -> None:
    """A figure tells on which machine, at which commit and under which load it was measured."""
    (tmp_path / "performance.md").write_text("above\n<!-- figures -->\nold\n<!-- end of figures -->\nbelow\n")
    figures = Figures()
    figures.add("a wake", [20.0, 30.0, 90.0], "ms", at_most=50)
    facts = Run("some wakes").facts(figures.rows)
    (tmp_path / "performance/before").mkdir(parents=True)
    keep({**facts, "figures": [{**facts["figures"][0], "values": [60.0]}]}, tmp_path)
    (tmp_path / "performance/some-wakes.json").rename(tmp_path / "performance/before/some-wakes.json")
    keep(facts, tmp_path)
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")

    assert page.startswith("above\n")
    assert page.endswith("below\n")
    assert "old" not in page
    (row,) = re.findall(r"^\| a wake .*$", page, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:7] == ["a wake", "3", "20", "30", "90", "90", "ms"]
    assert cells[8:10] == ["median ≤ 50", "met"]
    assert cells[10].startswith("median 60 (")
    for known in ("commit `", "cores", "Python 3", "load ", "one loop "):
        assert known in page


def test_the_page_names_every_variable_that_another_waker_is_given() -> None:
    """The contract of `--against` is documented as it is kept."""
    source = Path(contest.__file__).read_text(encoding="utf-8")
    given = set(re.findall(r'"(WAKE_[A-Z_]+)"', source))
    assert given == set(re.findall(r"^\| `(WAKE_[A-Z_]+)` \|", PAGE, re.MULTILINE))
    assert len(given) == 5
