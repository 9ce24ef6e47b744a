"""One program lives in its house for all its states; after a broken rule it gets a new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.harness.installed import executable
from tests.harness.programs import PROGRAMS
from tests.harness.table import IN_STATES, OF_ATTENTION, SKIP, Results, version_of
from tests.harness.tenancy import Tenancy


@pytest.fixture(scope="module", autouse=True)
def as_a_person_starts_it(executed_daemons: None) -> None:
    """What meets the real programs is what a person starts."""


@pytest.fixture(scope="session")
def results() -> Iterator[Results]:
    """The table of states: printed at the end; the columns that are whole go into the page."""
    yield from _kept_at_the_end(Results(IN_STATES))


@pytest.fixture(scope="session")
def told() -> Iterator[Results]:
    """The table of what agents stand at."""
    yield from _kept_at_the_end(Results(OF_ATTENTION))


def _kept_at_the_end(results: Results) -> Iterator[Results]:
    yield results
    print(f"\n\n{results.shown()}")
    results.keep()


@pytest.fixture(scope="module")
def tenancy(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
    results: Results,
) -> Iterator[Tenancy]:
    """One program's house. A program that is not there is no reason to pass: its tests fail as skipped."""
    wanted = PROGRAMS[request.param]
    directory = tmp_path_factory.mktemp(wanted.name)
    if executable(wanted) is None:
        for row in IN_STATES.rows:
            results.put(wanted.name, row, SKIP)
        pytest.fail(f"{wanted.name} is not installed: `make harnesses` installs it", pytrace=False)
    results.versions[wanted.name] = version_of(wanted, directory)
    tenancy = Tenancy(wanted, directory, program, results)
    yield tenancy
    with suppress(TimeoutError):
        tenancy.give_up()
