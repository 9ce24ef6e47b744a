"""The cursor: what can be known is known once, however the log is pruned, replaced or counted anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.tail_machine import FollowedLog

MANY = 1000
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_no_life_of_the_log_and_no_death_of_the_tail_loses_or_doubles_a_message() -> None:
    """Never skips inside an epoch, looks back in a new one, and a known subject never wakes again."""
    run_state_machine_as_test(
        FollowedLog,
        settings=settings(max_examples=15, stateful_step_count=15, suppress_health_check=QUIET),
    )


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_the_same_for_many_lives(record_property: Callable[[str, object], None]) -> None:
    """The same, a thousand times over."""
    record_property("trials", MANY)
    run_state_machine_as_test(
        FollowedLog,
        settings=settings(max_examples=MANY, stateful_step_count=40, suppress_health_check=QUIET),
    )
