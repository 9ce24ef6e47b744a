"""Graphs that are replaced, restored or begun anew under the reader, and cursors that are no more."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tests.torture.machine import waited_for_processor
from tests.torture.oracle import comes_true
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import SENDER, Agent, Rig
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.memory_core import MemoryCore

FAMILY: Final = ("", "-wal", "-shm")
OLD: Final = "old news"
RECENT: Final = "ten minutes old"
POLLS: Final = 2
"""Polls of a second each within which a new epoch is noticed; a second more is the machine's."""

RESULTS: Final = ("heard, neither silence nor flood", "broken")
LANES: Final = 5
ABOUT: Final = (
    "A daemon follows a graph with old mail in it, and has told of one message. Then the graph or the cursor becomes another"
    " one, while the daemon runs or while it is down. At most one digest may come of it, with mail of the last hour alone; of"
    " old mail nothing is told; what happened is warned of once, within two polls of a second (and one second for the"
    " machine) where the daemon runs; a message that is sent afterwards arrives once."
)


@dataclass(slots=True)
class Place:
    """One rig, and what is done to it."""

    rig: Rig
    daemon: DaemonProcess | None = None

    @property
    def graph(self) -> Path:
        """The file that is followed."""
        return self.rig.plain.graph

    @property
    def agent(self) -> Agent:
        """Who is woken."""
        return self.rig.agents[0]

    def down(self) -> None:
        """End the daemon."""
        if self.daemon is not None:
            self.daemon.stop(60)
        self.daemon = None


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that happens to graph or cursor.

    Attributes:
        name: the row.
        act: does it.
        warnings: the log's words for it; each may come once.
        recent: whether mail of the last hour, of the other graph, is told.
        while_down: the daemon is down meanwhile.
        in_steps: half of it may be met, which is one more warning.
    """

    name: str
    act: Callable[[Place], object]
    warnings: tuple[str, ...]
    recent: bool = False
    while_down: bool = False
    in_steps: bool = False

    def __str__(self) -> str:
        return self.name


def ago(**age: float) -> str:
    """A time as the graph has it."""
    return f"{datetime.now(UTC) - timedelta(**age):%Y-%m-%dT%H:%M:%S}.000Z"


def _other(place: Place, rows: int = 0) -> Path:
    """Another graph for the same agent, with old mail and one message of the last hour; all of it in one file."""
    path = place.rig.directory / f"other-{time.time_ns()}.sqlite"
    with MemoryCore.create(path, [place.agent.identity]) as core:
        core.identity(SENDER, accountType="human")
        core.subscribe(place.agent.identity, harnessTargetMetadata={"adapter": "tmux", "coalesceWindow": 0})
        for number in range(20):
            core.send(SENDER, place.agent.identity, f"{OLD} {number}", sentAt=ago(hours=2 + number))
        core.send(SENDER, place.agent.identity, RECENT, sentAt=ago(minutes=10))
        core.noise(rows)
        core.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def _put(source: Path, place: Place) -> None:
    """Take the followed file away with all that belongs to it, and move another in."""
    for ending in FAMILY:
        with suppress(FileNotFoundError):
            Path(f"{place.graph}{ending}").unlink()
    source.rename(place.graph)


def another(place: Place) -> None:
    """Another graph, larger."""
    _put(_other(place, 400), place)


def another_smaller(place: Place) -> None:
    """Another graph, whose log ends before the cursor."""
    _put(_other(place), place)


def another_with_its_log(place: Place) -> None:
    """Another graph with committed rows that are in its write-ahead log only."""
    other = _other(place, 400)
    keeper = sqlite3.connect(other)
    keeper.execute("PRAGMA wal_autocheckpoint = 0")
    with MemoryCore(other) as core:
        core.sql("PRAGMA wal_autocheckpoint = 0")
        core.noise(50)
        for ending in FAMILY:
            with suppress(FileNotFoundError):
                Path(f"{place.graph}{ending}").unlink()
        shutil.copy(f"{other}-wal", f"{place.graph}-wal")
        other.rename(place.graph)
    keeper.close()


def older_copy(place: Place) -> None:
    """A backup of the same graph, from before the last messages."""
    backup = place.rig.directory / "backup.sqlite"
    copy = place.rig.directory / f"restored-{time.time_ns()}.sqlite"
    shutil.copy(backup, copy)
    with MemoryCore(copy) as core:
        core.sql("PRAGMA journal_mode = WAL")
    _put(copy, place)


def copied_over(place: Place) -> None:
    """Another graph, copied over the same file, after a checkpoint."""
    with closing(sqlite3.connect(place.graph, timeout=10)) as graph:
        graph.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    subprocess.run(["cp", str(_other(place, 400)), str(place.graph)], check=True)


def begun_anew(place: Place) -> None:
    """The same graph, whose log starts at 1 again."""
    with MemoryCore(place.graph) as core:
        core.sql("BEGIN IMMEDIATE")
        core.sql("DELETE FROM GraphLog")
        core.sql("DELETE FROM sqlite_sequence WHERE name = 'GraphLog'")
        core.sql("COMMIT")
        core.sql("VACUUM")


def pruned(place: Place) -> None:
    """The log was pruned past the cursor."""
    with MemoryCore(place.graph) as core:
        core.noise(30)
        core.prune(core.tip() - 5)


def without_ledger(cursor: str | None) -> Callable[[Place], None]:
    """The ledger is gone, and the published cursor says something else, or nothing."""

    def act(place: Place) -> None:
        for file in place.rig.plain.state_dir.glob("state.sqlite*"):
            file.unlink()
        published = place.rig.plain.state_dir / "lastSyncId"
        if cursor is None:
            published.unlink()
        else:
            published.write_text(cursor, encoding="utf-8")

    return act


STRIKES: Final = (
    Strike("another graph, larger", another, ("graph_replaced", "cursor_lost"), recent=True),
    Strike("another graph, smaller", another_smaller, ("graph_replaced", "cursor_lost"), recent=True),
    Strike(
        "another graph, some of it in its log", another_with_its_log, ("graph_replaced", "cursor_lost"), recent=True
    ),
    Strike("another graph, copied over the same file", copied_over, ("cursor_lost",), recent=True, in_steps=True),
    Strike("an older copy of the same graph", older_copy, ("graph_replaced", "cursor_lost")),
    Strike("the log starts at 1 again", begun_anew, ("cursor_lost",)),
    Strike("another graph, while down", another, ("cursor_lost",), recent=True, while_down=True),
    Strike("an older copy, while down", older_copy, ("cursor_lost",), while_down=True),
    Strike("the log starts at 1 again, while down", begun_anew, ("cursor_lost",), while_down=True),
    Strike("the log is pruned past the cursor", pruned, ("cursor_below_log",), while_down=True),
    Strike("no ledger, no cursor", without_ledger(None), (), while_down=True),
    Strike("no ledger, the cursor is empty", without_ledger(""), ("cursor_lost",), while_down=True),
    Strike("no ledger, the cursor is negative", without_ledger("-5"), ("cursor_lost",), while_down=True),
    Strike("no ledger, the cursor is no number", without_ledger("x7\x00"), ("cursor_lost",), while_down=True),
    Strike("no ledger, the cursor is 0", without_ledger("0"), ("cursor_lost",), while_down=True),
    Strike("no ledger, the cursor is above the tip", without_ledger("987654321"), ("cursor_lost",), while_down=True),
)


def strike_all(directory: Path, tmux: PrivateTmux, *, times: int) -> Table:
    """Each of `STRIKES` so many times, each in a rig of its own."""
    table = Table("Another graph, another cursor", ABOUT, "what happens", RESULTS, map(str, STRIKES))
    trials = [(number, strike) for number in range(times) for strike in STRIKES]
    noticed: list[float] = []

    def run(lane: int, trial: tuple[int, Strike]) -> tuple[str, Verdict]:
        number, strike = trial
        name = f"graph{lane}-{number}-{STRIKES.index(strike)}"
        with Rig(directory / name, tmux, [name], is_born=True) as rig:
            return str(strike), run_strike(Place(rig), strike, noticed)

    run_in_lanes(table, range(LANES), trials, run)
    if noticed:
        table.measures["noticed after"] = f"{sorted(noticed)[len(noticed) // 2]:.2f} s, at most {max(noticed):.2f} s"
    return table


def run_strike(place: Place, strike: Strike, noticed: list[float]) -> Verdict:
    """One trial."""
    wrongs: list[str] = []
    agent, rig = place.agent, place.rig
    place.daemon = rig.daemon()
    with MemoryCore(place.graph) as core:
        for number in range(10):
            core.send(SENDER, agent.identity, f"{OLD} {number}", sentAt=ago(days=8))
        core.sql("VACUUM INTO ?", str(rig.directory / "backup.sqlite"))
        core.noise(100)
    told = rig.send(agent, "told before")
    rig.waits_until_settled(told)
    with MemoryCore(place.graph) as core:
        core.mark_read(told)
    comes_true(lambda: _is_at_tip(place), 20, 0.05)
    agent.fake.waits_for("submit", 1, 20)
    if strike.while_down:
        place.down()
    struck, waited = time.time(), 0.0 if strike.while_down else waited_for_processor(place.daemon.pid)
    before = 0 if strike.while_down else len(place.daemon.entries())
    strike.act(place)
    daemon = place.daemon = rig.daemon() if strike.while_down else place.daemon
    expected = strike.warnings[-1:] if strike.warnings else ()
    for event in expected:
        with suppress(TimeoutError):
            daemon.waits_for_log(event, timeout=20)
    if not strike.while_down and (seen := daemon.entries(expected[0])):
        took = datetime.fromisoformat(seen[0]["timestamp"]).timestamp() - struck
        noticed.append(took)
        if took - (waited_for_processor(daemon.pid) - waited) > POLLS + 1:
            wrongs.append(f"noticed after {took:.1f} s")
    if strike.recent:
        agent.fake.waits_for("submit", 2, 30)
    time.sleep(1.5)
    wrongs += _wrongs(place, strike, daemon, before)
    later = rig.send(agent, "sent afterwards")
    standing = rig.waits_until_settled(later)
    delivery = standing.delivery if standing else None
    if delivery is None or agent.submits_of(delivery.id) != 1:
        wrongs.append(f"what was sent afterwards never arrived:\n{rig.story(later)}\n{daemon.log()[-2000:]}")
    return Verdict("broken" if wrongs else RESULTS[0], tuple(wrongs))


def _wrongs(place: Place, strike: Strike, daemon: DaemonProcess, before: int) -> list[str]:
    wrongs = []
    submits = place.agent.fake.submits()[1:]
    if [text for text in submits if OLD in text]:
        wrongs.append(f"old mail was told: {submits!r}")
    if len(submits) != int(strike.recent):
        wrongs.append(f"{len(submits)} digests came of it: {submits!r}")
    if strike.recent and submits and f'1 new message (latest: "{RECENT}"' not in submits[0]:
        wrongs.append(f"the last hour's mail was told as {submits[0]!r}")
    warned = [one["event"] for one in daemon.entries()[before:] if one.get("level") in {"warning", "error"}]
    if strike.in_steps:
        warned = [one for one in warned if one != "graph_away"]
    if sorted(warned) != sorted(strike.warnings):
        wrongs.append(f"warned of {warned}, not of {list(strike.warnings)}")
    return wrongs


def _is_at_tip(place: Place) -> bool:
    with MemoryCore(place.graph) as core:
        return (place.rig.plain.state_dir / "lastSyncId").read_text(encoding="utf-8") == str(core.tip())
