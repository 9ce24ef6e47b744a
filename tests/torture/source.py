"""The source under the reader: writers in disorder, lost hints, a backlog, and whether the reader leaves any trace."""

from __future__ import annotations

import hashlib
import sqlite3
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.torture.machine import waited_for_processor
from tests.torture.oracle import RESULTS, reckon, waits_until_at_rest
from tests.torture.pen import Pen, Plan
from tests.torture.report import Table, Verdict
from tests.torture.rig import SENDER, Rig
from tests.torture.system_calls import Watcher, can_watch
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.memory_core import MemoryCore

WRITERS: Final = 4
NOISE: Final = 7
"""Rows of log before each message, which has three."""

TURNS: Final = 3
"""How often reads are measured at most, where a machine with other work makes one of them late."""

LONGEST_READ: Final = 0.050
"""Seconds that a read transaction may be open."""

FIRST_IN_LINE: Final = ("nice", "-n", "-20")
"""Before a command that should not wait for others; without the right to, it goes on all the same."""

ABOUT_TAIL: Final = (
    "Four writer processes commit messages as fast as they can, with seven rows of noise before each; one in twenty first"
    " rolls something back, checkpoints or vacuums. Every message must be in the ledger once and arrive once, and the ledger's"
    " order must be the log's."
)
ABOUT_HINTS: Final = (
    "Without any hints, and while a tenth of a second of messages comes every tenth: from a message's commit until its event is"
    " in the ledger may pass `poll_interval` (1 s), and one second more for one in a hundred."
)
ABOUT_UNTOUCHED: Final = (
    "A writer's statements are recorded while the daemon follows, and written again into a copy without one: the tables must"
    " be the same to the byte, the log of both at most 5 % larger with the daemon. strace follows the daemon: no write to the"
    " graph or its log, no read transaction longer than 50 ms."
)
ABOUT_BACKLOG: Final = (
    "So many rows wait with 50 messages among them; the daemon starts. It must be at the tip within 15 s, with at most 120 MB,"
    " and say it all in one digest."
)


def tail_all(directory: Path, tmux: PrivateTmux, *, rows: int, seed: int) -> Table:
    """So many rows by four writers, each message a trial."""
    table = Table("Four writers in disorder", ABOUT_TAIL, "messages", RESULTS)
    began = time.monotonic()
    with Rig(directory / "tail", tmux, ["tail0", "tail1"]) as rig, ExitStack() as stack:
        daemon = rig.daemon()
        names = [one.identity for one in rig.agents]
        each = rows // (NOISE + 3) // WRITERS
        pens = [
            stack.enter_context(
                Pen(rig.plain.graph, Plan(SENDER, names, each, seed=seed + at, noise=NOISE, disorder=0.05))
            )
            for at in range(WRITERS)
        ]
        sent = [one for pen in pens for one in pen.finish(1800)]
        rests = waits_until_at_rest(rig, 300)
        row = f"{_tip(rig)} rows of log"
        reckon(rig, sent).into(table, row)
        table.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
        with closing(sqlite3.connect(rig.plain.state_dir / "state.sqlite")) as ledger:
            order = [one for (one,) in ledger.execute("SELECT log_id FROM wake_event ORDER BY seq")]
        table.demand(order == sorted(order), row, "events stand in another order than their rows")
    table.seconds = time.monotonic() - began
    table.measures["rows a second"] = f"{rows / table.seconds:.0f}"
    return table


def _tip(rig: Rig) -> int:
    with MemoryCore(rig.plain.graph) as core:
        return core.tip()


