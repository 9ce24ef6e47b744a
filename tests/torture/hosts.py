"""Two hosts that are linked by ssh, and all that can happen between them: kills, standstills, cuts at any byte, full disks.

The daemons, ssh, sshd and the relay are real; between ssh and sshd lies a cable of ours, which can be cut after any byte.
Judged is what the panes of the far host received, by its ledger and the graph of the near one.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.nursery import NurserySandbox
from tests.torture.oracle import RESULTS, comes_true, reckon
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import IMPATIENT, SENDER, STARTS_WITHIN, Agent, Rig
from tests.torture.state import small_disk
from wake_bridge.control.client import poke
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.ssh_server import SshServer, program_in

LANES: Final = 2
AGENTS: Final = 4
LONGEST: Final = 120.0
"""Seconds that the messages of one blow have to arrive, on a machine that is busy with much else."""

DISK: Final = 16
"""Megabytes of each state directory."""

STOPS: Final = (0.2, 1.0, 3.0)
"""Seconds of a standstill; longer ones come in the long form."""

MINUTES: Final = 130.0
"""Seconds of the longest one."""

CHANNEL: Final = '[channels.desk]\nkind = "command"\ncommand = ["sh", "-c", "cat >> ~/told"]\n'
"""What the person is told on either host lands in its HOME."""

ABOUT: Final = (
    "Mail is committed to the graph of the near host for agents in panes of the far one, and something happens while it is on its"
    " way: a process is killed or stands still, the cable between ssh and sshd is cut after some byte, a disk is full. Then all is"
    " as before, and every message must arrive. *lost*: it never does. *twice*: it was submitted twice. *unknown*: the far daemon"
    " was killed between Enter and its proof, and says that it does not know."
)


class Cable:
    """What ssh connects to: passes bytes on to the sshd, is cut after so many, or now."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._room: int | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._serve, daemon=True).start()

    def cut_after(self, count: int | None) -> None:
        """Cut every connection once so many more bytes have passed; None: none is cut."""
        with self._lock:
            self._room = count

    def close(self) -> None:
        """Take it away."""
        self._is_closed = True
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._to), 30) as far:
            others = {near: far, far: near}
            while not self._is_closed:
                for one in select.select([near, far], [], [], 0.2)[0]:
                    piece = one.recv(65536)
                    room = self._taken(len(piece))
                    others[one].sendall(piece[:room])
                    if room < len(piece) or not piece:
                        return
                if self._taken(0) < 0:
                    return

    def _taken(self, count: int) -> int:
        """How many of so many bytes may pass; below 0 where it is cut."""
        with self._lock:
            if self._room is None:
                return count
            room = min(count, self._room) if self._room else -1
            self._room -= max(room, 0)
            return room


