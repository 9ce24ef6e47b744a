"""The processes above this one, and which of them is an agent: this tells who runs a command.

On Linux from /proc, which costs microseconds: agents run commands in every turn.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wake_bridge.domain.names import Identity, Instant, is_identity
from wake_bridge.domain.ownership import PERSON, Invoker
from wake_bridge.domain.programs import HARNESSES, Known, Names, harness_of
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import AGENT_VARIABLE

if TYPE_CHECKING:
    from wake_bridge.domain.routing import Binding


_START_TIME: Final = 19


def own_session(identity: Identity, environment: Mapping[str, str], now: Instant) -> Session | None:
    """It as the identity's; None where there is none, or one inside another's tool: nobody could tell which is meant."""
    named = [(harness, value) for name, harness in SESSION_VARIABLES.items() if (value := environment.get(name))]
    if len(named) != 1:
        return None
    harness, session_id = named[0]
    pid = environment.get("CLAUDE_PID", "") if harness == "claude" else ""
    fields = stat_fields(int(pid)) if pid.isdecimal() else []
    return Session(
        harness=harness,
        session_id=session_id,
        identity=identity,
        directory=os.path.realpath(os.getcwd()),  # noqa: PTH109 - as a hook tells it
        pid=int(pid) if fields else 0,
        started=fields[_START_TIME] if fields else "",
        seen_at=now,
    )


SESSION_VARIABLES: Final = {
    "CLAUDE_CODE_SESSION_ID": "claude",
    "CODEX_THREAD_ID": "codex",
    "GEMINI_SESSION_ID": "gemini",
}
"""How the tools of a harness are told of its conversation, as measured on the programs."""

_PARENT: Final = 1
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One process; `started` tells it from a later one of the same id."""

    pid: int
    started: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Homes:
    """Where agents live as far as it is written down, or was looked up."""

    fences: Sequence[tuple[Identity, Binding]] = ()
    sessions: Sequence[Session] = ()


