"""Programs that are late at a step of a wake; `make torture ONLY=late` has all steps, from half a second to twenty."""

from __future__ import annotations

import pytest

from tests.torture.late import Cell, be_late
from tests.torture.report import Table
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(300)  # all of them side by side, on a machine that may be busy

CELLS = {
    Cell("draws the paste late", 12, redraws=True): "held, then submitted; 1 paste, 1 Enter, 1 prompt",
    Cell("acts on Enter late", 6, asks=True): "held, then submitted; 1 paste, 1 Enter, 1 prompt",
    Cell("draws everything late", 6, asks=True): "held, then submitted; 1 paste, 1 Enter, 1 prompt",
    Cell("reads Enter late", 6, redraws=True, asks=True): "held, then submitted; 1 paste, 1 Enter, 1 prompt",
}


@pytest.fixture(scope="module")
def table(tmux_program: str, tmp_path_factory: pytest.TempPathFactory) -> Table:  # noqa: ARG001 - asked for what it demands
    """All cells, side by side."""
    with PrivateTmux() as tmux:
        found = be_late(tmp_path_factory.mktemp("late"), tmux, list(CELLS))
    found.show()
    return found


@pytest.mark.parametrize(("cell", "result"), CELLS.items(), ids=map(str, CELLS))
def test_a_program_that_is_late_gets_one_paste_and_one_enter(table: Table, cell: Cell, result: str) -> None:
    """Decision 10: nothing is sent twice because nothing was seen; what is only late arrives."""
    assert table.violations_of(str(cell)) == []
    assert table.rows[str(cell)] == {result: 1}
