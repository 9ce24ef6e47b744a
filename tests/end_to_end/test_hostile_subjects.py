"""Hostile subjects through the whole of it into real panes, forty of them; `make torture` sends 300."""

from __future__ import annotations

import pytest

from tests.torture.hostility import HARMLESS, NOT_A_BYTE, send_subjects
from wake_bridge.testing.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(400)  # all trials of a table in one go, on a machine that may be busy

SEED = 5


def test_a_hostile_subject_is_one_harmless_paste_and_one_enter(
    tmux: PrivateTmux, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """DESIGN §4: text from the graph is made harmless once: 0 control bytes, 0 extra submits, 0 commands run."""
    table = send_subjects(tmp_path_factory.mktemp("hostile"), tmux, count=40, after_exit=4, seed=SEED)
    table.show()
    assert table.violations == []
    assert (table.count(HARMLESS), table.count(NOT_A_BYTE)) == (40, 4)