def without_hints(directory: Path, tmux: PrivateTmux, *, messages: int, seed: int) -> Table:
    """Messages ten a second, with the watch of the file switched off."""
    table = Table("No hints", ABOUT_HINTS, "messages", RESULTS)
    began = time.monotonic()
    settings = "[graph]\nwatch = false\npoll_interval = 1.0\n"
    with Rig(directory / "hints", tmux, ["hints0", "hints1"], settings=settings) as rig:
        daemon = rig.daemon()
        plan = Plan(SENDER, [one.identity for one in rig.agents], messages, per_second=10, seed=seed)
        with Pen(rig.plain.graph, plan) as pen:
            sent = pen.finish(messages / 5 + 60)
        rests = waits_until_at_rest(rig, 120)
        row = "poll_interval 1 s"
        reckon(rig, sent).into(table, row)
        table.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
        delays = sorted(_delays(rig))
        p50, p99 = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
        table.demand(p99 <= 2.0, row, f"from commit to ledger 99 % take up to {p99:.2f} s")
        table.measures["from commit to ledger"] = f"p50 {p50:.2f} s, p99 {p99:.2f} s, longest {delays[-1]:.2f} s"
    table.seconds = time.monotonic() - began
    return table


def _delays(rig: Rig) -> list[float]:
    """Seconds from each message's last row to its event."""
    with closing(sqlite3.connect(rig.plain.graph)) as graph:
        rows = graph.execute(
            "SELECT source, json_extract(data, '$.properties.timestamp') FROM Edges WHERE type = 'SENT_TO'"
        ).fetchall()
    written = {message: datetime.fromisoformat(at).timestamp() for message, at in rows}
    with closing(sqlite3.connect(rig.plain.state_dir / "state.sqlite")) as ledger:
        matched = ledger.execute("SELECT subject_key, matched_at FROM wake_event").fetchall()
    return [at / 1000 - written[message] for message, at in matched if message in written]


# -- no trace --------------------------------------------------------------------------------------------------------


