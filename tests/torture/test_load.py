"""Load and two readers: a short form of less than a minute each, and with `WAKE_BRIDGE_LOAD=long` the figures of the docs.

Figures depend on what else the machine does; what is asserted does not.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.torture import two_readers
from tests.torture.flood import flood
from tests.torture.load import curve, latencies
from tests.torture.load_report import curve_table, flood_table, latency_table, trouble_table
from tests.torture.reliability import keep_run
from tests.torture.troubles import TROUBLES, troubles
from wake_bridge.demo.tmux_server import PrivateTmux

pytestmark = [pytest.mark.torture, pytest.mark.timeout(7200)]

IS_LONG: Final = os.environ.get("WAKE_BRIDGE_LOAD") == "long"
COMMAND: Final = "WAKE_BRIDGE_LOAD=long pytest -m torture -s -p no:randomly tests/torture/test_load.py -k {}"

MOST_CALLS_A_MINUTE: Final = 90
"""Of tmux, while nothing happens, however many panes there are: thirty surveys, and one look a round."""

MOST_CALLS_A_WAKE: Final = 25
"""Of tmux, from the row to the proof; surveys that come sooner because something changed are among them."""

GROWS_BY: Final = 1000.0
"""Milliseconds that the others' p99 may grow by while one identity is in trouble (G-H1)."""


def _figures(what: str, trials: int, violations: int, *goals: str) -> dict[str, Any]:
    return {
        "goals": [*goals],
        "what": what,
        "form": "long",
        "seed": None,
        "trials": trials,
        "violations": violations,
    }


def _keep(name: str, asked: str, figures: dict[str, Any], began: float) -> None:
    """Leave a row in `docs/reliability.md`; its tables belong into `docs/scale.md`, by hand."""
    keep_run(name, COMMAND.format(asked), figures, seconds=time.monotonic() - began)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new directory with a short name."""
    return tmp_path_factory.mktemp("load")


def test_a_second_reader_and_a_busy_writer_are_not_disturbed(
    place: Path, tmux: PrivateTmux, program: tuple[str, ...]
) -> None:
    """G-S8: the same rows for both readers, no error, no checkpoint held back, not a byte that is not the writer's."""
    began = time.monotonic()
    runs = two_readers.compare(place, tmux, program, seconds=60 if IS_LONG else 12, pairs=3 if IS_LONG else 1)
    table = two_readers.markdown(runs)
    print(f"\n{table}")
    if IS_LONG:
        violations = sum(len(one.violations) for one in runs)
        figures = _figures("a second reader and a busy writer are not disturbed", len(runs), violations, "G-S8")
        result = f"largest WAL × {two_readers.wal_ratio(runs):.2f} with us over without"
        _keep("two-readers", "second_reader", {**figures, "result": result}, began)
    assert not [wrong for one in runs for wrong in one.violations]
    assert two_readers.wal_ratio(runs) <= two_readers.WAL_GROWTH


@pytest.mark.usefixtures("tmux_program")
def test_cost_by_the_number_of_panes(place: Path, program: tuple[str, ...]) -> None:
    """200 panes and identities on one server; calls of tmux per wake and per idle minute are few."""
    began = time.monotonic()
    sizes = (5, 20, 50, 100, 200) if IS_LONG else (20,)
    stretch, stretches, counted = (30, 2, 60) if IS_LONG else (5, 1, 10)
    steps = curve(place, program, sizes, stretch=stretch, stretches=stretches, counted=counted)
    table = curve_table(steps)
    print(f"\n{table}")
    if IS_LONG:
        calls = max(one.calls_a_minute for one in steps)
        result = f"at most {calls:.0f} tmux calls a minute with up to {sizes[-1]} panes"
        figures = _figures("cost by the number of panes", len(steps), sum(one.lost for one in steps))
        _keep("load-curve", "panes", {**figures, "result": result}, began)
    assert not any(one.lost for one in steps)
    assert max(one.calls_a_minute for one in steps) <= MOST_CALLS_A_MINUTE
    assert max(one.calls_a_wake for one in steps) <= MOST_CALLS_A_WAKE


