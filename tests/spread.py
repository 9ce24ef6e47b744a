"""How the tests are spread over the workers: who waits for panes first, and each test by itself where nothing is shared.

A worker that is given the longest file last works alone for minutes. So the end-to-end tests begin, those whose rooms
are shared by a whole file stay together, and what is over in milliseconds fills the gaps at the end.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).parents[1]
LONG: Final = ("tests/end_to_end/", "tests/integration/", "tests/security/", "tests/properties/")
"""Folders whose tests take seconds, the longest first."""


class Spread(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker one test, or one file where its tests share what they have started."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if is_shared(path) else nodeid


@functools.cache
def is_shared(path: str) -> bool:
    """Whether the tests of a file, named from the root, are to run in one worker."""
    folder = (ROOT / path).parent
    fixtures = [ROOT / path, folder / "conftest.py", folder.parent / "conftest.py"]
    return not path.startswith(LONG) or any(
        'scope="module"' in one.read_text(encoding="utf-8")
        for one in fixtures
        if one.exists() and one.parent != ROOT / "tests"
    )


def begins(item: pytest.Item) -> tuple[int, bool]:
    """The place of a test's file among the others; those of one place stay as they are."""
    path = item.nodeid.partition("::")[0]
    folder = next((at for at, one in enumerate(LONG) if path.startswith(one)), len(LONG))
    return folder, not is_shared(path)
