"""The fence: what must still be the same for a pane to be the pane it was (docs/design.md §6.2).

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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from wake_bridge.domain.routing import Binding

_PS_TIMEOUT: Final = 3.0
_STAT_TERMINAL_GROUP: Final = 5
_STAT_START_TIME: Final = 19


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
        fields = _stat_fields(pid)
        return fields[_STAT_START_TIME] if fields else ""
    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


def age_of(pid: int) -> float:
    """Seconds since a process was started, whatever became of the wall clock meanwhile; 0 if it is gone."""
    if _has_proc():
        fields = _stat_fields(pid)
        ticks = float(fields[_STAT_START_TIME]) if fields else None
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
        fields = _stat_fields(pid)
        return int(fields[_STAT_TERMINAL_GROUP]) if fields else None
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


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may itself hold blanks and brackets; [] if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


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
