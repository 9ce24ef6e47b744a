"""The mutation check tells a test that noticed from one that broke, and works in a copy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import pytest

from tests.mutants import witness
from tests.mutants.mutant import ROOT, Mutant, StalePatch
from tests.mutants.trial import ERROR, KILLED, SURVIVED, trials
from tests.mutants.workshop import Ended, Workshop

NODE = "tests/test_it.py::test_it"
MUTANT = Mutant("name", "fault", "guard", "file.py", before="a", after="b", test=NODE)
PASSED, ASSERTION = (witness.PASSED, ""), (witness.ASSERTION, "AssertionError: b")

ENDS = """
import pytest
from wake_bridge.domain.guards import QuietHours

def test_passes(): pass
def test_asserts(): assert 1 == 2
def test_expects_an_error():
    with pytest.raises(ValueError): pass
def test_breaks(): raise ValueError("broken")
def test_imports(): import no_such_module
def test_asserts_in_the_program(monkeypatch):
    def broken(self, minutes): assert False
    exec(compile("def minutes_left(self, minutes): assert False", QuietHours.__module__, "exec"), globals())
    minutes_left(None, 1)
@pytest.fixture
def broken(): assert 1 == 2
def test_never_began(broken): pass
@pytest.mark.timeout(0.2)
def test_hangs():
    import time
    time.sleep(5)
"""


@dataclass
class ScriptedWorkshop:
    """Answers what each run comes to, in order."""

    ends: list[Ended]
    patch: Exception | None = None
    broken: list[bool] = field(default_factory=list)
    is_broken: bool = False

    def without(self, mutant: Mutant) -> Self:
        assert mutant is MUTANT
        if self.patch is not None:
            raise self.patch
        return self

    def run(self, tried: list[Mutant]) -> Ended:
        assert tried == [MUTANT]
        self.broken.append(self.is_broken)
        return self.ends.pop(0)

    def __enter__(self) -> None:
        self.is_broken = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.is_broken = False


def test_only_an_assertion_of_a_test_counts_as_noticed(tmp_path: Path) -> None:
    """By assertion, not by error: no import that fails, no fixture, no time-out, no assertion elsewhere."""
    report = tmp_path / "report.json"
    test = tmp_path / "tests" / "test_ends.py"
    test.parent.mkdir()
    test.write_text(ENDS)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", witness.__name__, "--rootdir", str(tmp_path)]

    subprocess.run(
        [*argv, "-p", "no:cacheprovider", str(test)],
        env={**os.environ, witness.REPORT: str(report), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
        capture_output=True,
    )

    ended: Ended = json.loads(report.read_text())
    assert {node.partition("::")[2]: kind for node, (kind, _) in ended.items()} == {
        "test_passes": witness.PASSED,
        "test_asserts": witness.ASSERTION,
        "test_expects_an_error": witness.ASSERTION,
        "test_breaks": witness.ERROR,
        "test_imports": witness.ERROR,
        "test_asserts_in_the_program": witness.ERROR,
        "test_never_began": witness.ERROR,
        "test_hangs": witness.ERROR,
    }


@pytest.mark.parametrize(
    ("ends", "patch", "result"),
    [
        ([{NODE: PASSED}, {NODE: ASSERTION}], None, KILLED),
        ([{NODE: PASSED}, {NODE: PASSED}], None, SURVIVED),
        ([{NODE: PASSED}, {NODE: (witness.ERROR, "ValueError: b")}], None, ERROR),
        ([{NODE: PASSED}, {NODE: ASSERTION, NODE + "[2]": (witness.ERROR, "ValueError: b")}], None, ERROR),
        ([{NODE: PASSED}, {}], None, ERROR),
        ([{NODE: ASSERTION}], None, ERROR),
        ([{}], None, ERROR),
        ([{NODE: PASSED}], StalePatch("stale"), ERROR),
    ],
)
def test_a_mutant_is_killed_only_by_a_test_that_passes_with_the_guard(
    ends: list[Ended], patch: Exception | None, result: str
) -> None:
    """A stale patch, a test that fails anyway, one that does not run: each is an error."""
    workshop = ScriptedWorkshop([*ends], patch)

    (verdict,) = trials(cast("Workshop", workshop), [MUTANT])

    assert verdict.result == result
    assert workshop.ends == []
    assert workshop.broken == [False, True][: len(ends)]


def test_a_guard_is_missing_only_in_the_copy_and_only_for_a_while(tmp_path: Path) -> None:
    """The working tree is never touched, and the copy is whole again before the next mutant."""
    workshop = Workshop(tmp_path)
    mutant = Mutant(
        "name",
        "fault",
        "guard",
        "wake_bridge/domain/text.py",
        before='WIDE_AT: Final = "＠"',
        after='WIDE_AT: Final = "@"',
        test="tests/unit/test_text.py::test_what_nobody_sees_goes_and_what_is_read_stays",
    )
    ours, copy = ROOT / mutant.file, tmp_path / "tree" / mutant.file
    whole = ours.read_text(encoding="utf-8")

    with workshop.without(mutant):
        assert copy.read_text(encoding="utf-8") == mutant.patched(whole)
        assert ours.read_text(encoding="utf-8") == whole
    assert copy.read_text(encoding="utf-8") == whole