def test_latency_by_the_number_of_agents(place: Path, tmux: PrivateTmux, program: tuple[str, ...]) -> None:
    """P50 and p99 from commit to submit; for `chrt -r 1`, which makes a busy machine a quiet one."""
    began = time.monotonic()
    sizes, wakes = ((5, 20, 50, 100, 200), 100) if IS_LONG else ((10,), 10)
    found = latencies(place, tmux, program, sizes, wakes=wakes)
    table = latency_table(found)
    print(f"\n{table}")
    if IS_LONG:
        slowest = max(one.in_turn.p99 for one in found)
        lost = sum(one.in_turn.lost + one.at_once.lost for one in found)
        figures = _figures("how long wakes take by the number of agents", len(found), lost)
        _keep("load-latency", "agents", {**figures, "result": f"p99 at most {slowest:.0f} ms, one by one"}, began)
    assert not any(one.in_turn.lost + one.at_once.lost for one in found)


@pytest.mark.parametrize(
    ("window", "panes", "most", "storms"),
    [
        (30, 200, 3, 0),
        (0, 200, 8, 0),
        pytest.param(0, 10, 8, 1, marks=pytest.mark.skipif(not IS_LONG, reason="minutes")),
    ],
)
def test_a_flood_is_a_few_wakes_and_loses_nothing(
    place: Path, tmux: PrivateTmux, program: tuple[str, ...], window: int, panes: int, most: int, storms: int
) -> None:
    """G-H3: ≤ 3 wakes a minute at window 30, ≤ 8 and one notice at window 0, nothing lost, memory flat."""
    began = time.monotonic()
    rate, seconds = (1000, 60) if IS_LONG else (300, 15)
    panes = panes if IS_LONG else panes // 10
    found = flood(place, tmux, program, panes=panes, window=window, rate=rate, seconds=seconds)
    table = flood_table([found])
    print(f"\n{table}")
    if IS_LONG:
        what = f"{found.sent:,} events in {seconds} s for {panes} panes, window {window} s"
        lost = abs(found.sent - found.told) + len(found.wrong)
        result = f"{found.told:,} told, at most {found.most_a_minute} wakes a minute, {found.notices} notices"
        figures = _figures(what, found.sent, lost, "G-H3")
        _keep(f"flood-{panes}-window-{window}", "flood", {**figures, "result": result}, began)
    assert (found.told, found.wrong, found.held_open) == (found.sent, [], 0)
    assert found.most_a_minute <= most
    assert storms <= found.notices <= 1
    # what a digest of thousands of events takes is given back or used again, not added to
    assert found.growth < 25


def test_what_hangs_or_is_slow_is_nobody_elses_trouble(
    place: Path, tmux: PrivateTmux, program: tuple[str, ...]
) -> None:
    """G-H1: a program that does not read, a hung call, a slow identity: the others' p99 grows by a second at most."""
    began = time.monotonic()
    names = TROUBLES if IS_LONG else ("nothing", "hung calls")
    found = troubles(place, tmux, program, panes=50 if IS_LONG else 12, wakes=120 if IS_LONG else 15, names=names)
    table = trouble_table(found)
    print(f"\n{table}")
    if IS_LONG:
        grew = max(one.others.p99 for one in found) - found[0].others.p99
        lost = sum(one.others.lost for one in found)
        figures = _figures("one identity in trouble: the others' wakes", len(found), lost, "G-H1")
        _keep("load-troubles", "slow", {**figures, "result": f"the others' p99 grew by at most {grew:.0f} ms"}, began)
    assert not any(one.others.lost for one in found)
    assert max(one.others.p99 for one in found) <= found[0].others.p99 + GROWS_BY
