"""Programs of the system that a test needs."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def cannot(why: str) -> NoReturn:
    """Skip the test, since the machine lacks what it needs; where CI is set, that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{why}, and CI is set")
    pytest.skip(why)


def needs(*programs: str) -> None:
    """Skip the test where one of them is not on PATH; where CI is set, that is a failure."""
    for program in programs:
        if shutil.which(program) is None:
            cannot(f"{program} is not installed")
