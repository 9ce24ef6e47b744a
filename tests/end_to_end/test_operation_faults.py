"""Some of the operations of one wake fail, in every way they can; `make torture LONG=1` has each of them fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torture.operation_faults import FaultRig, Series, every_series, run_trial
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(240)

SOME = {"ledger": (9, 60), "ledger-write": (12,), "file": (2,), "file-write": (1,), "adapter": (3,), "tmux": (4, 8)}
"""The operations of each kind that fail here: in the middle of a wake, where most is at stake."""


@pytest.fixture(scope="module")
def rig(tmux_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultRig]:  # noqa: ARG001 - asked for what it demands
    """One agent, and a daemon that a loop keeps running."""
    with (
        PrivateTmux() as tmux,
        FaultRig(tmp_path_factory.mktemp("faults"), tmux, "faults") as made,
        made.kept_running(),
    ):
        yield made


@pytest.mark.parametrize("series", every_series(), ids=str)
def test_an_operation_that_fails_costs_no_wake(rig: FaultRig, series: Series) -> None:
    """README, the promise: the wake arrives once or is reported unknown, and the bridge recovers by itself."""
    for nth in SOME[series.kind]:
        run_trial(rig, series, nth)
    assert series.violations == []
    assert series.operations
