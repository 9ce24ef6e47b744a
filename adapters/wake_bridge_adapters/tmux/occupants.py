"""Who is in a pane: its processes, the agent among them, and whether it is still the same one.

Pane ids restart with the server, names match by prefix, and an agent that quits to its shell leaves `pane_pid` as it
was. So the fence holds the server, the pane, its process and the agent's, each with its start time. A pane that is moved
to another window or session is the same pane. Where the pane's own program only carries a terminal (`sudo`, `docker`), who
has that one is asked the same way, as far as it can be seen (docs/carriers.md).
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shlex
import stat
import struct
import subprocess
import termios
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final, Self

import psutil

from wake_bridge.domain.hosts import is_host_name
from wake_bridge.domain.programs import (
    SHELLS,
    Carrier,
    carrier_of,
    is_runner,
    is_shell_or_veto,
    reads_lines,
    ssh_destination,
)
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


def sessions_begun_by(carrier: Process) -> list[Process]:
    """The first process of each session that a process, or what it has started in its own session, has begun."""
    session = _session_of(carrier.pid)
    family = [carrier, *descendants(carrier.pid)]
    inside = {one.pid for one in family if _session_of(one.pid) == session}
    return [
        one
        for one in family
        if _session_of(one.pid) == one.pid and one.pid not in inside and _parent(one.pid) in inside
    ]


def input_of(pid: int) -> str:
    """A path by which the standard input of a process can be opened, whatever file system it sees; empty where none is known."""
    if _has_proc():
        return f"/proc/{pid}/fd/0"
    try:
        return psutil.Process(pid).terminal() or ""
    except psutil.Error:
        return ""


def _reads_the_same(one: int, other: int) -> bool:
    """Whether two processes have one terminal as their standard input."""
    try:
        inputs = [Path(input_of(pid)).stat() for pid in (one, other)]
    except OSError:
        return False
    return stat.S_ISCHR(inputs[0].st_mode) and (inputs[0].st_dev, inputs[0].st_rdev) == (
        inputs[1].st_dev,
        inputs[1].st_rdev,
    )


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _parent(pid: int) -> int:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0


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


def is_in_a_popup(fence: Binding) -> bool:
    """Whether tmux started this process, but not in the fence's pane: a popup may inherit `$TMUX_PANE` from its server."""
    try:
        above = {one.pid for one in psutil.Process().parents()}
    except psutil.Error:
        return False
    return fence.server_pid in above and fence.pane_pid not in above


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
    """A known harness that has the terminal. `version` is read once for a process; empty where its files do not tell.

    `carriers` are the programs that carry the terminal to it, the pane's own first. Where `is_hidden` the last of them stands
    for it as `process`: who is behind it was only said, and shows on the screen alone.
    """

    process: Process
    profile: Profile
    version: str = ""
    carriers: tuple[str, ...] = ()
    is_hidden: bool = False


HIDDEN: Final = "hidden-by-carrier"
"""The rule of a pane whose program carries a terminal, and what has that one cannot be seen."""

_DEEPEST: Final = 8
"""Carriers behind each other; further ones are not looked behind."""


@dataclass(frozen=True, slots=True)
class NoAgent:
    """Nobody there who could take a wake; `rule` names the case."""

    why: str
    rule: str = "no-agent"


@dataclass(frozen=True, slots=True)
class _Terminal:
    """A terminal, by the first process of its session: the leader of the group that has it, and what carries it to there."""

    session: int
    leader: Process | None
    carriers: tuple[str, ...] = ()

    @classmethod
    def of(cls, session: int, carriers: tuple[str, ...] = ()) -> Self:
        """The terminal of a session as it is now."""
        return cls(session, foreground_leader(session), carriers)

    def behind(self, carrier: str) -> Self:
        """The same, behind one more carrier."""
        return replace(self, carriers=(*self.carriers, carrier))


@dataclass(frozen=True, slots=True)
class _Remembered:
    pane_pid: int
    command: str
    agent: PaneAgent


