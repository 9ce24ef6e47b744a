"""Who has a terminal session's tty: the foreground group's argv, as on every surface (DESIGN §5 "Who is there")."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import psutil

from adapters.bounded_call import BoundedCall
from adapters.screens.profile import Profile, recognise
from wake_bridge.domain.programs import is_shell_or_veto, reads_lines

_COLUMNS: Final = 3


@dataclass(frozen=True, slots=True)
class Occupant:
    """The agent of a session; without a `harness` nobody who could take a wake, and `why`."""

    harness: str
    pid: int = 0
    started: str = ""
    why: str = ""


async def occupant_of(
    tty: str, profiles: Mapping[str, Profile], harness: str, environment: Mapping[str, str], timeout: float
) -> Occupant:
    """Who has the terminal `tty`. `harness` replaces the recognition, never the vetoes."""
    pids = await _foreground(tty, environment, timeout)
    if not pids:
        return Occupant("", why=f"no process has {tty}")
    argvs = {pid: _argv(pid) for pid in pids}
    if is_shell_or_veto(argvs[pids[0]]):
        return Occupant("", why=f"{(argvs[pids[0]] or ['nothing'])[0]} has the terminal")
    if harness and harness not in profiles:
        return Occupant("", why=f"no screen profile is called {harness!r}")
    for pid, argv in argvs.items():
        if harness and reads_lines(argv):
            return Occupant("", why=f"{argv[0]} has the terminal, and is no {harness}, whatever `harness` says")
        name = "" if is_shell_or_veto(argv) else harness or recognise(argv, profiles) or ""
        if name and _is_stopped(pid):
            return Occupant("", why=f"{name} is stopped")
        if name:
            return Occupant(name, pid, started_at(pid))
    return Occupant("", why=f"{argvs[pids[0]][0]} has the terminal")


def started_at(pid: int) -> str:
    """When a process started, a text that stays the same while it lives; empty if it is gone."""
    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


async def _foreground(tty: str, environment: Mapping[str, str], timeout: float) -> list[int]:
    """The pids of the foreground group, its leader first."""
    program = shutil.which("ps", path=environment.get("PATH"))
    if program is None:
        return []
    argv = [program, "-o", "pid=,pgid=,tpgid=", "-t", tty.removeprefix("/dev/")]
    answer = await asyncio.to_thread(BoundedCall(argv, "", timeout, environment).run)
    rows = [line.split() for line in answer.stdout.splitlines()]
    group = [
        (int(pid), int(leader))
        for pid, leader, front in (row for row in rows if len(row) == _COLUMNS)
        if leader == front
    ]
    return [pid for pid, leader in sorted(group, key=lambda one: one[0] != one[1])]


def _argv(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _is_stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
    except psutil.Error:
        return True
