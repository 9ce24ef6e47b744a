"""Some of the operations of one wake fail, in every way they can; `make torture` has each of them fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torture.operation_faults import FaultRig, Series, every_series, run_series, show
from wake_bridge.testing.tmux_server import PrivateTmux

pytestmark = pytest.mark.timeout(240)

EVERY = {"ledger": 90, "ledger-write": 20, "file": 11, "file-write": 3, "adapter": 6, "tmux": 11}
"""The steps in which N goes up for each kind: two or three faults, and a wake that meets none."""

FIRST = {"ledger": 7, "ledger-write": 2, "file": 2, "file-write": 1, "adapter": 2, "tmux": 3}


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
    run_series(rig, series, EVERY[series.kind], FIRST[series.kind])
    show([series])
    assert series.violations == []
    assert series.operations
