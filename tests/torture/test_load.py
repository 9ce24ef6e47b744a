"""Load and two readers: a short form of less than a minute each, and with `WAKE_BRIDGE_LOAD=long` the figures of the docs.

Figures depend on what else the machine does; what is asserted does not.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from tests.torture import two_readers
from tests.torture.flood import flood
from tests.torture.load import curve, latencies
from tests.torture.load_report import curve_table, flood_table, latency_table, trouble_figures, trouble_table
from tests.torture.reliability import write_section
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
        text = f"## Two readers and a busy writer\n\n{two_readers.ABOUT}\n\n{table}"
        figures = [one.figures() for one in runs]
        command = COMMAND.format("second_reader")
        write_section("two-readers", command, text, figures, seconds=time.monotonic() - began)
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
        text = f"## Load: cost by the number of panes\n\n[What it means](scale.md).\n\n{table}"
        figures = [one.figures() for one in steps]
        write_section(
            "load-curve", f"chrt -r 1 env {COMMAND.format('panes')}", text, figures, seconds=time.monotonic() - began
        )
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
        text = f"## Load: how long wakes take by the number of panes\n\n[What it means](scale.md).\n\n{table}"
        figures, command = [one.figures() for one in found], f"chrt -r 1 env {COMMAND.format('agents')}"
        write_section("load-latency", command, text, figures, seconds=time.monotonic() - began)
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
        text = f"## A flood of {rate} events a second for {panes} panes, window {window} s\n\n{table}"
        command = COMMAND.format("flood")
        write_section(f"flood-{panes}-window-{window}", command, text, asdict(found), seconds=time.monotonic() - began)
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
        text = f"## One identity in trouble\n\n{table}"
        command = COMMAND.format("slow")
        write_section("load-troubles", command, text, trouble_figures(found), seconds=time.monotonic() - began)
    assert not any(one.others.lost for one in found)
    assert max(one.others.p99 for one in found) <= found[0].others.p99 + GROWS_BY
