"""Where trials are run: agents in panes, a graph, a bridge that can be killed, and what ledger and agents say of it."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import libtmux

from tests.nursery import NurserySandbox
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Delivery, JournalEntry, Proof
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.crash_points import COMMAND, CRASH, HALT, Halt, Point
from wake_bridge.testing.memory_core import MemoryCore

SENDER: Final = "@me"
POLL: Final = 0.03
OLDEST: Final = 0.5
"""Seconds after which a ledger is looked at again though it has not been written."""

STARTS_WITHIN: Final = 90.0
"""Seconds, on a machine that may be busy with much else."""


IMPATIENT: Final = """
[coalesce]
refractory = 0
[limits]
storm = 100000
storm_period = 1
wakes_per_hour = 100000
wakes_per_day = 100000
thread_wakes = 100000
[delivery]
lease = {lease}
adapter_timeout = {timeout}
unknown_again = {again}
[presence]
typing_quiet = 2
[presence.relook]
min = 0.5
max = 1
"""
"""No rests and no budgets, the shortest quiet there is, and a new look at every hold at once: more trials, and harsher."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One identity and the fake harness in its pane."""

    identity: str
    session: str
    fake: FakeHarness
    pane: libtmux.Pane
    socket: str = ""
    """The tmux server it lives in; empty for its rig's own."""

    @property
    def pane_id(self) -> str:
        """`%3`."""
        return str(self.pane.pane_id)

    def submits_of(self, mark: str) -> int:
        """How often a text with that mark was submitted."""
        return sum(mark in text for text in self.fake.submits())

    def clear(self) -> None:
        """What a person does who empties the composer and leaves all dialogs."""
        self.fake.shows("idle")


