"""The real programs, offline, in every state (`make test-harness`; `make test-harness ONLY=codex`).

Claude Code, Codex, Gemini CLI, OpenCode and aider run in panes of their own against a mock model, whose request log is
the proof of what reached them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.harness.cells import run_cell, run_ten
from tests.harness.house import House
from tests.harness.states import STATES, State
from tests.harness.table import FAIL, TEN
from tests.harness.tenancy import ONLY, Tenancy

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("tenancy", ONLY, indirect=True, scope="module"),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it(tenancy: Tenancy, state: State) -> None:
    """The true reason is named, no key goes in before, and what the model reads is the digest, once."""
    _judged(tenancy, state.name, lambda house: run_cell(house, state))


def test_ten_of_ten_wakes_reach_an_idle_program(tenancy: Tenancy) -> None:
    """Presence one can trust: 10 of 10, whatever the subjects hold."""
    _judged(tenancy, TEN, run_ten)


def _judged(tenancy: Tenancy, row: str, run: Callable[[House], str]) -> None:
    """Run a cell and note what came of it; a house in which a rule was broken is given up."""
    name, start = tenancy.program.name, time.monotonic()
    result = FAIL
    try:
        result = run(tenancy.house)
    except BaseException:
        tenancy.give_up()
        raise
    finally:
        tenancy.results.put(name, row, result, time.monotonic() - start)
