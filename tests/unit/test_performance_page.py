"""docs/performance.md: its table is what the kept figures say, and its contract is the one that is kept."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benchmarks import contest
from tests.benchmarks.figures import Figures
from tests.benchmarks.picture import drawn
from tests.benchmarks.record import PAGE, PICTURE, Run, keep, kept, with_table

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_table_is_made_of_the_kept_figures() -> None:
    """Nobody edits a figure by hand."""
    assert with_table(TEXT, kept()) == TEXT


def test_the_picture_is_made_of_the_kept_figures() -> None:
    """What is missed is said to be; what was not measured has no bar."""
    assert drawn(kept()) == PICTURE.read_text(encoding="utf-8")
    idle = {"name": "5 idle panes: CPU, children included", "median": 0.3}
    told = drawn({"idle cost": {"figures": [idle]}})
    assert "0.3 % core (≤ 0.15, missed)" in told
    assert "first byte" not in told


def test_a_run_leaves_its_figures_with_commit_machine_and_load_and_its_rows(tmp_path: Path) -> None:
    """A figure tells on which machine, at which commit and under which load it was measured."""
    page, file = tmp_path / "performance.md", tmp_path / "figures.json"
    page.write_text("above\n<!-- figures -->\nold\n<!-- end of figures -->\nbelow\n")
    figures = Figures()
    figures.add("a wake", [20.0, 30.0, 90.0], "ms", at_most=50)
    figures.add("what nobody promised", [1.0], "ms")
    keep(Run("some wakes").facts(figures.rows), file, page, tmp_path / "cost.svg")
    text = page.read_text(encoding="utf-8")

    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "old" not in text
    assert "what nobody promised" not in text
    (row,) = re.findall(r"^\| some wakes .*$", text, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["some wakes", "a wake", "3", "20", "30", "90", "90", "ms", "median ≤ 50", "met"]
    assert [one["n"] for one in kept(file)["some wakes"]["figures"]] == [3, 1]
    for known in ("commit `", "cores", "Python 3", "load ", "one loop "):
        assert known in text


def test_the_page_names_every_variable_that_another_waker_is_given() -> None:
    """The contract of `--against` is documented as it is kept."""
    source = Path(contest.__file__).read_text(encoding="utf-8")
    given = set(re.findall(r'"(WAKE_[A-Z_]+)"', source))
    assert given == set(re.findall(r"^\| `(WAKE_[A-Z_]+)` \|", TEXT, re.MULTILINE))
    assert len(given) == 5
