"""Every kind of fault in docs/faults.md points at tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pages.names import with_holds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
TESTS = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
TRAP_TABLE = (ROOT / "tests" / "integration" / "tmux" / "trap_table.py").read_text(encoding="utf-8")
LINK = re.compile(r"`(test_\w+\.py)::(\w+)`")
HOLDS = "## What a person is told of a hold"
TRAP = re.compile(r'trap "([^"]+)"')


def _rows() -> list[str]:
    lines = [line for line in PAGE.partition(HOLDS)[0].splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| kind of fault")]


def test_every_kind_of_fault_has_a_test() -> None:
    """Whole kinds of fault: for each, a test named by the right behaviour."""
    without = [row for row in _rows() if not LINK.search(row) and not TRAP.search(row)]

    assert len(_rows()) > 60
    assert without == []


def test_every_test_the_page_names_exists() -> None:
    """A test that was renamed takes its line along."""
    missing = [
        f"{file}::{name}"
        for file, name in LINK.findall(PAGE)
        if file not in TESTS or f"def {name}(" not in TESTS[file].read_text(encoding="utf-8")
    ]
    untabled = [name for name in TRAP.findall(PAGE) if name != "…" and f'"{name}"' not in TRAP_TABLE]

    assert missing == []
    assert untabled == []


def test_the_page_shows_the_table_by_which_holds_are_told() -> None:
    """What `why`, `status`, `deliveries`, `presence` and notices say of a hold is one table, and the page has it."""
    assert with_holds(PAGE) == PAGE, "stale: run `make docs`"
