"""Two readers: a second consumer, a busy writer and the daemon on one file."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.figures import quantile_of
from tests.torture.crowd import Crowd
from wake_bridge.demo.tmux_server import PrivateTmux

ABOUT: Final = (
    "A process writes 200 transactions a second into a graph in WAL mode: messages in the real order of commits, memories,"
    " messages being read. Another process follows the log by a cursor of its own, as upstream's daemon does. Every run is"
    " made with and without wake-bridge and its five agents, in turn. The writer times each transaction, has the WAL"
    " checkpointed once a second (every fifth time `RESTART`, which any reader with an old snapshot would hold up), and"
    " repeats all it wrote on a copy in memory: the hash of all tables of the file must be that of the copy. A violation is"
    " a row that one of the readers did not see or saw otherwise, an event the ledger lacks, an error of the writer or the"
    " reader, a checkpoint that was busy, or a byte that is not the writer's."
)
AGENTS: Final = 5
RATE: Final = 200
LOOK_EVERY: Final = 0.25
"""Seconds between two looks of the second consumer."""

WAL_GROWTH: Final = 1.05
"""The most that the WAL may be larger at its largest with us than without (G-S8)."""


@dataclass(frozen=True, slots=True)
class Beside:
    """One run of the writer, with the daemon beside it or without."""

    with_daemon: bool
    took: tuple[float, ...]
    """Milliseconds that each transaction took."""
    errors: tuple[str, ...]
    wal: int
    """Bytes of the WAL at its largest."""
    checkpoints: tuple[tuple[str, int, int, int, float], ...]
    """Kind, busy, frames in the WAL, frames copied, seconds."""
    rows: int
    violations: tuple[str, ...]
    load: float

    @property
    def busy(self) -> int:
        """Checkpoints that somebody held up."""
        return sum(one[1] for one in self.checkpoints)

    def figures(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "with_daemon": self.with_daemon,
            "transactions": len(self.took),
            "p50_ms": round(statistics.median(self.took), 3),
            "p99_ms": round(quantile_of(self.took, 0.99), 3),
            "max_ms": round(max(self.took), 2),
            "errors": list(self.errors),
            "wal_max_bytes": self.wal,
            "checkpoints": len(self.checkpoints),
            "checkpoints_busy": self.busy,
            "checkpoints_whole": sum(frames == copied for _, _, frames, copied, _ in self.checkpoints),
            "checkpoint_max_ms": round(1000 * max((one[4] for one in self.checkpoints), default=0), 1),
            "rows": self.rows,
            "violations": list(self.violations),
            "load_average": self.load,
        }


def write_beside(
    directory: Path, tmux: PrivateTmux, program: Sequence[str], *, with_daemon: bool, seconds: int
) -> Beside:
    """One run, in a graph of its own."""
    with Crowd(directory, tmux, program, AGENTS, window=30, settings="") as crowd:
        with crowd.core() as core:
            start = core.tip()
        daemon = crowd.daemon() if with_daemon else None
        reader, place = _second_reader(crowd, start)
        writing = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("busy_writer.py")),
                str(crowd.sandbox.graph),
                json.dumps({"rate": RATE, "seconds": seconds, "to": [one.identity for one in crowd.members]}),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        said, _ = writing.communicate()
        load = round(os.getloadavg()[0], 1)
        account = json.loads(said)
        second, _ = reader.communicate("")
        rows = [tuple(row) for row in account["rows"] if row[0] > start]
        wrongs = [f"the writer: {error}" for error in account["errors"]]
        wrongs += [f"the second reader: {error}" for error in json.loads(second)["errors"]]
        wrongs += _seen_otherwise("the second reader", rows, _rows_of(place))
        if account["graph"] != account["twin"]:
            wrongs.append("the file holds something that the writer did not write")
        if daemon is not None:
            wrongs += _missed_by_the_ledger(crowd, rows)
            daemon.stop()
        busy = [one for one in account["checkpoints"] if one[1]]
        wrongs += [f"a {one[0]} checkpoint was held up" for one in busy] if with_daemon else []
        return Beside(
            with_daemon=with_daemon,
            took=tuple(1000 * one for one in account["took"]),
            errors=tuple(account["errors"]),
            wal=max(account["wal_bytes"], default=0),
            checkpoints=tuple(tuple(one) for one in account["checkpoints"]),
            rows=len(rows),
            violations=tuple(wrongs),
            load=load,
        )


def _second_reader(crowd: Crowd, start: int) -> tuple[subprocess.Popen[str], Path]:
    place = crowd.directory / "second"
    place.mkdir()
    (place / "lastSyncId").write_text(str(start), encoding="utf-8")
    program = Path(__file__).with_name("second_reader.py")
    command = [sys.executable, str(program), str(crowd.sandbox.graph), str(place), str(LOOK_EVERY)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True), place


def _rows_of(place: Path) -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line)) for line in (place / "rows").read_text(encoding="utf-8").splitlines()]


def _seen_otherwise(who: str, written: Sequence[tuple[Any, ...]], seen: Sequence[tuple[Any, ...]]) -> list[str]:
    if list(written) == list(seen):
        return []
    missed, invented = set(written) - set(seen), set(seen) - set(written)
    return [f"{who} missed {len(missed)} of {len(written)} rows, saw {len(invented)} others, {len(seen)} in all"]


def _missed_by_the_ledger(crowd: Crowd, rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """What the daemon made of the same rows: its cursor, and an event for each SENT_TO at the row that told of it."""
    tip = rows[-1][0]
    published = crowd.sandbox.state_dir / "lastSyncId"
    deadline = time.monotonic() + 30
    while int(published.read_text(encoding="utf-8").strip() or 0) != tip and time.monotonic() < deadline:
        time.sleep(0.1)
    wrongs = []
    if int(published.read_text(encoding="utf-8").strip() or 0) != tip:
        wrongs.append(f"the daemon stands at {published.read_text(encoding='utf-8').strip()}, not at {tip}")
    with crowd.core() as core:
        mail = core.sql(
            "SELECT g.log_id, e.source, e.target FROM GraphLog g JOIN Edges e ON e.id = g.entity_id"
            " WHERE g.entity_type = 'edges' AND e.type = 'SENT_TO' AND g.log_id >= ? ORDER BY g.log_id",
            rows[0][0],
        )
    events = crowd.ledger("SELECT log_id, subject_key, identity FROM wake_event ORDER BY log_id")
    return [*wrongs, *_seen_otherwise("the daemon", mail, events)]


def compare(directory: Path, tmux: PrivateTmux, program: Sequence[str], *, seconds: int, pairs: int) -> list[Beside]:
    """Runs without and with the daemon, in turn."""
    runs = []
    for number in range(pairs):
        for with_daemon in (False, True):
            place = directory / f"run{number}-{'with' if with_daemon else 'without'}"
            runs.append(write_beside(place, tmux, program, with_daemon=with_daemon, seconds=seconds))
            print(runs[-1].figures(), flush=True)
    return runs


def ratio(runs: Sequence[Beside], quantile: float) -> float:
    """What a transaction took with the daemon, over what it took without: the medians of the runs' quantiles."""
    medians = [
        statistics.median(quantile_of(one.took, quantile) for one in runs if one.with_daemon is is_with)
        for is_with in (True, False)
    ]
    return medians[0] / medians[1]


