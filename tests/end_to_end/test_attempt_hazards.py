"""What can happen to an attempt between its look and its proof, each once; `make torture LONG=1` does it twenty times."""

from __future__ import annotations

import pytest

from tests.torture.bouts import Hazard
from tests.torture.hazards import HAZARDS, meet_hazards
from tests.torture.report import Table
from tests.torture.writers import wake_at_once
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(400)  # all trials of a table in one go, on a machine that may be busy


@pytest.fixture(scope="module")
def table(tmux_program: str, tmp_path_factory: pytest.TempPathFactory) -> Table:  # noqa: ARG001 - asked for what it demands
    """All hazards, several lanes at once."""
    with PrivateTmux() as tmux:
        found = meet_hazards(tmp_path_factory.mktemp("hazards"), tmux, times=1)
    found.show()
    return found


@pytest.mark.parametrize("hazard", HAZARDS, ids=str)
def test_a_hazard_between_look_and_proof_breaks_no_rule(table: Table, hazard: Hazard) -> None:
    """No dialog is answered, no shell and no other agent gets a byte, what cannot be decided is unknown."""
    assert table.violations_of(str(hazard)) == []
    assert table.rows[str(hazard)].total() == 1


def test_several_writers_of_one_pane_never_type_into_each_other(
    tmux: PrivateTmux, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One writer per pane, across all processes."""
    table = wake_at_once(tmp_path_factory.mktemp("shared"), tmux, count=4)
    table.show()
    assert table.violations == []
    assert table.trials == 4
