"""The N-th operation of one wake fails, in SQLite's manner: 1, 2, 3 … until a wake meets no fault.

A trial sends a message to an idle agent while one operation is planned to fail, and waits until its delivery has ended.
The daemon stays up, or a loop starts it anew as a service manager does. Judged is what the agent received,
what the ledger says, and whether everything is at rest again.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.torture.kills import HELPED, ONCE, UNKNOWN, judged
from tests.torture.report import Table
from tests.torture.rig import POLL, Agent, Rig
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import DeliveryState
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.fault_plan import FaultPlan
from wake_bridge.testing.fault_tmux import TMUX, stand_in_for_tmux
from wake_bridge.testing.fault_tmux import WAYS as TMUX_WAYS
from wake_bridge.testing.faults import COMMAND, FAULTS, STATE, WAYS

LEASE: Final = 5
"""Seconds of a delivery's lease; an external call may take 1.5."""

ENDS_WITHIN: Final = 45.0
"""Seconds from the row to the end of its delivery, whatever failed."""

RESTS_WITHIN: Final = 10.0
"""Seconds after that until cursor and files say the same again."""

MOST_RESTARTS: Final = 1
"""Of the daemon, for one fault; more is a crash loop."""

ABOUT: Final = (
    "A row is committed for an idle agent while the N-th operation of a kind is planned to fail, N = 1, 2, 3 … until a wake"
    " meets no fault: every statement of SQLite on the ledger, every call on `lastSyncId`, `heartbeat.alive` and the log,"
    " every call of tmux, every call of the adapter. Real daemon, real files, real pane; a loop starts the daemon anew if it"
    " ends, and a person presses Enter where one may have been lost and the text stands there still. *refused*, *fails*, *raises*, *killed*, *garbage*: nothing was done. *unsaid*: it was done, and"
    " an error reported. *away*: everything of that kind is refused for 1.5 s. *unwritten*: the kernel refuses SQLite's"
    " writes. *short*: half is written. *hangs*, *mute*: no answer, nothing done or all of it done. A violation is a wake"
    " that is lost, submitted twice or still held after 45 s, a stray key, more than one restart, a ledger that is not"
    " intact, a delivery left locked, a `lastSyncId` that stays behind."
)

EXTRA: Final = """
[daemon]
log_file = "{log}"
[adapters.heartbeat]
enabled = false
"""


@dataclass(slots=True)
class Series:
    """All trials of one way in which operations of one kind fail."""

    kind: str
    way: str
    outcomes: Counter[str] = field(default_factory=Counter)
    operations: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    slowest: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __str__(self) -> str:
        return f"{self.kind} · {self.way}"

    def add(self, operation: str, outcome: str, seconds: float, violations: Sequence[str]) -> None:
        """Count one trial, from any thread; `operation` is what failed, empty when nothing did any more."""
        with self._lock:
            self.violations += violations
            if operation:
                self.operations.append(operation)
                self.slowest = max(self.slowest, seconds)
                self.outcomes[outcome] += 1

    def record(self) -> dict[str, Any]:
        """The series as JSON: also which operation was the N-th."""
        return {
            "kind": self.kind,
            "way": self.way,
            "faults": len(self.operations),
            "outcomes": dict(self.outcomes),
            "slowest_seconds": round(self.slowest, 1),
            "violations": self.violations,
            "operations": dict(Counter(self.operations)),
        }


def every_series() -> list[Series]:
    """Each kind of operation, each way to fail."""
    ways = {**WAYS, TMUX: TMUX_WAYS}
    return [Series(kind, way) for kind, all_of_kind in ways.items() for way in all_of_kind]


class FaultRig(Rig):
    """A rig whose daemon can be made to fail, and is started anew whenever it ends."""

    def __init__(self, directory: Path, tmux: PrivateTmux, name: str) -> None:
        super().__init__(directory, tmux, [name], lease=LEASE)
        real = shutil.which("tmux")
        assert real is not None
        words, stand_in = directory / "plan", directory / "bin"
        words.mkdir()
        stand_in.mkdir()
        self.plan = FaultPlan(str(words))
        self.faulty = Sandbox(directory, tmux.socket_name, (sys.executable, *COMMAND))
        before = self.faulty.environment["PATH"]
        self.faulty.environment |= {
            "PATH": f"{stand_in_for_tmux(stand_in, words, real)}:{before}",
            FAULTS: str(words),
            STATE: str(self.plain.state_dir),
            # the sign of life is due every 0.2 s, so that one falls into every wake
            "WATCHDOG_USEC": "400000",
        }
        config = self.plain.config_file.read_text(encoding="utf-8")
        config = config.replace("adapter_timeout = 4", "adapter_timeout = 1.5")
        log = self.plain.state_dir / "wake-bridge.log"
        self.plain.config_file.write_text(config + EXTRA.format(log=log), encoding="utf-8")
        self.starts = 0

    @contextmanager
    def kept_running(self) -> Iterator[None]:
        """A daemon, and a loop that starts it anew whenever it ends, as a service manager does."""
        ended = threading.Event()

        def keep() -> None:
            daemon = self._start()
            while not ended.wait(0.1):
                if daemon.process.poll() is not None:
                    daemon = self._start()

        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()
            self.faulty.close()

    def _start(self) -> DaemonProcess:
        self.starts += 1
        return self.faulty.daemon_under_way()

    def log(self) -> str:
        """What the latest daemons wrote."""
        return "\n".join(one.log()[-4000:] for one in self.faulty.daemons[-2:])

    def trouble(self) -> list[str]:
        """What is not as it should be when everything is at rest."""
        wrongs = []
        with closing(LedgerStore.open(self.plain.state_dir, read_only=True)) as ledger:
            place = ledger.position()
            locked = [one.id for one in ledger.unsettled() if one.state is DeliveryState.LOCKED]
            unsettled = [f"{one.id} {one.state} {one.hold}" for one in ledger.unsettled()]
            checked = ledger._db.value("PRAGMA integrity_check")
        published = (self.plain.state_dir / "lastSyncId").read_text()
        if checked != "ok":
            wrongs.append(f"integrity_check: {checked}")
        if locked or unsettled:
            wrongs.append(f"not settled: {unsettled}")
        if place is None or published != str(int(place.cursor)):
            wrongs.append(f"lastSyncId is {published!r}, the cursor {place}")
        return wrongs