def wal_ratio(runs: Sequence[Beside]) -> float:
    """How large the WAL grew with the daemon, over how large without; medians."""
    medians = [statistics.median(one.wal for one in runs if one.with_daemon is is_with) for is_with in (True, False)]
    return medians[0] / medians[1]


def markdown(runs: Sequence[Beside]) -> str:
    """The runs as a table, and what they come to."""
    head = "| wake-bridge | transactions | p50 ms | p99 ms | max ms | errors | WAL at its largest | checkpoints busy | rows | load |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|"]
    for one in runs:
        facts = one.figures()
        cells = [
            "beside it" if one.with_daemon else "not there",
            str(facts["transactions"]),
            f"{facts['p50_ms']:.2f}",
            f"{facts['p99_ms']:.2f}",
            f"{facts['max_ms']:.1f}",
            str(len(one.errors)),
            f"{one.wal / 1e6:.2f} MB",
            f"{one.busy} of {len(one.checkpoints)}",
            str(one.rows),
            str(one.load),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    summary = (
        f"With us over without, medians: p50 × {ratio(runs, 0.5):.2f}, p99 × {ratio(runs, 0.99):.2f},"
        f" largest WAL × {wal_ratio(runs):.2f}. {sum(len(one.violations) for one in runs)} violations."
    )
    return "\n".join([*lines, "", summary])
