"""Runs of goals that tests of the suite measure already."""

from __future__ import annotations

from typing import Final

from tests.torture.run import Run
from tests.torture.suites import suite

TESTED: Final = (
    Run(
        "locked-graph",
        ("G-S5",),
        "an exclusive lock on the graph for 60 s",
        suite(
            "A locked graph",
            "end_to_end/test_bad_input.py::test_a_locked_graph_is_waited_for",
            "integration/test_tail_trouble.py::test_a_locked_graph_leaves_the_cursor_and_is_asked_twice_a_second_at_most",
            "integration/test_tail_trouble.py::test_a_graph_locked_at_the_start_is_waited_for",
            is_full=True,
        ),
        mostly_waits=True,
    ),
    Run(
        "schema",
        ("G-S9",),
        "a graph that is none, or is one no more",
        suite(
            "What is no graph",
            "end_to_end/test_bad_input.py::test_what_is_no_graph_ends_with_4_and_is_left_as_it_is",
            "integration/test_tail_trouble.py::test_a_file_that_is_no_graph_in_its_place_is_waited_out",
            "integration/test_tail_trouble.py::test_without_a_graph_the_start_fails",
            "integration/test_tail_trouble.py::test_a_columns_change_while_running_breaks_nothing",
            "integration/doctor",
        ),
    ),
    Run(
        "panes",
        ("G-T5", "G-T8"),
        "shells, dialogs, modes, dead panes, in every room and company",
        suite(
            "What a pane may show or be",
            "end_to_end/test_obstacles.py",
            "screens/test_screen_fuzz.py",
            only_long=["integration/tmux/test_trap_matrix.py"],
        ),
    ),
    Run(
        "bad-rows",
        ("G-S6",),
        "a thousand bad rows among ten thousand",
        suite(
            "Rows that no service would write",
            "integration/test_tail_fuzz.py",
            "integration/graph/test_graph_hostile_rows.py",
            "integration/test_sqlite_graph_large.py",
            "end_to_end/test_bad_input.py::test_broken_rows_are_set_aside_and_the_good_ones_between_them_wake",
            "end_to_end/test_large_rows.py",
        ),
    ),
    Run(
        "stale-actors",
        ("G-P2",),
        "races of owners and commands, and the tail's whole life, against models",
        suite(
            "Histories against models",
            "properties/test_ledger_models.py",
            "properties/test_tail_model.py",
            "integration/test_ledger_moves.py",
            "properties/test_answers_survive.py",
            "integration/test_answer_races.py",
        ),
    ),
    Run(
        "illegal-moves",
        ("G-P3",),
        "all 36 pairs of states, at the database",
        suite("Illegal moves", "integration/test_ledger_refusals.py", "unit/test_delivery.py"),
    ),
    Run(
        "poison",
        ("G-H2",),
        "an adapter that always fails: the delivery ends, the others go on",
        suite(
            "Deliveries that cannot succeed",
            "integration/test_gate.py::test_an_adapter_that_keeps_failing_ends_in_failed",
            "integration/test_recovery.py::test_an_adapter_that_breaks_its_promise_holds_its_own_wakes_and_stops_nobody",
            "end_to_end/test_daemon_life.py::test_once_exits_1_when_a_delivery_failed_in_this_run_and_retry_opens_it_again",
        ),
    ),
    Run(
        "own-mail",
        ("G-H5",),
        "a broadcast wakes everybody but its sender",
        suite(
            "Mail to oneself",
            "integration/test_tail.py::test_a_broadcast_wakes_its_audience_once_and_never_its_sender",
            "integration/test_tail.py::test_a_broadcast_whose_audience_is_recorded_reaches_nobody_else",
            "integration/test_tail.py::test_mail_to_oneself_waits_for_the_next_turn",
            "unit/test_matching.py",
        ),
    ),
    Run(
        "access",
        ("G-X1",),
        "modes, owners, peers and planted paths",
        suite(
            "Who may read, write and ask",
            "security/test_private_modes.py",
            "security/test_untrusted_places.py",
            "security/test_control_peers.py",
            "security/test_planted_paths.py",
        ),
    ),
    Run(
        "secrets", ("G-X2",), "a canary in bodies, keys and tokens", suite("The canary", "security/test_canary_run.py")
    ),
)
