"""The figures of load as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.benchmarks.figures import markdown
from tests.torture.flood import Flood
from tests.torture.load import Latency, Step
from tests.torture.troubles import Trouble


def curve_table(steps: Sequence[Step]) -> str:
    """A row for each number of panes."""
    head = (
        "panes", "idle CPU, % of a core", "tmux server meanwhile", "tmux calls a minute, idle", "tmux calls a wake", "RSS, MB",
        "all known after, s", "load",
    )  # fmt: skip
    rows = [
        (
            str(one.panes),
            f"{statistics.median(one.idle_cpu):.2f}",
            f"{statistics.median(one.tmux_cpu):.2f}",
            f"{one.calls_a_minute:.0f}",
            f"{one.calls_a_wake:.1f}",
            f"{one.resident:.0f}",
            f"{one.known_after:.1f}",
            f"{one.load:.1f}",
        )
        for one in steps
    ]
    return _table(head, rows)


def latency_table(latencies: Sequence[Latency]) -> str:
    """A row for each number of panes."""
    head = (
        "panes", "one by one: p50, ms", "p99", "max", "all at once: p50, ms", "the last, ms", "wakes a second",
        "processor time a wake, ms", "load",
    )  # fmt: skip
    rows = [
        (
            str(one.panes),
            f"{one.in_turn.p50:.0f}",
            f"{one.in_turn.p99:.0f}",
            f"{max(one.in_turn.times):.0f}",
            f"{one.at_once.p50:.0f}",
            f"{max(one.at_once.times):.0f}",
            f"{1000 * one.panes / max(one.at_once.times):.0f}",
            f"{one.processor_ms:.0f}",
            f"{one.at_once.load:.1f}",
        )
        for one in latencies
    ]
    return _table(head, rows)


def flood_table(floods: Sequence[Flood]) -> str:
    """A row for each flood."""
    head = (
        "panes", "window, s", "events", "told", "lost", "most wakes of a pane in 60 s", "storms' notices, each",
        "CPU, % of a core", "RSS: start → end → after, MB", "rows behind at the end", "all told after, s", "load",
    )  # fmt: skip
    rows = [
        (
            str(one.panes),
            str(one.window),
            str(one.sent),
            str(one.told),
            str(len(one.wrong)),
            str(one.most_a_minute),
            str(one.notices),
            f"{one.cpu:.0f}",
            f"{one.resident[0]:.0f} → {one.resident[-1]:.0f} → {one.resident_after:.0f}",
            str(one.lag),
            f"{one.told_after:.0f}",
            f"{one.load:.1f}",
        )
        for one in floods
    ]
    return _table(head, rows)


def trouble_table(troubles: Sequence[Trouble]) -> str:
    """A row for each kind of trouble; the first is none."""
    quiet = troubles[0].others
    head = (
        "one is in trouble",
        "wakes of the others",
        "p50, ms",
        "p99, ms",
        "p99 grew by, ms",
        "max, ms",
        "lost",
        "load",
    )
    rows = [
        (
            one.name,
            str(len(one.others.times)),
            f"{one.others.p50:.0f}",
            f"{one.others.p99:.0f}",
            f"{one.others.p99 - quiet.p99:+.0f}",
            f"{max(one.others.times):.0f}",
            str(one.others.lost),
            f"{one.others.load:.1f}",
        )
        for one in troubles
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown("", head, rows).partition("### ")[2].lstrip().rstrip()
