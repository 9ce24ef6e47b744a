"""A crowd: any number of quiet agents on one tmux server, a foreign graph with mail for them, and a daemon that is watched."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import psutil

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.memory_core import MemoryCore

SENDER: Final = "@person"
SESSION: Final = "agents"
MEGABYTE: Final = 1024 * 1024
START_WITHIN: Final = 120.0
"""Seconds for all agents of a crowd to draw their first screens, on a machine that is busy."""

NO_LIMITS: Final = """
[coalesce]
refractory = 0
[limits]
storm = 100000
wakes_per_hour = 100000
wakes_per_day = 100000
thread_wakes = 100000
"""
"""For measuring how long a wake takes: nothing but the agent's state may hold it."""

_COUNTS: Final = """#!/bin/sh
printf '%s\\n' "$(printf '%s' "$*" | tr '\\n' ' ')" >> {calls}
exec {real} "$@"
"""
_HANGS: Final = """#!/bin/sh
case "$*" in *"{pattern}"*)
    if [ {seconds} = 0 ] || mkdir {directory}/hung-$(($(date +%s) / {seconds})) 2>/dev/null; then exec sleep 3600; fi
esac
exec {real} "$@"
"""


@dataclass(frozen=True, slots=True)
class Member:
    """One of the crowd: `@name`, its harness, and the window it lives in."""

    name: str
    fake: FakeHarness

    @property
    def identity(self) -> str:
        """`@agent7`."""
        return f"@{self.name}"


@dataclass(slots=True)
class Watched:
    """What a daemon used, second by second."""

    at: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    """Megabytes."""
    used: list[float] = field(default_factory=list)
    """Seconds of processor time up to then, children included."""

    def share(self) -> float:
        """Percent of one core over the whole stretch."""
        return 100 * (self.used[-1] - self.used[0]) / (self.at[-1] - self.at[0])


