"""A pytest plugin that writes down how each test ended, and whether it was an assertion of a test that failed.

It is told by the environment: `MUTANTS_REPORT` is the file to write, `MUTANTS_TRIED` the names of the mutants whose tests
are to run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.mutant import mutants

REPORT: Final = "MUTANTS_REPORT"
TRIED: Final = "MUTANTS_TRIED"
PASSED: Final = "passed"
ASSERTION: Final = "assertion"
ERROR: Final = "error"

_ended: dict[str, tuple[str, str]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the parameter sets that no mutant asks for."""
    if names := os.environ.get(TRIED, "").split():
        tried = [*mutants(names)]
        items[:] = [item for item in items if any(one.is_tried_by(item.nodeid) for one in tried)]


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Judge each phase of each test by what it raised; the report itself is left to pytest."""
    if call.excinfo is None:
        if call.when == "call":
            _ended.setdefault(item.nodeid, (PASSED, ""))
    else:
        said = f"{call.excinfo.typename}: {call.excinfo.value}".splitlines()[0]
        is_assertion = call.when == "call" and _is_assertion(call.excinfo, item.config.rootpath)
        _ended[item.nodeid] = (ASSERTION if is_assertion else ERROR, said)


def pytest_sessionfinish() -> None:
    """Write it all down."""
    Path(os.environ[REPORT]).write_text(json.dumps(_ended), encoding="utf-8")


def _is_assertion(raised: pytest.ExceptionInfo[BaseException], root: Path) -> bool:
    """Whether a test, or a tool that tests share, said what it had expected: no time-out, no assertion of the program."""
    if raised.errisinstance(pytest.fail.Exception):
        return not str(raised.value).startswith("Timeout")
    at = Path(raised.traceback[-1].path)
    is_of_tests = any(at.is_relative_to(root / place) for place in ("tests", "wake_bridge/testing"))
    return raised.errisinstance(AssertionError) and is_of_tests
