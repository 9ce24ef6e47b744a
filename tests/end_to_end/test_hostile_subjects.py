"""Hostile subjects through the whole of it into real panes, twenty of them; `make torture` sends thousands."""

from __future__ import annotations

import pytest

from tests.torture.hostility import HARMLESS, NOT_A_BYTE, Mailbox, Subject, run_subject, send_subjects
from tests.torture.report import Table
from tests.torture.rig import Rig
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(400)  # all trials of a table in one go, on a machine that may be busy

SEED = 5


def test_a_hostile_subject_is_one_harmless_paste_and_one_enter(
    tmux: PrivateTmux, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Text from the graph is made harmless once: 0 control bytes, 0 extra submits, 0 commands run."""
    table = send_subjects(tmp_path_factory.mktemp("hostile"), tmux, count=20, after_exit=4, seed=SEED)
    table.show()
    assert table.violations == []
    assert (table.count(HARMLESS), table.count(NOT_A_BYTE)) == (20, 4)


def test_a_letter_under_many_marks_does_not_leave_its_wake_unsent(
    tmux: PrivateTmux, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tmux drops marks, and what the screen shows would never be what was pasted."""
    table = Table("marks", "", "subject", (HARMLESS, "harm"))
    with Rig(tmp_path_factory.mktemp("marks"), tmux, ["marks"], before_shell=True) as rig:
        rig.daemon()
        box = Mailbox(rig, rig.agents[0])
        for marks in (12, 60):
            table.add(*run_subject(box, Subject("Z" + "\u0300\u0489" * marks, f"{marks} pairs")))
    table.show()
    assert table.violations == []
    assert table.count(HARMLESS) == 2