class Crowd:
    """`count` agents in windows of their own, each subscribed to its mail; a context manager that ends all of it.

    Args:
        directory: an empty directory.
        tmux: the server they live in.
        program: what starts wake-bridge.
        count: how many agents; `grow` adds more.
        window: seconds in which an agent's mail is gathered.
        settings: TOML for the configuration.
    """

    def __init__(
        self,
        directory: Path,
        tmux: PrivateTmux,
        program: Sequence[str],
        count: int,
        *,
        window: int = 0,
        settings: str = NO_LIMITS,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.tmux = tmux
        self.window = window
        self.members: list[Member] = []
        self.sandbox = Sandbox(directory, tmux.socket_name, program)
        self.sandbox.graph.parent.mkdir(parents=True)
        self.sandbox.state_dir.mkdir(parents=True, mode=0o700)
        self.sandbox.configure(settings)
        with MemoryCore.create(self.sandbox.graph) as core:
            core.identity(SENDER, accountType="human")
        self._path = self.sandbox.environment["PATH"]
        self.grow(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sandbox.close()

    def core(self) -> MemoryCore:
        """The graph's writer; close it."""
        return MemoryCore(self.sandbox.graph)

    # -- agents --------------------------------------------------------------------------------------------------

    def grow(self, count: int) -> None:
        """Have so many agents."""
        self.add([f"agent{number}" for number in range(len(self.members), count)], "--quiet")

    def add(self, names: Sequence[str], *options: str) -> list[Member]:
        """More agents, started with those options; answers them once all have drawn their screens."""
        made = [Member(name, FakeHarness(self.directory, name)) for name in names]
        for member in made:
            self._open(member, options)
        for member in made:
            member.fake.waits_for("started", timeout=START_WITHIN)
        with self.core() as core:
            core.sql("BEGIN IMMEDIATE")
            for member in made:
                core.identity(member.identity)
                where = {"adapter": "tmux", "tmuxSession": f"{SESSION}:{member.name}", "coalesceWindow": self.window}
                core.subscribe(member.identity, harnessTargetMetadata=where)
            core.sql("COMMIT")
        self.members += made
        return made

    def _open(self, member: Member, options: Sequence[str]) -> None:
        """A window for it. libtmux would list all windows at each: a crowd takes minutes that way."""
        line = "exec " + shlex.join(member.fake.command(*options))
        if self.tmux.server_pid:
            self.tmux.run("new-window", "-d", "-t", f"={SESSION}:", "-n", member.name, line)
        else:
            self.tmux.new_pane(line, session=SESSION, width=100, height=30)
            self.tmux.run("rename-window", "-t", f"={SESSION}:", member.name)

    def pane_of(self, member: Member) -> str:
        """`%3`."""
        return self.tmux.run("display-message", "-p", "-t", f"={SESSION}:={member.name}", "#{pane_id}").strip()

    # -- the daemon ----------------------------------------------------------------------------------------------

    def daemon(self) -> DaemonProcess:
        """A daemon at the tip, on the real tmux or on whatever `counting` and `hanging` put before it."""
        daemon = self.sandbox.daemon()
        if daemon.process.poll() is not None:
            raise RuntimeError(f"the daemon has ended: {daemon.log()}")
        return daemon

    @contextmanager
    def counting(self) -> Iterator[Callable[[], list[str]]]:
        """Daemons that are started meanwhile write each call of tmux down; answers those made since the last question."""
        calls = self.directory / f"calls-{time.time_ns()}"
        calls.touch()
        told = 0

        def since() -> list[str]:
            nonlocal told
            made = calls.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
            fresh, told = made[told:], len(made)
            return fresh

        with self._before_tmux(_COUNTS, calls=calls):
            yield since

    @contextmanager
    def hanging(self, pattern: str, *, once_in: int = 0) -> Iterator[None]:
        """Daemons that are started meanwhile get no answer to a call of tmux whose words contain that.

        With `once_in` only one such call hangs in so many seconds.
        """
        with self._before_tmux(_HANGS, pattern=pattern, seconds=once_in):
            yield

    @contextmanager
    def _before_tmux(self, script: str, **facts: object) -> Iterator[None]:
        directory = self.directory / f"shim-{time.time_ns()}"
        directory.mkdir()
        program = directory / "tmux"
        program.write_text(script.format(directory=directory, real=shutil.which("tmux"), **facts), encoding="utf-8")
        program.chmod(0o755)
        self.sandbox.environment["PATH"] = os.pathsep.join([str(directory), self._path])
        try:
            yield
        finally:
            self.sandbox.environment["PATH"] = self._path

    def watch(self, daemon: DaemonProcess, seconds: float, *, every: float = 1.0) -> Watched:
        """What a daemon uses for so long."""
        process, watched = psutil.Process(daemon.pid), Watched()
        deadline = time.monotonic() + seconds
        while True:
            times = process.cpu_times()
            watched.at.append(time.monotonic())
            watched.resident.append(process.memory_info().rss / MEGABYTE)
            watched.used.append(times.user + times.system + times.children_user + times.children_system)
            left = deadline - time.monotonic()
            if left <= 0:
                return watched
            time.sleep(min(every, left))

    # -- what became of it ---------------------------------------------------------------------------------------

    def submits(self) -> Mapping[str, list[dict[str, Any]]]:
        """What each agent had submitted, by its identity."""
        return {one.identity: one.fake.events("submit") for one in self.members}

    def ledger(self, query: str) -> list[Any]:
        """Rows of the daemon's ledger."""
        with closing(LedgerStore.open(self.sandbox.state_dir, read_only=True)) as store:
            return [tuple(row) for row in store._db.rows(query)]

    def waits_until(self, condition: Callable[[], object], timeout: float, what: str) -> float:
        """Seconds until it holds.

        Raises:
            TimeoutError: it does not within `timeout` seconds.
        """
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout:
                raise TimeoutError(f"waited {timeout} s for {what}")
            time.sleep(0.1)
        return time.monotonic() - began


def writer(graph: Path, **plan: object) -> subprocess.Popen[str]:
    """A process that writes messages by a plan, see `tests/torture/mail_writer.py`; its last line is its account."""
    program = Path(__file__).with_name("mail_writer.py")
    return subprocess.Popen(
        [sys.executable, str(program), str(graph), json.dumps(plan)], stdout=subprocess.PIPE, text=True
    )


def account_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a writer says of what it wrote, once it has ended."""
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the writer ended with {process.returncode}")
    account: dict[str, Any] = json.loads(output.splitlines()[-1])
    return account
