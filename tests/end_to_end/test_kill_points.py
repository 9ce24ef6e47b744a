"""kill -9 right before and right after every journalled step, each once; `make torture LONG=1` does it over a thousand times."""

from __future__ import annotations

import pytest

from tests.torture.kills import Kill, every_kill, kill_at_random, kill_at_steps
from tests.torture.report import Table
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(400)  # all trials of a table in one go, on a machine that may be busy

SEED = 11


@pytest.fixture(scope="module")
def table(tmux_program: str, tmp_path_factory: pytest.TempPathFactory) -> Table:  # noqa: ARG001 - asked for what it demands
    """All kills, several lanes at once."""
    with PrivateTmux() as tmux:
        found = kill_at_steps(tmp_path_factory.mktemp("kills"), tmux, times=1, seed=SEED)
    found.show()
    return found


@pytest.mark.parametrize("kill", every_kill(), ids=str)
def test_after_a_kill_the_wake_is_submitted_once_or_known_to_be_unknown(table: Table, kill: Kill) -> None:
    """0 lost, 0 submitted twice; what cannot be decided is `unknown`, everything else arrives."""
    assert table.violations_of(str(kill)) == []
    assert table.rows[str(kill)] == {kill.expected: 1}


@pytest.mark.usefixtures("executed_daemons")
def test_kills_at_random_moments_under_load_lose_nothing(
    tmux: PrivateTmux, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A matched event is never lost from the ledger; a wake is never knowingly submitted twice."""
    table = kill_at_random(tmp_path_factory.mktemp("load"), tmux, kills=4, seed=SEED)
    table.show()
    assert table.violations == []
    assert table.trials > 4