def run_series(rig: FaultRig, series: Series, every: int, first: int = 1) -> None:
    """N = first, first + every, … until a wake meets no fault; the rig's daemon is kept running meanwhile."""
    nth = first
    while run_trial(rig, series, nth):
        nth += every


def run_trial(rig: FaultRig, series: Series, nth: int) -> bool:
    """One wake; answers whether it met the fault."""
    (agent,) = rig.agents
    _is_ready(rig, agent)
    start, starts = len(agent.fake.records()), rig.starts
    rig.plan.make(series.kind, series.way, nth)
    began = time.monotonic()
    message = rig.send(agent, f"{series}, operation {nth}")
    rig.waits_with_help(message, lambda one: one.is_settled, ENDS_WITHIN)
    took = time.monotonic() - began
    failed = rig.plan.failed()
    rig.plan.end()
    rests = _becomes(lambda: not rig.trouble(), RESTS_WITHIN)
    verdict = judged(rig, agent, [message], start)
    violations = list(verdict.violations)
    restarts = rig.starts - starts
    if not rests:
        violations += rig.trouble()
    if verdict.result not in {ONCE, HELPED, UNKNOWN}:
        violations.append(f"{verdict.result}:\n{rig.story(message)}")
    if restarts > MOST_RESTARTS:
        violations.append(f"the daemon was started {restarts} times")
    if violations:
        violations.append(f"log:\n{rig.log()}")
    outcome = verdict.result + (", after a restart" if restarts else "")
    series.add(failed, outcome, took, [f"{series}, operation {nth} ({failed}): {one}" for one in violations])
    return bool(failed)


def _is_ready(rig: FaultRig, agent: Agent) -> None:
    """Every trial begins with an idle agent and a daemon that tails."""
    agent.clear()
    with sqlite3.connect(rig.plain.graph) as graph:
        (tip,) = graph.execute("SELECT MAX(log_id) FROM GraphLog").fetchone()
    graph.close()

    def is_at_tip() -> bool:
        published = rig.plain.state_dir / "lastSyncId"
        return '"caught_up"' in rig.faulty.daemons[-1].log() and published.read_text() == str(tip)

    _becomes(lambda: bool(rig.faulty.daemons) and is_at_tip(), 30)


def _becomes(condition: Callable[[], bool], within: float) -> bool:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


# -- many at once ----------------------------------------------------------------------------------------------------


def fail_everything(directory: Path, tmux: PrivateTmux, *, lanes: int, stripes: int, stride: int, first: int) -> Table:
    """All series in some lanes side by side, each in stripes.

    Args:
        directory: an empty directory.
        tmux: the server of all agents.
        lanes: daemons at a time.
        stripes: parts of a series that may run at a time.
        stride: 1 for every operation, more for every so-manieth.
        first: the first one that fails, from 1 to `stride`.
    """
    series = every_series()
    began = time.monotonic()
    waiting = iter([(one, first + stride * at) for one in series for at in range(stripes)])
    taking = threading.Lock()

    def work(number: int) -> None:
        with FaultRig(directory / f"faults{number}", tmux, f"faults{number}") as rig, rig.kept_running():
            while True:
                with taking:
                    taken = next(waiting, None)
                if taken is None:
                    return
                one, nth = taken
                try:
                    run_series(rig, one, stripes * stride, nth)
                except Exception as broken:  # noqa: BLE001 - one series' trouble must not hide what the others find
                    one.violations.append(f"{one}: broken: {type(broken).__name__}: {broken}\n{rig.log()}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(lanes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return as_table(series, time.monotonic() - began, is_complete=stride == 1)


OUTCOMES: Final = tuple(f"{result}{after}" for result in (ONCE, HELPED, UNKNOWN) for after in ("", ", after a restart"))


def as_table(series: Sequence[Series], seconds: float, *, is_complete: bool) -> Table:
    """A row a series; which operations failed is among the details. If complete, each way must have failed at least once."""
    table = Table("The N-th operation of one wake fails", ABOUT, "operation · way", OUTCOMES, map(str, series))
    for one in series:
        table.rows[str(one)] += one.outcomes
        table.violations += one.violations
        table.demand(one.operations or not is_complete, str(one), "a way to fail that never failed")
    table.seconds = seconds
    table.measures["slowest wake"] = f"{max((one.slowest for one in series), default=0.0):.1f} s"
    table.details = [one.record() for one in series]
    return table