@dataclass
class Hosts:
    """Both hosts, with their daemons. `far` is a rig; the near one has only a graph."""

    near: Sandbox
    far: Rig
    server: SshServer
    cable: Cable
    here: DaemonProcess
    there: DaemonProcess
    disks: dict[str, Path]

    def restart_here(self) -> None:
        """A new daemon on the near host."""
        self.here = started(self.near)

    def restart_there(self) -> None:
        """A new daemon on the far host."""
        self.there = started(self.far.plain)

    def ssh(self) -> list[psutil.Process]:
        """The ssh that the near daemon keeps; none while it waits to try again."""
        return [one for one in processes_below(self.here.pid) if one.name() == "ssh"]

    def relay(self) -> list[psutil.Process]:
        """The relays that sshd has started."""
        return [one for one in processes_below(self.server.pid) if is_relay(one)]

    def waiting(self, messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Which of them the far ledger does not know yet, or has not ended."""
        with closing(sqlite3.connect(self.far.plain.state_dir / "state.sqlite", timeout=30)) as ledger:
            rows = ledger.execute(
                "SELECT subject_key, wake_event.identity FROM wake_event LEFT JOIN delivery ON delivery.id = delivery_id"
                " WHERE wake_event.status <> 'open' OR delivery.settled_at IS NOT NULL"
            ).fetchall()
        ended = {(message_of(subject), who) for subject, who in rows}
        return [one for one in messages if one not in ended]

    def unsettled_here(self) -> int:
        """How many deliveries of the near ledger have not ended."""
        with closing(sqlite3.connect(self.near.state_dir / "state.sqlite", timeout=30)) as ledger:
            (count,) = ledger.execute("SELECT COUNT(*) FROM delivery WHERE settled_at IS NULL").fetchone()
        return int(count)


def message_of(subject: str) -> str:
    """The message that a signed wake told of."""
    return subject.split(" ", 1)[0]


def processes_below(pid: int) -> list[psutil.Process]:
    """All that a process has started, and they in turn."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_relay(process: psutil.Process) -> bool:
    """Whether it is `wake-bridge relay` itself, and no shell before it."""
    with suppress(psutil.Error):
        words = process.cmdline()
        return bool(words) and words[-1] == "relay" and "python" in process.name()
    return False


def started(sandbox: Sandbox) -> DaemonProcess:
    """A daemon that tails."""
    daemon = sandbox.daemon_under_way()
    daemon.waits_until_tailing(STARTS_WITHIN)
    return daemon


@contextmanager
def two_hosts(directory: Path, tmux: PrivateTmux, names: Sequence[str]) -> Iterator[Hosts]:
    """Both of them, linked, with state directories on small disks where this machine lets us."""
    with ExitStack() as stack:
        disks = {}
        for side in ("here", "there"):
            if stack.enter_context(small_disk(directory / f"disk-{side}", DISK)):
                disks[side] = directory / f"disk-{side}"
        state = {side: f'[daemon]\nstate_dir = "{disk}"\n' for side, disk in disks.items()}
        settings = {side: state.get(side, "") + CHANNEL for side in ("here", "there")}
        far = stack.enter_context(
            Rig(directory / "far", tmux, names, is_born=True, settings=settings["there"], target="window = 0")
        )
        near = NurserySandbox(directory / "near")
        near.configure(IMPATIENT.format(lease=30, timeout=10, again=600) + settings["here"])
        for sandbox, side in ((near, "here"), (far.plain, "there")):
            sandbox.state_dir = disks.get(side, sandbox.state_dir)
        near.run("init")
        server = stack.enter_context(SshServer(directory / "sshd", noise="Welcome! "))
        cable = Cable(server.port)
        stack.callback(cable.close)
        server.reached_from(near, port=cable.port)
        stack.callback(near.close)
        near.run("hosts", "add", "devbox", "--program", program_in(far.plain))
        with MemoryCore(near.graph) as core:
            core.identity(SENDER, accountType="human")
            for agent in far.agents:
                core.identity(agent.identity)
                core.subscribe(agent.identity, harnessTargetMetadata={"coalesceWindow": 0})
        hosts = Hosts(near, far, server, cable, started(near), started(far.plain), disks)
        assert comes_true(lambda: near.lines("hosts", "list")[0]["state"] == "up", LONGEST), hosts.here.log()[-3000:]
        yield hosts


Blow = Callable[[Hosts, random.Random], None]
"""Does something to one of the hosts, and puts it right again."""


def nothing(hosts: Hosts, chance: random.Random) -> None:
    """Mail alone."""
    del hosts, chance


def kill_here(hosts: Hosts, chance: random.Random) -> None:
    """Kill -9 of the daemon with the graph."""
    hosts.here.kill()
    time.sleep(chance.random() / 2)
    hosts.restart_here()


def kill_there(hosts: Hosts, chance: random.Random) -> None:
    """Kill -9 of the daemon with the panes."""
    hosts.there.kill()
    time.sleep(chance.random() / 2)
    hosts.restart_there()


def kill_both(hosts: Hosts, chance: random.Random) -> None:
    """Kill -9 of both."""
    hosts.here.kill()
    hosts.there.kill()
    time.sleep(chance.random() / 2)
    hosts.restart_there()
    hosts.restart_here()


def kill_ssh(hosts: Hosts, chance: random.Random) -> None:
    """Kill -9 of ssh."""
    del chance
    signal_all(hosts.ssh(), signal.SIGKILL)


def kill_relay(hosts: Hosts, chance: random.Random) -> None:
    """Kill -9 of the relay."""
    del chance
    signal_all(hosts.relay(), signal.SIGKILL)


def cut(hosts: Hosts, chance: random.Random) -> None:
    """The cable is cut after some byte, and is whole again a moment later."""
    hosts.cable.cut_after(chance.randrange(1, 6_000))
    time.sleep(chance.random() * 1.5)
    hosts.cable.cut_after(0)
    time.sleep(0.3)
    hosts.cable.cut_after(None)


def stop_of(which: str, *, minutes: bool = False) -> Blow:
    """SIGSTOP of one of the processes for a while."""

    def stop(hosts: Hosts, chance: random.Random) -> None:
        of: dict[str, list[psutil.Process]] = {
            "here": [psutil.Process(hosts.here.pid)],
            "there": [psutil.Process(hosts.there.pid)],
            "ssh": hosts.ssh(),
            "relay": hosts.relay(),
        }
        stopped = of[which]
        signal_all(stopped, signal.SIGSTOP)
        time.sleep(MINUTES if minutes else chance.choice(STOPS))
        signal_all(stopped, signal.SIGCONT)

    return stop


def fill(side: str) -> Blow:
    """The disk under a state directory is full for a while."""

    def full(hosts: Hosts, chance: random.Random) -> None:
        filler = hosts.disks[side] / "filler"
        descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
        for size in (65_536, 1024, 1):
            with suppress(OSError):
                while True:
                    os.write(descriptor, bytes(size))
        os.close(descriptor)
        time.sleep(chance.choice(STOPS))
        filler.unlink()

    return full


def signal_all(processes: Sequence[psutil.Process], number: int) -> None:
    """Send a signal to each that is still there."""
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)


