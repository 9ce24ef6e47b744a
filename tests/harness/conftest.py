"""One program lives in its house for all its states; after a broken rule it gets a new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.house import House
from tests.harness.installed import executable
from tests.harness.programs import PROGRAMS, Program
from tests.harness.states import STATES
from tests.harness.table import SKIPPED, Results, version_of

TEN = "10 wakes in idle"


@pytest.fixture(scope="session")
def results() -> Iterator[Results]:
    """The table: printed at the end, and left in the page after a whole run."""
    results = Results((*(state.name for state in STATES), TEN))
    yield results
    print(f"\n\n{results.markdown()}")
    if results.is_whole:
        results.write()


class Tenancy:
    """The house of one program, built when it is first asked for and again after it was given up."""

    def __init__(self, program: Program, directory: Path, command: tuple[str, ...], results: Results) -> None:
        self.program = program
        self.results = results
        self._directory = directory
        self._command = command
        self._houses = 0
        self._house: House | None = None

    @property
    def house(self) -> House:
        """The house; the program in it is up."""
        if self._house is None:
            self._houses += 1
            directory = self._directory / str(self._houses)
            directory.mkdir()
            house = House(self.program, directory, self._command)
            try:
                self._house = house.__enter__()
            except BaseException:
                house.close()
                raise
        return self._house

    def give_up(self) -> None:
        """End everything in the house."""
        if self._house is not None:
            house, self._house = self._house, None
            house.close()


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
        for column in results.columns:
            results.put(wanted.name, column, SKIPPED)
        pytest.fail(f"{wanted.name} is not installed: `make harnesses` installs it", pytrace=False)
    results.versions[wanted.name] = version_of(wanted, directory)
    tenancy = Tenancy(wanted, directory, program, results)
    yield tenancy
    with suppress(TimeoutError):
        tenancy.give_up()