class Occupants:
    """Tells who is there; remembers it while pane process and command stay the same, for each harness that it is asked for."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles = profiles
        self._remembered: dict[tuple[str, str, str], _Remembered] = {}
        # the agent of each pane that was last seen to have lost its terminal to somebody else
        self._lost_terminal: dict[tuple[str, str], Process] = {}

    def of(
        self, socket: str, pane_id: str, pane_pid: int, command: str, harness: str = "", *, anew: bool = False
    ) -> PaneAgent | NoAgent:
        """Who has the terminal of the pane started as `pane_pid`.

        `harness` replaces the recognition, never the vetoes, to which REPLs and their like belong then; `anew` looks again whatever is remembered, as is done
        anyway when the agent has ended or was stopped. Blocks for some milliseconds when it has to look. That nobody is
        there is never remembered, nor that a runner is: a script or `npx` may start the agent at any moment, and the
        command stays theirs.
        """
        pane, key = (socket, pane_id), (socket, pane_id, harness)
        known = self._remembered.get(key)
        is_same = known and (known.pane_pid, known.command) == (pane_pid, command)
        # tmux's command is the carrier's, whoever has the terminal behind it
        is_same = is_same and not known.agent.carriers if known else False
        if known and is_same and not anew and process_now(known.agent.process.pid) == known.agent.process:
            return known.agent
        occupant = self._look(_Terminal.of(pane_pid), harness, known.agent if known else None)
        if known and isinstance(occupant, NoAgent):
            self._lost_terminal[pane] = known.agent.process
        if isinstance(occupant, PaneAgent) and self._has_lost_its_paste(pane, occupant):
            return NoAgent(f"{_name_of(occupant.process)} was stopped, and would read a paste as keys: restart it")
        self._remembered.pop(key, None)
        if isinstance(occupant, PaneAgent) and not is_runner(occupant.process.argv):
            self._remembered[key] = _Remembered(pane_pid, command, occupant)
        return occupant

    def keep_only(self, socket: str, panes: Container[str]) -> None:
        """Forget who was in the panes of a server that it no longer has."""
        # threads that look at other panes write there meanwhile
        for key in [*self._remembered]:
            if key[0] == socket and key[1] not in panes:
                self._remembered.pop(key, None)
        for pane in [*self._lost_terminal]:
            if pane[0] == socket and pane[1] not in panes:
                self._lost_terminal.pop(pane, None)

    def known(self, socket: str, pane_id: str) -> PaneAgent | None:
        """The agent that was found in the pane when it was looked at last; asks nothing anew."""
        # threads that look at other panes write there meanwhile
        found = [one.agent for key, one in [*self._remembered.items()] if key[:2] == (socket, pane_id)]
        return found[-1] if found else None

    def _has_lost_its_paste(self, pane: tuple[str, str], agent: PaneAgent) -> bool:
        """Whether a shell has had the terminal in between, and the harness does not know what that has changed."""
        before = self._lost_terminal.get(pane)
        is_back = before is not None and (before.pid, before.started) == (agent.process.pid, agent.process.started)
        return is_back and agent.profile.paste.lost_when_stopped

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The screen profiles by the harness's name."""
        return self._profiles

    def _look(self, terminal: _Terminal, harness: str, known: PaneAgent | None) -> PaneAgent | NoAgent:
        leader = terminal.leader
        if leader is None:
            return NoAgent("no process has the terminal")
        if is_shell_or_veto(leader.argv) and not _runs_a_script(leader) and carrier_of(leader.argv) is None:
            return self._nobody(leader)
        if harness and harness not in self._profiles:
            return NoAgent(f"no screen profile is called {harness!r}", "no-profile")
        runner: PaneAgent | None = None
        for process in _group_of(leader, terminal.session):
            found = self._who(process, terminal, harness, known)
            if isinstance(found, str):
                terminal = terminal.behind(found)
            elif isinstance(found, PaneAgent) and is_runner(process.argv):
                runner = runner or found
            elif found is not None:
                return found
        return runner or self._nobody(leader)

    def _who(
        self, process: Process, terminal: _Terminal, harness: str, known: PaneAgent | None
    ) -> PaneAgent | NoAgent | str | None:
        """Who a process that has a terminal is: an agent, what speaks against one, or a carrier, by its name, of that same terminal."""
        if (carrier := carrier_of(process.argv)) is not None:
            return self._behind(process, *carrier, terminal, harness, known)
        if is_shell_or_veto(process.argv):
            return None
        if harness and reads_lines(process.argv):
            return NoAgent(f"{_name_of(process)} has the terminal and is not {harness}, although `harness` says so")
        name = harness or recognise(process.argv, self._profiles)
        if name and process.is_stopped:
            return NoAgent(f"{_name_of(process)} is stopped", "suspended")
        return _agent(process, self._profiles[name], known, terminal.carriers) if name else None

    def _behind(
        self,
        process: Process,
        name: str,
        kind: Carrier,
        terminal: _Terminal,
        harness: str,
        known: PaneAgent | None,
    ) -> PaneAgent | NoAgent | str:
        """Who is behind a process that only carries its terminal."""
        if process.is_stopped:
            return NoAgent(f"{name} is stopped", "suspended")
        if kind is Carrier.ELSEWHERE:
            return NoAgent(f"{name} has the terminal; {_link_to(process.argv, name)}", "on-another-host")
        if kind is Carrier.OWN_PANES:
            return NoAgent(f"{name} has the terminal; what it shows has panes of its own", "own-panes")
        if kind is Carrier.HIDDEN and not harness:
            return NoAgent(f"{name} has the terminal and only carries it", HIDDEN)
        carriers = (*terminal.carriers, name)
        if kind is Carrier.HIDDEN:
            return PaneAgent(process, self._profiles[harness], carriers=carriers, is_hidden=True)
        begun = sessions_begun_by(process)
        if not begun:
            return name
        if len(begun) > 1 or len(carriers) > _DEEPEST:
            return NoAgent(f"{name} has the terminal; {len(begun)} sessions are behind it")
        (first,) = begun
        if (_terminal_group(first.pid) or 0) > 0:
            return self._look(_Terminal.of(first.pid, carriers), harness, known)
        if not _reads_the_same(first.pid, process.pid):
            return NoAgent(f"{name} has the terminal; nobody can tell who reads it behind it")
        return self._look(_Terminal(first.pid, first, carriers), harness, known)

    def _nobody(self, leader: Process) -> NoAgent:
        """No agent has the terminal; one may have been sent behind its shell with Ctrl-Z."""
        for process in descendants(leader.pid):
            if process.is_stopped and (name := recognise(process.argv, self._profiles)):
                return NoAgent(f"{name} is stopped, and {_name_of(leader)} has the terminal", "suspended")
        return NoAgent(f"{_name_of(leader)} has the terminal")


def _agent(process: Process, profile: Profile, known: PaneAgent | None, carriers: tuple[str, ...]) -> PaneAgent:
    """The agent that this process is; `known` is the one that was there before."""
    if known is not None and (known.process, known.carriers) == (process, carriers) and known.profile is profile:
        return known
    version = installed_version(process.argv, executable_of(process.pid), search_path_of(process.pid), profile)
    return PaneAgent(process, profile, version, carriers)


def _link_to(argv: Sequence[str], name: str) -> str:
    """What links the host that a process leads to."""
    where = ssh_destination(argv) if name == "ssh" else ""
    host = re.sub(r"^.*@|:\d+$", "", where.removeprefix("ssh://"))
    name = host if is_host_name(host) else "NAME"
    destination = f" --ssh {shlex.quote(where)}" if where not in {"", name} else ""
    return f"`wake-bridge hosts add {name}{destination}` links the host behind it"


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
