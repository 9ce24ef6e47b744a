"""The full counts of DESIGN §11: kills, typists, hostile text, hazards. `make torture` runs them; each prints its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture import hazards, hostility, kills, typists, writers
from tests.torture.report import Record
from wake_bridge.testing.tmux_server import PrivateTmux

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1800)]


def test_a_kill_at_any_step_loses_nothing_and_submits_nothing_twice(
    record: Record, directory: Path, tmux: PrivateTmux
) -> None:
    """DESIGN §3: a crash leaves a journal that tells what can have reached the pane; uncertain ones are unknown."""
    table = kills.kill_at_steps(directory, tmux, times=20, seed=record.seed)
    record.keep(table)
    assert not table.violations


def test_kills_at_random_moments_lose_nothing_and_submit_nothing_twice(
    record: Record, directory: Path, tmux: PrivateTmux
) -> None:
    """DESIGN §3: a matched event is never lost from the ledger; a wake is never knowingly submitted twice."""
    table = kills.kill_at_random(directory, tmux, kills=40, seed=record.seed)
    record.keep(table)
    assert not table.violations


def test_a_person_who_types_at_any_moment_is_never_typed_over(
    record: Record, directory: Path, tmux: PrivateTmux
) -> None:
    """DESIGN §11: the draft rule, with keys at random phases of the wake."""
    table = typists.type_at_random(directory, tmux, count=200, seed=record.seed)
    record.keep(table)
    assert not table.violations


def test_a_key_in_a_race_with_ours_is_never_submitted_with_it(
    record: Record, directory: Path, tmux: PrivateTmux
) -> None:
    """DESIGN §6: check and act are one step inside tmux."""
    table = typists.type_at_chosen_moments(directory, tmux, times=24, seed=record.seed)
    record.keep(table)
    assert not table.violations


def test_keys_in_the_pane_beside_keep_no_wake_away(record: Record, directory: Path, tmux: PrivateTmux) -> None:
    """DESIGN §5: keys in other panes do not count."""
    table = typists.type_beside(directory, tmux, count=24)
    record.keep(table)
    assert not table.violations


def test_hostile_subjects_reach_a_pane_as_harmless_text(record: Record, directory: Path, tmux: PrivateTmux) -> None:
    """DESIGN §4: all text from the graph is made harmless; not one control byte, extra submit or command."""
    table = hostility.send_subjects(directory, tmux, count=300, after_exit=16, seed=record.seed)
    record.keep(table)
    assert not table.violations


def test_no_hazard_between_look_and_proof_breaks_a_rule(record: Record, directory: Path, tmux: PrivateTmux) -> None:
    """DESIGN §6: no dialog is answered, no shell and no other agent gets a byte, what cannot be decided is unknown."""
    table = hazards.meet_hazards(directory, tmux, times=6)
    record.keep(table)
    assert not table.violations


def test_a_tmux_server_that_stands_still_breaks_no_rule(record: Record, directory: Path, tmux_program: str) -> None:  # noqa: ARG001
    """DESIGN §6: every external call is bounded, and a time-out proves nothing."""
    table = hazards.stop_tmux(directory, times=4)
    record.keep(table)
    assert not table.violations


def test_several_writers_of_one_pane_never_type_into_each_other(
    record: Record, directory: Path, tmux: PrivateTmux
) -> None:
    """DESIGN §6: one writer per pane, across all processes."""
    table = writers.wake_at_once(directory, tmux, count=30)
    record.keep(table)
    assert not table.violations
