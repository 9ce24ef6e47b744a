"""The real programs, offline, in every state (`make test-harness`; `make test-harness ONLY=codex`).

Claude Code, Codex, Gemini CLI, OpenCode and aider run in panes of their own against a mock model, whose request log is
the proof of what reached them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.cells import run_cell, run_ten
from tests.harness.house import House
from tests.harness.states import STATES, State
from tests.harness.tenancy import ONLY, TEN, Tenancy

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("tenancy", ONLY, indirect=True, scope="module"),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it(tenancy: Tenancy, state: State) -> None:
    """DESIGN §§5, 6: the true reason is named, no key goes in before, and what the model reads is the digest, once."""
    _judged(tenancy, state.name, lambda house: run_cell(house, state))


def test_ten_of_ten_wakes_reach_an_idle_program(tenancy: Tenancy) -> None:
    """Presence one can trust: 10 of 10, whatever the subjects hold."""
    _judged(tenancy, TEN, run_ten)


def _judged(tenancy: Tenancy, column: str, run: Callable[[House], str]) -> None:
    """Run a cell and note what came of it; a house in which a rule was broken is given up."""
    name = tenancy.program.name
    tenancy.results.put(name, column, "fail")
    try:
        result = run(tenancy.house)
    except BaseException:
        tenancy.give_up()
        raise
    tenancy.results.put(name, column, result)
