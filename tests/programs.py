"""Programs of the system that a test needs."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(*programs: str) -> None:
    """Skip the test where one of them is not on PATH; where CI is set, that is a failure."""
    for program in programs:
        if shutil.which(program) is None:
            if os.environ.get("CI"):
                pytest.fail(f"{program} is not installed, and CI is set")
            pytest.skip(f"{program} is not installed")
