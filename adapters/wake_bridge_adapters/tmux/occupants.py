"""Which agent, if any, has a pane's terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from wake_bridge.domain.programs import SHELLS, is_runner, is_shell_or_veto, reads_lines
from wake_bridge_adapters.screens.profile import Profile, recognise
from wake_bridge_adapters.screens.version import installed_version
from wake_bridge_adapters.tmux.processes import (
    Process,
    descendants,
    executable_of,
    foreground_leader,
    foreground_others,
    process_now,
    search_path_of,
)


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
            return NoAgent(f"{_name_of(occupant.process)} was stopped, and would take a paste for keys: restart it")
        if isinstance(occupant, PaneAgent) and not is_runner(occupant.process.argv):
            self._remembered[key] = _Remembered(pane_pid, command, harness, occupant)
        else:
            self._remembered.pop(key, None)
        return occupant

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
                return NoAgent(f"{_name_of(process)} has the terminal, and is no {harness}, whatever `harness` says")
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