class RecordingCore(MemoryCore):
    """A memory core that keeps every statement it ran, with its values, and the size of the log after it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self.statements: list[tuple[str, tuple[Any, ...]]] = []
        self.largest_log = 0

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """See `MemoryCore.sql`."""
        answer = super().sql(statement, *values)
        self.statements.append((statement, values))
        log = Path(f"{self._path}-wal")
        self.largest_log = max(self.largest_log, log.stat().st_size if log.exists() else 0)
        return answer


def leaves_no_trace(directory: Path, tmux: PrivateTmux, *, rounds: int) -> Table:
    """Messages amid noise, with a daemon and without."""
    table = Table(
        "The source is left as it is", ABOUT_UNTOUCHED, "what", ("the same", "changed", "not for this machine")
    )
    began = time.monotonic()
    for turn in range(TURNS):
        reads = _followed(directory / f"trace{turn}", tmux, table, rounds)
        # that somebody else had the processor is no property of the reader's: it would not be so each time
        if turn == TURNS - 1 or max(reads, default=0.0) <= LONGEST_READ:
            break
    for one in reads:
        wrong = (f"a read transaction was open for {one * 1000:.0f} ms, in each of {TURNS} turns",)
        table.add("read transactions", Verdict("the same") if one <= LONGEST_READ else Verdict("changed", wrong))
    table.seconds = time.monotonic() - began
    return table


def _followed(directory: Path, tmux: PrivateTmux, table: Table, rounds: int) -> list[float]:
    """One turn; seconds of each read transaction."""
    with Rig(directory, tmux, [directory.name]) as rig:
        copy = rig.directory / "control.sqlite"
        with closing(sqlite3.connect(rig.plain.graph)) as graph:
            graph.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy.write_bytes(rig.plain.graph.read_bytes())
        watcher = Watcher(rig.directory / "calls") if can_watch() else None
        rig.plain.command = (*FIRST_IN_LINE, *(watcher.command if watcher else ()), *rig.plain.command)
        daemon = rig.daemon()
        with RecordingCore(rig.plain.graph) as followed:
            for number in range(rounds):
                followed.noise(60)
                followed.send(SENDER, rig.agents[0].identity, f"message {number}")
                time.sleep(0.01)
            rests = waits_until_at_rest(rig, 120)
            table.demand(rests, "tables", f"the daemon never came to rest\n{daemon.log()[-2000:]}")
        daemon.stop(60)
        with RecordingCore(copy) as alone:
            for number, (statement, values) in enumerate(followed.statements):
                alone.sql(statement, *values)
                if number % 60 == 0:
                    time.sleep(0.01)
        same = _digest(rig.plain.graph) == _digest(copy)
        table.add("tables, byte for byte", _verdict(same, "the tables differ"))
        growth = followed.largest_log / alone.largest_log - 1
        table.add(
            "size of the log", _verdict(growth <= 0.05, f"the log grew {growth:.0%} larger than without a daemon")
        )
        table.measures["log with and without the daemon"] = f"{followed.largest_log} and {alone.largest_log} bytes"
        return _asked_for(table, watcher, rig.plain.graph)


def _asked_for(table: Table, watcher: Watcher | None, graph: Path) -> list[float]:
    """What the kernel was asked for; seconds of each read transaction."""
    if watcher is None:
        table.add("reads and writes, by strace", Verdict("not for this machine"))
        return []
    reads, writes = watcher.transactions(graph), watcher.writes(graph)
    table.demand(reads, "read transactions", "none was seen")
    table.add("writes to graph and log", _verdict(not writes, f"it wrote: {writes[:5]}"))
    usual, longest = (sorted(reads)[at] for at in (len(reads) // 2, -1)) if reads else (0.0, 0.0)
    table.measures["read transactions, under strace"] = (
        f"{len(reads)}, p50 {usual * 1000:.1f} ms, longest {longest * 1000:.1f} ms"
    )
    return reads


def _verdict(holds: bool, wrong: str) -> Verdict:
    return Verdict("the same") if holds else Verdict("changed", (wrong,))


def _digest(graph: Path) -> str:
    with closing(sqlite3.connect(graph)) as connection:
        return hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()


# -- a backlog -------------------------------------------------------------------------------------------------------

MESSAGES: Final = 50
TEXT: Final = "what was said and thought in one turn " * 8


def catch_up(directory: Path, tmux: PrivateTmux, *, rows: int) -> Table:
    """A start into so many rows."""
    table = Table("A backlog", ABOUT_BACKLOG, "messages", RESULTS)
    began = time.monotonic()
    with Rig(directory / "backlog", tmux, ["backlog"], target="window = 30") as rig:
        sent = _write_backlog(rig, rows)
        started = time.time()
        daemon = rig.plain.daemon_under_way()
        (caught_up,) = daemon.waits_for_log("caught_up", timeout=180)
        took = datetime.fromisoformat(caught_up["timestamp"]).replace(tzinfo=UTC).timestamp() - started
        waited = waited_for_processor(daemon.pid)
        peak = _peak(daemon.pid)
        rests = waits_until_at_rest(rig, 120)
        row = f"among {rows} rows"
        reckon(rig, sent).into(table, row)
        table.demand(rests, row, "it never comes to rest")
        table.demand(took - waited <= 15, row, f"at the tip after {took:.1f} s, waiting {waited:.1f} s for a processor")
        table.demand(peak <= 120, row, f"it took {peak:.0f} MB")
        wakes = len(rig.agents[0].fake.submits())
        table.demand(wakes == 1, row, f"{wakes} digests")
        table.measures |= {
            "at the tip after": f"{took:.1f} s",
            "of which it waited for a processor": f"{waited:.1f} s",
            "peak": f"{peak:.0f} MB",
        }
    table.seconds = time.monotonic() - began
    return table


def _write_backlog(rig: Rig, rows: int) -> Sequence[tuple[str, str]]:
    sent = []
    with MemoryCore(rig.plain.graph) as core:
        core.sql("PRAGMA synchronous = OFF")
        for number in range(MESSAGES):
            core.sql("BEGIN IMMEDIATE")
            for _ in range(rows // MESSAGES - 3):
                memory = f"MEMORY:{uuid.uuid4()}"
                core.put(memory, "AGENT_MEMORY", {"agentIdentity": "@somebody", "sessionId": memory, "text": TEXT})
            core.sql("COMMIT")
            sent.append((core.send(SENDER, "@backlog", f"Review request {number}"), "@backlog"))
        core.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return sent


def _peak(pid: int) -> float:
    """The most memory it ever held, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
