"""The torture bench says what it found: every goal has a run, the page is made from the figures, a violation is an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.torture import __main__ as bench
from tests.torture.__main__ import Outcome, keep, main, table_of
from tests.torture.catalogue import RUNS
from tests.torture.reliability import PAGE, kept, table_of_runs
from tests.torture.report import Table, Verdict

GOALS = {
    *(f"G-C{number}" for number in range(1, 5)),
    *(f"G-S{number}" for number in range(1, 10)),
    *(f"G-D{number}" for number in range(1, 4)),
    *(f"G-T{number}" for number in range(1, 9)),
    *(f"G-P{number}" for number in range(1, 4)),
    *("G-H1", "G-H2", "G-H5", "G-X1", "G-X2"),
    *(f"G-L{number}" for number in range(4, 8)),
}
"""Those that were set; what a storm does is one of the load runs."""


def _table(*violations: str) -> Table:
    table = Table("A question", "How it is judged.", "row", ("good", "bad"), ["first"])
    table.add("first", Verdict("good"), 3)
    if violations:
        table.add("second", Verdict("bad", violations))
    table.measures["longest"] = "3 s"
    table.details = [{"operation": 1}]
    return table


def test_every_goal_has_a_run_and_every_run_a_name_of_its_own() -> None:
    """G-C1 to G-L7."""
    assert {goal for run in RUNS for goal in run.goals} == GOALS
    assert len({run.name for run in RUNS}) == len(RUNS)


def test_a_table_comes_back_from_its_record() -> None:
    """A run in a process of its own hands its tables over as JSON."""
    table = _table("something was lost")
    record = json.loads(json.dumps(table.record()))

    assert Table.of(record).markdown() == table.markdown()
    assert Table.of(record).record() == record
    assert record["trials"] == 4
    assert "| **all** | 4      | 3    | 1   |" in table.markdown()


def test_what_must_hold_of_all_trials_is_a_violation_if_it_does_not() -> None:
    """A run that is green trial by trial may still be wrong as a whole."""
    table = _table()
    table.demand(holds=True, row="first", broken="never")
    assert table.violations == []
    table.demand(holds=[], row="first", broken="it never came to rest")
    assert table.violations == ["first: it never came to rest"]


@pytest.mark.parametrize(("violations", "status"), [((), 0), (("one was submitted twice",), 1)])
def test_the_exit_status_says_whether_a_rule_was_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], violations: tuple[str, ...], status: int
) -> None:
    """One table, non-zero on any violation."""
    run = RUNS[0]
    monkeypatch.setattr(bench, "play", lambda run, **_: Outcome(run, [_table(*violations)], 1.0))
    monkeypatch.setattr("signal.signal", lambda *_: None)

    assert main([run.name, "--seed", "7"]) == status

    said = capsys.readouterr().out
    assert f"VIOLATION {run.name}: second: one was submitted twice" in said or not violations
    assert "seed 7" in said
    assert said.count(f"| {run.name} ") == 1


def test_the_one_table_has_a_row_for_each_run() -> None:
    """Goals, what, trials, violations, seconds."""
    lines = table_of([Outcome(run, [_table()], 2.0) for run in RUNS]).splitlines()

    assert len(lines) == len(RUNS) + 3
    assert all(run.what in line for run, line in zip(RUNS, lines[2:], strict=False))
    assert f"| {3 * len(RUNS)} " in lines[-1]


def test_the_page_is_made_from_the_figures_of_commits_and_no_rule_was_broken() -> None:
    """The figures are kept with seed, commit and duration, and the page's table is made from them."""
    runs = kept()

    assert table_of_runs(runs) in PAGE.read_text(encoding="utf-8")
    assert {one.name for one in RUNS} <= runs.keys()
    for name, figures in runs.items():
        assert figures["violations"] == 0, name
        assert figures["duration_seconds"] > 0
        assert {"seed", "form", "trials", "commit"} <= figures.keys()


def test_a_run_takes_the_place_of_its_last_one(tmp_path: Path) -> None:
    """One row for each run, in the page and in the figures."""
    page, file = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text("above\n<!-- runs -->\nold\n<!-- end of runs -->\nbelow\n", encoding="utf-8")
    for seed in (7, 8):
        keep(Outcome(RUNS[0], [_table()], 2.0), seed=seed, is_long=True, file=file, page=page)

    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert text.count(f"| `{RUNS[0].name}` |") == 1
    assert [one["seed"] for one in kept(file).values()] == [8]


def test_the_pieces_of_a_run_add_up_and_each_takes_the_place_of_its_last_one(tmp_path: Path) -> None:
    """The row is the whole run's: its trials and violations, by piece; and what runs all of it again."""
    page, file = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text("<!-- runs -->\n<!-- end of runs -->\n", encoding="utf-8")
    whole = next(one for one in RUNS if one.pieces)
    first, second = whole.pieces[:2]
    broken = []
    for piece, violations in ((first, ["told twice"]), (second, []), (first, [])):
        keep(Outcome(piece, [_table(*violations)], 2.0), seed=7, is_long=True, file=file, page=page)
        broken.append(kept(file)[whole.name]["violations"])
    assert broken == [1, 1, 0]

    (name,) = kept(file)
    assert name == whole.name
    figures = kept(file)[name]
    assert list(figures["pieces"]) == [first.name, second.name]
    assert (figures["trials"], figures["violations"], figures["duration_seconds"]) == (6, 0, 4)
    assert figures["command"].endswith(f"ONLY={whole.name}")
    assert figures["pieces"][second.name]["command"].endswith(f"ONLY={second.name}")
