"""Who is in a pane: its processes, the agent among them, and whether it is still the same one.

Pane ids restart with the server, names match by prefix, and an agent that quits to its shell leaves `pane_pid` as it
was. So the fence holds the server, the pane, its process and the agent's, each with its start time. A pane that is moved
to another window or session is the same pane.
"""

from __future__ import annotations

import fcntl
import os
import platform
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

import psutil

from wake_bridge.domain.programs import SHELLS, is_runner, is_shell_or_veto, reads_lines
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.process_stat import START_TIME, TERMINAL_GROUP, stat_fields
from wake_bridge_adapters.screens.profile import Profile, recognise
from wake_bridge_adapters.screens.version import installed_version

_PS_TIMEOUT: Final = 3.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `started` tells it from a later one with the same pid."""

    pid: int
    started: str
    argv: tuple[str, ...]
    is_stopped: bool = False


def foreground_leader(pane_pid: int) -> Process | None:
    """The leader of the group that has the terminal of the pane started as `pane_pid`.

    The oldest other member stands in for a leader that has ended; None if it cannot be told.
    """
    group = _terminal_group(pane_pid)
    if group is None or group <= 0:
        return None
    return process_now(group) or next(iter(foreground_others(pane_pid, group)), None)


def foreground_others(pane_pid: int, group: int) -> list[Process]:
    """The other members of the group among the pane's descendants, oldest first: what a wrapper script runs."""
    family = [process_now(pane_pid), *descendants(pane_pid)]
    return [one for one in family if one is not None and one.pid != group and _is_in_group(one.pid, group)]


def descendants(pid: int) -> list[Process]:
    """All that a process has started, and what those have, oldest first; zombies are none."""
    try:
        family = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    found = [process_now(one.pid) for one in family]
    return [one for one in found if one is not None]


def process_now(pid: int) -> Process | None:
    """The process as it is now; None if it has ended."""
    try:
        one = psutil.Process(pid)
        status = one.status()
        argv = tuple(one.cmdline())
    except psutil.Error:
        return None
    if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
        return None
    stopped = status in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
    return Process(pid, started_at(pid), argv, stopped)


def started_at(pid: int) -> str:
    """When a process started, as a text that stays the same while it lives; empty if it is gone."""
    if _has_proc():
        fields = stat_fields(pid)
        return fields[START_TIME] if fields else ""
    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


def age_of(pid: int) -> float:
    """Seconds since a process was started, whatever became of the wall clock meanwhile; 0 if it is gone."""
    if _has_proc():
        fields = stat_fields(pid)
        ticks = float(fields[START_TIME]) if fields else None
        return 0.0 if ticks is None else time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    try:
        return time.time() - psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def executable_of(pid: int) -> str:
    """The file a process was started from; empty if it is gone or may not be asked."""
    try:
        return str(psutil.Process(pid).exe())
    except (psutil.Error, OSError):
        return ""


def search_path_of(pid: int) -> str:
    """The `PATH` a process was started with; empty if it is gone or may not be asked."""
    try:
        return psutil.Process(pid).environ().get("PATH", "")
    except (psutil.Error, OSError):
        return ""


