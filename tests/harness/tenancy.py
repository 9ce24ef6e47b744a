"""Which programs are asked for, and the house that each of them has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.harness.house import House
from tests.harness.programs import PROGRAMS, Program
from tests.harness.table import Results

ONLY: Final = os.environ.get("WAKE_BRIDGE_TEST_ONLY", "").replace(",", " ").split() or list(PROGRAMS)
"""The programs that are asked for."""


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
