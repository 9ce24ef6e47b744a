"""A real client's keys at any moment of a wake: the draft rule, word for word; `make torture LONG=1` has over 500 trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.draft_rule import AFTER, BY_PERSON, REFUSED, STAGED
from tests.torture.typists import type_at_chosen_moments, type_at_random, type_beside
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(400)  # all trials of a table in one go, on a machine that may be busy

SEED = 23


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new directory with a short name."""
    return tmp_path_factory.mktemp("typist")


def test_a_person_who_types_at_any_moment_is_never_typed_over(tmux: PrivateTmux, directory: Path) -> None:
    """A draft stays as it is, staged text stays unsubmitted and is reported, never submitted together."""
    table = type_at_random(directory, tmux, count=12, seed=SEED)
    table.show()
    assert table.violations == []
    assert table.trials == 12


def test_a_key_at_a_chosen_moment_meets_the_half_of_the_rule_that_is_meant_for_it(
    tmux: PrivateTmux, directory: Path
) -> None:
    """Check and act are one step inside tmux; nothing of a person's comes between them."""
    table = type_at_chosen_moments(directory, tmux, times=1, seed=SEED)
    table.show()
    assert table.violations == []
    assert table.rows["between look and paste"].keys() == {REFUSED}
    assert table.rows["between paste and the last look"].keys() <= {STAGED, BY_PERSON}
    assert table.rows["between the last look and Enter"].keys() <= {STAGED, BY_PERSON}
    assert table.rows["right after Enter"].keys() == {AFTER}


def test_keys_in_the_pane_beside_keep_no_wake_away(tmux: PrivateTmux, directory: Path) -> None:
    """Keys in other panes do not count: five agents beside an editor must not wait all day."""
    table = type_beside(directory, tmux, count=4)
    table.show()
    assert table.violations == []