BLOWS: Final[dict[str, Blow]] = {
    "nothing": nothing,
    "kill -9 of the daemon with the graph": kill_here,
    "kill -9 of the daemon with the panes": kill_there,
    "kill -9 of both daemons": kill_both,
    "kill -9 of ssh": kill_ssh,
    "kill -9 of the relay": kill_relay,
    "cable cut after some byte": cut,
    "SIGSTOP of the daemon with the graph": stop_of("here"),
    "SIGSTOP of the daemon with the panes": stop_of("there"),
    "SIGSTOP of ssh": stop_of("ssh"),
    "SIGSTOP of the relay": stop_of("relay"),
    "full disk under the graph's daemon": fill("here"),
    "full disk under the panes' daemon": fill("there"),
}
FOR_MINUTES: Final[dict[str, Blow]] = {
    f"SIGSTOP of the {name} for {MINUTES:.0f} s": stop_of(which, minutes=True)
    for name, which in (("daemon with the panes", "there"), ("daemon with the graph", "here"), ("relay", "relay"))
}
NEEDS_DISKS: Final = {"full disk under the graph's daemon", "full disk under the panes' daemon"}


@dataclass
class Lane:
    """Two hosts, and what was sent so far, each message with what happened to it."""

    hosts: Hosts
    chance: random.Random
    sent: dict[tuple[str, str], str]


def strike_all(
    directory: Path, tmux: PrivateTmux, *, messages: int, seed: int, is_long: bool, lanes: int = LANES
) -> Table:
    """At least so many messages, each with something that happens while it is on its way."""
    names = [*BLOWS, *(FOR_MINUTES if is_long else {})]
    table = Table("Two hosts that are linked by ssh", ABOUT, "what happens", (*RESULTS, "not for this machine"), names)
    began = time.monotonic()
    blows = shuffled(BLOWS, messages, seed)
    if is_long:
        blows = [*FOR_MINUTES, *blows]
    with ExitStack() as stack:
        made = [Lane(*one, {}) for one in lanes_of(directory, tmux, "h", seed, lanes, stack)]
        run_in_lanes(table, made, blows, _strike)
        for lane in made:
            _judge(table, lane)
    table.seconds = time.monotonic() - began
    return table


def shuffled(names: Iterable[str], messages: int, seed: int) -> list[str]:
    """As many blows as so many messages need: half of the agents are written to each time, on average."""
    names = [*names]
    rounds = max(1, round(messages / len(names) / (AGENTS / 2 + 0.5)))
    blows = [name for name in names for _ in range(rounds)]
    random.Random(seed).shuffle(blows)
    return blows


def lanes_of(
    directory: Path, tmux: PrivateTmux, letter: str, seed: int, lanes: int, stack: ExitStack
) -> Iterator[tuple[Hosts, random.Random]]:
    """Pairs of hosts, each with its own chance; the letter begins the names of its agents."""
    for number in range(lanes):
        agents = [f"{letter}{number}{one}" for one in range(AGENTS)]
        hosts = stack.enter_context(two_hosts(directory / f"{letter}{number}", tmux, agents))
        yield hosts, random.Random(f"{seed} {number}")


def _strike(lane: Lane, name: str) -> tuple[str, Verdict, int]:
    """One blow; its messages are judged at the end, by all that the panes got."""
    hosts, chance = lane.hosts, lane.chance
    if name in NEEDS_DISKS and len(hosts.disks) < 2:
        return name, Verdict("not for this machine"), 1
    agents = chance.sample(hosts.far.agents, chance.randint(1, AGENTS))
    sent: list[tuple[str, str]] = []
    mail = threading.Thread(target=_send, args=(lane, name, agents, sent))
    mail.start()
    time.sleep(chance.random() * 0.3)
    (BLOWS | FOR_MINUTES)[name](hosts, chance)
    mail.join()

    def has_arrived() -> bool:
        # whoever writes mail by a command says so to the daemon, which then tries its links
        poke(hosts.near.state_dir)
        return not hosts.waiting(sent) and not hosts.unsettled_here()

    if comes_true(has_arrived, LONGEST, 0.1):
        return name, Verdict(RESULTS[0]), 0
    logs = f"{hosts.here.log()[-2500:]}\n{hosts.there.log()[-1500:]}"
    return (
        name,
        Verdict("still held", (f"not at rest: {hosts.waiting(sent)}, {hosts.unsettled_here()} here\n{logs}",)),
        0,
    )


def _send(lane: Lane, name: str, agents: Sequence[Agent], sent: list[tuple[str, str]]) -> None:
    for agent in agents:
        with MemoryCore(lane.hosts.near.graph) as core:
            key = (core.send(SENDER, agent.identity, f"{name} {len(lane.sent)}"), agent.identity)
        lane.sent[key] = name
        sent.append(key)
        time.sleep(lane.chance.random() * 0.15)


def _judge(table: Table, lane: Lane) -> None:
    found = reckon(lane.hosts.far, [*lane.sent], message_of)
    for key, verdict in found.verdicts.items():
        table.add(lane.sent[key], verdict)
    for wrong in found.wrongs:
        table.demand(holds=False, row="all", broken=wrong)