def stat_fields(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` from the third on; empty where there is no such process, or no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a pseudo file
            # the name in parentheses may hold anything, blanks and parentheses included
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def started_at(pid: int) -> str:
    """The start time as fences have it; empty if the process is gone."""
    if fields := stat_fields(pid):
        return fields[_START_TIME]
    return "" if _has_proc() else _without_proc(pid).started


def processes_above(pid: int) -> list[RunningProcess]:
    """Parent, its parent, and so on, without the first process of all."""
    above: list[RunningProcess] = []
    while len(above) < _DEEPEST and (pid := _parent_of(pid)) > 1:
        above.append(RunningProcess(pid, started_at(pid), _argv_of(pid)))
    return above


def environment_of(pid: int) -> Mapping[str, str]:
    """What a process was started with; what it has changed since does not show. Empty if it may not be asked."""
    if not _has_proc():
        import psutil  # noqa: PLC0415 - only there

        try:
            return psutil.Process(pid).environ()
        except psutil.Error:
            return {}
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    return {name: value for name, found, value in (one.partition("=") for one in text.split("\0")) if found}


def names_of_harnesses(own_profiles: Path) -> Mapping[str, Names]:
    """How harnesses are called: the bundled profiles', and what profiles of the user's own say; broken ones say nothing."""
    names = dict(HARNESSES)
    for path in sorted(own_profiles.glob("*.toml")):
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("recognise", {})
            names[path.stem] = Known(*(_words(told.get(one)) for one in ("commands", "packages", "modules")))
        except (OSError, ValueError, AttributeError):
            continue
    return names


class Ancestry:
    """Tells who runs a command, by the processes above it.

    Args:
        above: they, the parent first.
        names: how harnesses are called.
        own_environment: of the command itself.
        is_known: whether the graph has an identity.
        environment_of: what a process was started with.
        starts_at: when the process of an id was started; empty if there is none.
    """

    def __init__(
        self,
        above: Sequence[RunningProcess],
        names: Mapping[str, Names],
        own_environment: Mapping[str, str],
        is_known: Callable[[str], bool],
        environment_of: Callable[[int], Mapping[str, str]] = environment_of,
        starts_at: Callable[[int], str] = started_at,
    ) -> None:
        self._above = above
        self._programs = {one.pid: found for one in above if (found := harness_of(one.argv, names))}
        self._own_environment = own_environment
        self._is_known = is_known
        self._environment_of = environment_of
        self._starts_at = starts_at

    @property
    def is_in_a_pane(self) -> bool:
        """Whether the outermost harness was started in a tmux pane, so that a look may tell whose it is."""
        return bool(self._programs) and "TMUX_PANE" in self._environment_of(self._outermost)

    def invoker(self, homes: Homes) -> Invoker:
        """Who runs the command, as far as these homes tell.

        Process and pane lead, for nothing that the command is started with changes them; then the conversation, then the
        variable with which the outermost harness itself was started.
        """
        above = {(one.pid, one.started) for one in self._above}
        agents = {(one.agent_pid, one.agent_started) for _, one in homes.fences} & above
        if not self._programs and not agents:
            return PERSON
        elsewhere = frozenset(self._elsewhere(homes, above))
        first = next(one for one in self._above if one.pid in self._programs or (one.pid, one.started) in agents)
        found, why = self._known(homes, elsewhere)
        name = self._programs.get(first.pid) or Path(first.argv[0] if first.argv else "agent").name
        return Invoker(name, first.pid, frozenset(found), why, elsewhere - found)

    def _known(self, homes: Homes, elsewhere: Collection[Identity]) -> tuple[set[Identity], str]:
        """Whose the innermost agent is of which anybody knows that, and how it is known."""
        for one in self._above:
            key = (one.pid, one.started)
            if found := {who for who, fence in homes.fences if (fence.agent_pid, fence.agent_started) == key}:
                return found, "its process is the one that was found there or bound"
            if found := {it.identity for it in homes.sessions if it.identity and (it.pid, it.started) == key}:
                return found, "the conversation of its process is recorded"
            if found := {who for who, fence in homes.fences if (fence.pane_pid, fence.pane_started) == key}:
                return found, "it runs in the pane that was found or bound"
        if not self._programs:
            return set(), ""
        named = self._by_session(homes) or self._by_variable()
        return named if named and not named[0] & set(elsewhere) else (set(), "nobody knows whose it is")

    def _by_session(self, homes: Homes) -> tuple[set[Identity], str] | None:
        """By the variable in which a harness tells its tools of the conversation, where no process was recorded with it."""
        inner = next(place for place, one in enumerate(self._above) if one.pid in self._programs)
        told = self._environment_of(self._above[inner - 1].pid) if inner else self._own_environment
        named = {told.get(variable) for variable in SESSION_VARIABLES} - {None}
        whose = {one.identity for one in homes.sessions if not one.started and one.session_id in named and one.identity}
        return (whose, "its conversation is recorded") if len(whose) == 1 else None

    def _by_variable(self) -> tuple[set[Identity], str] | None:
        claimed = self._environment_of(self._outermost).get(AGENT_VARIABLE, "")
        is_somebody = is_identity(claimed) and self._is_known(claimed)
        return ({Identity(claimed)}, f"it was started with {AGENT_VARIABLE}") if is_somebody else None

    @property
    def _outermost(self) -> int:
        return [one.pid for one in self._above if one.pid in self._programs][-1]

    def _elsewhere(self, homes: Homes, above: Collection[tuple[int, str]]) -> set[Identity]:
        agents = [(who, fence.agent_pid, fence.agent_started) for who, fence in homes.fences]
        agents += [(one.identity, one.pid, one.started) for one in homes.sessions if one.started]
        return {
            who
            for who, pid, started in agents
            if pid and (pid, started) not in above and self._starts_at(pid) == started
        }


def _words(told: object) -> tuple[str, ...]:
    given = told if isinstance(told, list) else [told]
    return tuple(one for one in given if isinstance(one, str))


def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")  # noqa: PTH110 - a pseudo file


def _parent_of(pid: int) -> int:
    if fields := stat_fields(pid):
        return int(fields[_PARENT])
    if _has_proc():
        return 0
    import psutil  # noqa: PLC0415 - only there

    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0


def _argv_of(pid: int) -> tuple[str, ...]:
    if not _has_proc():
        return _without_proc(pid).argv
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0"))
    except OSError:
        return ()


def _without_proc(pid: int) -> RunningProcess:
    import psutil  # noqa: PLC0415 - only there

    try:
        one = psutil.Process(pid)
        return RunningProcess(pid, repr(one.create_time()), tuple(one.cmdline()))
    except psutil.Error:
        return RunningProcess(pid, "")
