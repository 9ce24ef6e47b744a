"""The suite of real programs, where there are none (`make test-harness`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.table import IN_STATES, OF_ATTENTION, PAGE, Sheet, kept, table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("sheet", [IN_STATES, OF_ATTENTION], ids=lambda sheet: sheet.mark)
def test_the_page_shows_what_the_last_runs_gave(sheet: Sheet) -> None:
    """Presence one can trust: figures in docs/harnesses.md; `make test-harness` renews them."""
    page = PAGE.read_text(encoding="utf-8")

    assert page.partition(sheet.begin)[2].partition(sheet.end)[0] == table(kept(sheet), sheet)


def test_a_program_that_is_not_installed_is_no_pass(tmp_path: Path) -> None:
    """Presence one can trust: `make test-harness` exits non-zero if one of the five was skipped, and says which."""
    before = PAGE.read_bytes()
    nowhere = {**os.environ, "WAKE_BRIDGE_TEST_HARNESSES": str(tmp_path), "PATH": "/usr/bin:/bin"}
    selected = {**nowhere, "WAKE_BRIDGE_TEST_ONLY": "codex"}

    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "harness",
            "-s",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "tests/harness",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=selected,
        timeout=100,
    )

    assert run.returncode == 1, run.stdout
    assert "codex is not installed: `make harnesses` installs it" in run.stdout
    assert "18 skipped" in run.stdout
    assert PAGE.read_bytes() == before
