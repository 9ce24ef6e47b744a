"""Goals that tests of the suite measure already: those tests are run, and counted."""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.torture.report import Table, Verdict
from tests.torture.run import Course

ROOT: Final = Path(__file__).parents[2]
ABOUT: Final = "Each row is a test of the suite; its name says what must hold. A test that has many trials in itself says how many."
RESULTS: Final = ("passed", "failed", "not for this machine")
TRIALS: Final = "trials"
"""The property with which a test tells how many trials it had."""


def suite(
    title: str, *tests: str, only_long: Sequence[str] = (), is_full: bool = False
) -> Callable[[Course], list[Table]]:
    """A run that has some tests run; the long form also those of them that are marked `torture`.

    Args:
        title: what they show.
        tests: files, or `file::test` for one of them, from `tests/` on.
        only_long: more of them, for the long form.
        is_full: the short form has those that are marked as well.
    """

    def play(course: Course) -> list[Table]:
        marks = "not benchmark and not harness" + ("" if is_full or course.is_long else " and not torture")
        table = Table(title, ABOUT, "test", RESULTS)
        report = course.directory / "report.xml"
        began = time.monotonic()
        chosen = [*tests, *(only_long if course.is_long else ())]
        answer = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist", "-m", marks),
                *(f"--hypothesis-seed={course.seed}", f"--junitxml={report}", "-o", "junit_family=xunit1"),
                *(f"--basetemp={course.directory / 'pytest'}", *(f"tests/{one}" for one in chosen)),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        table.seconds = time.monotonic() - began
        if not report.exists():
            table.add("pytest", Verdict("failed", (answer.stdout[-4000:] + answer.stderr[-4000:],)))
            return [table]
        for case in ET.parse(report).iter("testcase"):
            _count(table, case)
        table.demand(table.count("passed"), "pytest", f"nothing passed:\n{answer.stdout[-4000:]}")
        return [table]

    return play


def _count(table: Table, case: ET.Element) -> None:
    name = case.get("name", "").partition("[")[0].removeprefix("test_").replace("_", " ")
    told = [one.get("value", "1") for one in case.iter("property") if one.get("name") == TRIALS]
    trials = int(told[0]) if told else 1
    wrongs = [one for one in case if one.tag in {"failure", "error"}]
    if wrongs:
        table.add(name, Verdict("failed", tuple((one.text or one.get("message") or "")[-4000:] for one in wrongs)))
    elif case.find("skipped") is not None:
        table.add(name, Verdict("not for this machine"))
    else:
        table.add(name, Verdict("passed"), trials)
