"""The ledger against models, on two real connections: what is gathered, what a person said, who wins a race."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.properties.coalescer_machine import Gathering
from tests.properties.commands_machine import CommandsBesideADaemon

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
MANY = 1000
MACHINES = pytest.mark.parametrize("machine", [Gathering, CommandsBesideADaemon])


@MACHINES
def test_the_ledger_does_what_the_model_says(machine: type[RuleBasedStateMachine]) -> None:
    """Joining never postpones, one unfrozen delivery, a word of a person holds, one of two racers wins."""
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=40, stateful_step_count=25, suppress_health_check=QUIET),
    )


@pytest.mark.torture
@pytest.mark.timeout(3600)
@MACHINES
def test_the_same_for_many_histories(
    machine: type[RuleBasedStateMachine], record_property: Callable[[str, object], None]
) -> None:
    """The same, a thousand times over."""
    record_property("trials", MANY)
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=MANY, stateful_step_count=60, suppress_health_check=QUIET),
    )