@dataclass(frozen=True, slots=True)
class Standing:
    """What the ledger says of one message: its event's status, and the delivery that carries it, if any."""

    event: str
    reason: str
    delivery: Delivery | None

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will come of it."""
        return self.delivery is not None and self.delivery.state.is_terminal

    @property
    def proof(self) -> Proof:
        """How far it was seen to get."""
        return self.delivery.proof if self.delivery else Proof.NONE

    @property
    def hold(self) -> str:
        """Why it waits; empty if it does not."""
        return self.delivery.hold.reason.value if self.delivery and self.delivery.hold else ""


class Rig:
    """One person's set-up: a HOME of its own, a graph, some agents in sessions of their own, and at most one daemon.

    All panes work in `work`, an empty directory.

    Args:
        directory: an empty directory.
        tmux: the server its agents live in; may be shared.
        names: the agents' names.
        lease: seconds until a delivery left LOCKED by a dead daemon is taken up again.
        options: how the fake harnesses are started.
        before_shell: they are started so that a shell takes over when they end.
        guests: agents of another rig that this one is to wake as well.
        settings: more of the configuration, tables of their own.
        target: more keys of each agent's target.
        height: rows of the panes.
        is_born: its daemons come from the nursery.
        unknown_again: seconds after which unread mail of a wake of unknown outcome is announced once more.
    """

    def __init__(
        self,
        directory: Path,
        tmux: PrivateTmux,
        names: Sequence[str],
        *,
        lease: int = 30,
        options: Sequence[str] = (),
        before_shell: bool = False,
        guests: Sequence[Agent] = (),
        settings: str = "",
        target: str = "",
        height: int = 24,
        is_born: bool = False,
        unknown_again: int = 600,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.work = directory / "work"
        self.work.mkdir()
        self.tmux = tmux
        self.helped: set[str] = set()
        self._height = height
        kind = NurserySandbox if is_born else Sandbox
        self.plain = kind(directory, tmux.socket_name)
        self.watched = kind(directory, tmux.socket_name, (sys.executable, *COMMAND))
        self.agents = [*(self._agent(name, options, before_shell=before_shell) for name in names), *guests]
        self._settings = IMPATIENT.format(lease=lease, timeout=min(10, lease - 1), again=unknown_again) + settings
        self._target = target
        self.configure()
        self.plain.run("init")
        with MemoryCore(self.plain.graph) as core:
            core.identity(SENDER, accountType="human")
            for agent in self.agents:
                core.identity(agent.identity)
                metadata = {"adapter": "tmux", "coalesceWindow": 0, **self.metadata_of(agent)}
                core.subscribe(agent.identity, harnessTargetMetadata=metadata)
        self.plain.run("run", "--once")
        for agent in self.agents:
            agent.fake.state()

    def configure(self) -> None:
        """Write the configuration, with what is said there of each agent."""
        self.plain.configure(self._settings + "".join(self.target_of(one) for one in self.agents))

    def target_of(self, agent: Agent) -> str:
        """What the configuration says of an agent: its table in [targets]."""
        return f'[targets."{agent.identity}"]\npane = "{agent.pane_id}"\nsocket = "{agent.socket}"\n{self._target}\n'

    def metadata_of(self, agent: Agent) -> Mapping[str, str]:  # noqa: ARG002 - other rigs say more
        """What else an agent's subscription says of where it lives."""
        return {}

    def _agent(self, name: str, options: Sequence[str], *, before_shell: bool) -> Agent:
        fake = FakeHarness(self.directory, name)
        command = fake.command_before_shell(*options) if before_shell else f"exec {shlex.join(fake.command(*options))}"
        line = f"cd {shlex.quote(str(self.work))}; {command}"
        pane = self.tmux.new_pane(line, session=name, width=100, height=self._height)
        return Agent(f"@{name}", name, fake, pane)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()

    def rest(self) -> None:
        """End every daemon that still runs, also where one of them does not end by itself."""
        for sandbox in (self.plain, self.watched):
            for daemon in sandbox.daemons:
                with suppress(subprocess.TimeoutExpired):
                    daemon.stop(30)

    # -- the graph and the bridge --------------------------------------------------------------------------------

    def send(self, agent: Agent, subject: str) -> str:
        """Commit a message to the graph; answers its id."""
        with MemoryCore(self.plain.graph) as core:
            return core.send(SENDER, agent.identity, subject)

    def daemon(self) -> DaemonProcess:
        """A daemon as a person has it."""
        return self._started(self.plain, {})

    @staticmethod
    def _started(sandbox: Sandbox, environment: Mapping[str, str]) -> DaemonProcess:
        daemon = sandbox.daemon_under_way(environment=environment)
        daemon.waits_until_tailing(STARTS_WITHIN)
        return daemon

    def starting(self, environment: Mapping[str, str] | None = None) -> DaemonProcess:
        """The same, not waited for; `environment` is added to its own."""
        return self.plain.daemon_under_way(environment=environment)

    def dying(self, point: Point) -> DaemonProcess:
        """A daemon that dies at a point."""
        return self._started(self.watched, {CRASH: str(point)})

    def halting(self, point: Point, dying_at: Point | None = None) -> tuple[DaemonProcess, Halt]:
        """A daemon that stands still at a point, and what lets it go on; later it may die at another."""
        directory = self.directory / f"halt-{time.time_ns()}"
        directory.mkdir()
        environment = {HALT: f"{point}@{directory}", **({CRASH: str(dying_at)} if dying_at else {})}
        return self._started(self.watched, environment), Halt(point, directory)

    # -- what the ledger says ------------------------------------------------------------------------------------

    def standing(self, message: str) -> Standing | None:
        """What became of a message, None while the ledger knows nothing of it."""
        with closing(LedgerStore.open(self.plain.state_dir, read_only=True)) as ledger:
            event = ledger._db.row(
                "SELECT status, reason, delivery_id FROM wake_event WHERE subject_key = ?", (message,)
            )
            if event is None:
                return None
            delivery = ledger.delivery(event["delivery_id"]) if event["delivery_id"] else None
            return Standing(event["status"], event["reason"], delivery)

    def tellers(self, message: str) -> list[Delivery]:
        """Every delivery whose digest spoke of a message and was, or may have been, submitted."""
        with closing(LedgerStore.open(self.plain.state_dir, read_only=True)) as ledger:
            return ledger._deliveries(
                "SELECT delivery.* FROM delivery JOIN delivery_event ON delivery_event.delivery_id = delivery.id"
                " JOIN wake_event ON wake_event.id = event_id"
                " WHERE subject_key = ? AND digest <> '' AND outcome IN ('submitted', 'acknowledged', 'unknown')"
                " ORDER BY delivery.created_at",
                (message,),
            )

    def journal(self, delivery_id: str) -> list[JournalEntry]:
        """A delivery's journal."""
        with closing(LedgerStore.open(self.plain.state_dir, read_only=True)) as ledger:
            return ledger.journal_of(delivery_id)

    def waits_for(self, message: str, condition: Callable[[Standing], object], timeout: float) -> Standing | None:
        """How a message stands once that satisfies `condition`, or after `timeout` seconds however it stands."""
        deadline = time.monotonic() + timeout
        while True:
            seen, again = self.plain.ledger_writes(), time.monotonic() + OLDEST
            standing = self.standing(message)
            if (standing is not None and condition(standing)) or time.monotonic() > deadline:
                return standing
            while self.plain.ledger_writes() == seen and time.monotonic() < again:
                time.sleep(POLL)

    def waits_until_settled(self, message: str, timeout: float = 40.0) -> Standing | None:
        """How a message stands at its end, or after `timeout` seconds."""
        return self.waits_for(message, lambda standing: standing.is_settled, timeout)

    def help(self) -> None:
        """What a person does who is told of it: send what had its Enter and stands there still, once each."""
        with closing(LedgerStore.open(self.plain.state_dir, read_only=True)) as ledger:
            waiting = [one for one in ledger.unsettled() if one.id not in self.helped]
        for delivery in waiting:
            if delivery.hold is not None and "Enter was pressed" in delivery.hold.detail:
                self.helped.add(delivery.id)
                (agent,) = (one for one in self.agents if one.identity == delivery.identity)
                self.tmux.run("send-keys", "-t", agent.pane_id, "Enter")

    def waits_with_help(self, message: str, condition: Callable[[Standing], object], timeout: float) -> Standing | None:
        """The same as `waits_for`, with a person there who does what they are told."""

        def is_so(standing: Standing) -> object:
            self.help()
            return condition(standing)

        return self.waits_for(message, is_so, timeout)

    def story(self, message: str) -> str:
        """All that is known of a message, for a person who wonders."""
        lines = [f"{message}: {self.standing(message)}"]
        for delivery in self._all_deliveries_of(message):
            lines += [f"  {entry.at} {entry.step} {entry.detail}" for entry in self.journal(delivery)]
        return "\n".join(lines)

    def _all_deliveries_of(self, message: str) -> list[str]:
        with closing(LedgerStore.open(self.plain.state_dir, read_only=True)) as ledger:
            rows: list[sqlite3.Row] = ledger._db.rows(
                "SELECT delivery_event.delivery_id FROM delivery_event JOIN wake_event ON wake_event.id = event_id"
                " WHERE subject_key = ?",
                (message,),
            )
            return [row["delivery_id"] for row in rows]


def since(records: Sequence[Mapping[str, Any]], start: int, event: str = "") -> list[Mapping[str, Any]]:
    """The records from number `start` on, all or those of one event."""
    return [one for one in records[start:] if not event or one["event"] == event]


@contextmanager
def going_on(halt: Halt | None) -> Iterator[None]:
    """Let the daemon go on wherever it stands still meanwhile."""
    ended = threading.Event()

    def let_go() -> None:
        while halt is not None and not ended.wait(POLL / 2):
            if halt.is_reached():
                halt.go()

    helper = threading.Thread(target=let_go)
    helper.start()
    try:
        yield
    finally:
        ended.set()
        helper.join()
