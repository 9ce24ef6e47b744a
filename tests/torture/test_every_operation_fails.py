"""Each operation of one wake fails once, in every way it can: the full form, several hundred wakes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from tests.torture.operation_faults import ABOUT, as_json, fail_everything, markdown, show
from tests.torture.reliability import write_section
from wake_bridge.testing.tmux_server import PrivateTmux

pytestmark = [pytest.mark.torture, pytest.mark.timeout(3600)]

COMMAND: Final = "pytest -m torture -s -p no:randomly tests/torture/test_every_operation_fails.py"
LANES: Final = 10
STRIPES: Final = 4


def test_whatever_fails_once_the_wake_arrives_or_is_known_to_be_unknown(directory: Path, tmux: PrivateTmux) -> None:
    """README, the promise; DESIGN §6: each operation of a wake fails once, and the bridge recovers by itself."""
    began = time.monotonic()
    series = fail_everything(directory, tmux, lanes=LANES, stripes=STRIPES)
    show(series)
    text = f"## Every operation of one wake fails once\n\n{ABOUT}\n\n{markdown(series)}"
    write_section("operation-faults", COMMAND, text, as_json(series), seconds=time.monotonic() - began)
    assert not [violation for one in series for violation in one.violations]
    assert all(one.operations for one in series), "a way to fail that never failed"