def unread_bytes(terminal: str) -> int:
    """How much input lies in a terminal that its program has not read yet; 0 where that cannot be told.

    A key that was sent and not read would act on a screen nobody has seen yet.
    """
    try:
        descriptor = os.open(terminal, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return int(waiting)


def _has_proc() -> bool:
    return platform.system() == "Linux"


def _terminal_group(pid: int) -> int | None:
    if _has_proc():
        fields = stat_fields(pid)
        return int(fields[TERMINAL_GROUP]) if fields else None
    try:
        answer = subprocess.run(
            ["/bin/ps", "-o", "tpgid=", "-p", str(pid)],
            capture_output=True,
            timeout=_PS_TIMEOUT,
            check=True,
            text=True,
        )
        return int(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _is_in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:
        return False


NO_PROCESS: Final = 0


def fence_around(
    *, socket: str, server_pid: int, session_id: str, pane_id: str, pane_pid: int, agent: Process | None
) -> Binding:
    """The fence of a pane as it is now; without an agent its part of the fence stays open."""
    return Binding(
        socket=os.path.realpath(socket),
        server_pid=server_pid,
        session_id=session_id,
        pane_id=pane_id,
        pane_pid=pane_pid,
        pane_started=started_at(pane_pid),
        agent_pid=agent.pid if agent else NO_PROCESS,
        agent_started=agent.started if agent else "",
    )


def spelled(fence: Binding) -> str:
    """The fence as a person reads it in a journal."""
    agent = f", agent {fence.agent_pid}" if fence.agent_pid != NO_PROCESS else ""
    return f"server {fence.server_pid}, pane {fence.pane_id}, process {fence.pane_pid}{agent}"


def breach(fence: Binding, now: Binding) -> str:
    """What of `fence` no longer holds, one clause; empty while all of it does."""
    if (fence.socket, fence.server_pid) != (now.socket, now.server_pid):
        return "the tmux server is another one"
    if (fence.pane_id, fence.pane_pid, fence.pane_started) != (now.pane_id, now.pane_pid, now.pane_started):
        return f"the pane {fence.pane_id} is another one"
    if fence.agent_pid != NO_PROCESS and not fence.has_agent_of(now):
        return "the agent in the pane is not the one it was"
    return ""


@dataclass(frozen=True, slots=True)
class PaneAgent:
    """A known harness that has the terminal. `version` is read once for a process; empty where its files do not tell."""

    process: Process
    profile: Profile
    version: str = ""


@dataclass(frozen=True, slots=True)
class NoAgent:
    """Nobody there who could take a wake; `rule` names the case."""

    why: str
    rule: str = "no-agent"


@dataclass(frozen=True, slots=True)
class _Remembered:
    pane_pid: int
    command: str
    harness: str
    agent: PaneAgent


class Occupants:
    """Tells who is there; remembers it while pane process and command stay the same."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles = profiles
        self._remembered: dict[tuple[str, str], _Remembered] = {}
        self._set_aside: dict[tuple[str, str], Process] = {}

    def of(
        self, socket: str, pane_id: str, pane_pid: int, command: str, harness: str = "", *, anew: bool = False
    ) -> PaneAgent | NoAgent:
        """Who has the terminal of the pane started as `pane_pid`.

        `harness` replaces the recognition, never the vetoes, to which REPLs and their like belong then; `anew` looks again whatever is remembered, as is done
        anyway when the agent has ended or was stopped. Blocks for some milliseconds when it has to look. That nobody is
        there is never remembered, nor that a runner is: a script or `npx` may start the agent at any moment, and the
        command stays theirs.
        """
        key = (socket, pane_id)
        known = self._remembered.get(key)
        is_same = known and (known.pane_pid, known.command, known.harness) == (pane_pid, command, harness)
        if known and is_same and not anew and process_now(known.agent.process.pid) == known.agent.process:
            return known.agent
        occupant = self._look(pane_pid, harness, known.agent if known else None)
        if known and isinstance(occupant, NoAgent):
            self._set_aside[key] = known.agent.process
        if isinstance(occupant, PaneAgent) and self._has_lost_its_paste(key, occupant):
            return NoAgent(f"{_name_of(occupant.process)} was stopped, and would read a paste as keys: restart it")
        if isinstance(occupant, PaneAgent) and not is_runner(occupant.process.argv):
            self._remembered[key] = _Remembered(pane_pid, command, harness, occupant)
        else:
            self._remembered.pop(key, None)
        return occupant

    def known(self, socket: str, pane_id: str) -> PaneAgent | None:
        """The agent that was found in the pane when it was looked at last; asks nothing anew."""
        remembered = self._remembered.get((socket, pane_id))
        return remembered.agent if remembered else None

    def _has_lost_its_paste(self, key: tuple[str, str], agent: PaneAgent) -> bool:
        """Whether a shell has had the terminal in between, and the harness does not know what that has changed."""
        before = self._set_aside.get(key)
        is_back = before is not None and (before.pid, before.started) == (agent.process.pid, agent.process.started)
        return is_back and agent.profile.paste.lost_when_stopped

    def _look(self, pane_pid: int, harness: str, known: PaneAgent | None) -> PaneAgent | NoAgent:
        leader = foreground_leader(pane_pid)
        if leader is None:
            return NoAgent("no process has the terminal")
        if is_shell_or_veto(leader.argv) and not _runs_a_script(leader):
            return self._nobody(leader)
        if harness and harness not in self._profiles:
            return NoAgent(f"no screen profile is called {harness!r}", "no-profile")
        runner: tuple[Process, Profile] | None = None
        for process in _group_of(leader, pane_pid):
            if is_shell_or_veto(process.argv):
                continue
            if harness and reads_lines(process.argv):
                return NoAgent(f"{_name_of(process)} has the terminal and is not {harness}, although `harness` says so")
            name = harness or recognise(process.argv, self._profiles)
            if name and process.is_stopped:
                return NoAgent(f"{_name_of(process)} is stopped", "suspended")
            if name and not is_runner(process.argv):
                return _agent(process, self._profiles[name], known)
            if name:
                runner = runner or (process, self._profiles[name])
        return _agent(*runner, known) if runner else self._nobody(leader)

    def _nobody(self, leader: Process) -> NoAgent:
        """No agent has the terminal; one may have been sent behind its shell with Ctrl-Z."""
        for process in descendants(leader.pid):
            if process.is_stopped and (name := recognise(process.argv, self._profiles)):
                return NoAgent(f"{name} is stopped, and {_name_of(leader)} has the terminal", "suspended")
        return NoAgent(f"{_name_of(leader)} has the terminal")


def _agent(process: Process, profile: Profile, known: PaneAgent | None) -> PaneAgent:
    """The agent that this process is; `known` is the one that was there before."""
    if known is not None and known.process == process and known.profile is profile:
        return known
    version = installed_version(process.argv, executable_of(process.pid), search_path_of(process.pid), profile)
    return PaneAgent(process, profile, version)


def _group_of(leader: Process, pane_pid: int) -> Iterator[Process]:
    """The leader, and only if that is not enough the rest of its group: what a script or a runner has started."""
    yield leader
    yield from foreground_others(pane_pid, leader.pid)


def _runs_a_script(shell: Process) -> bool:
    """Whether a shell runs a script rather than talking to a person; only then can an agent be in its own group."""
    name = PurePath(shell.argv[0]).name if shell.argv else ""
    return name in SHELLS and len(shell.argv) > 1


def _name_of(process: Process) -> str:
    return PurePath(process.argv[0]).name if process.argv else f"process {process.pid}"
