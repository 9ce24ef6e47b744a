"""Every line of the threat model in SECURITY.md points at tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
LINK = re.compile(r"`(test_\w+\.py)::(\w+)`")


def _rows() -> list[str]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| what is hostile")]


def test_every_line_of_the_threat_model_has_a_test() -> None:
    """A test per line."""
    assert len(_rows()) > 30
    assert [row for row in _rows() if not LINK.search(row)] == []


def test_every_test_that_the_threat_model_names_exists() -> None:
    """A test that was renamed takes its line along."""
    missing = [
        f"{file}::{name}"
        for file, name in LINK.findall(PAGE)
        if file not in TESTS or f"def {name}(" not in TESTS[file].read_text(encoding="utf-8")
    ]

    assert missing == []


def test_every_test_of_the_threat_model_is_named_by_it() -> None:
    """What tests/security shows is said; but for those about the tests and rules themselves."""
    named = {name for _, name in LINK.findall(PAGE)}
    shown = {
        name
        for file in sorted((ROOT / "tests" / "security").glob("test_*.py"))
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert shown - named == {
        "test_a_configuration_may_still_come_from_a_pipe_that_a_shell_made",
        "test_a_users_own_group_is_told_by_its_name_and_members",
        "test_the_list_of_writers_names_every_module_that_opens_for_writing",
    }
