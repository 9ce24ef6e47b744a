"""Which daemon serves a state directory, and whether it can still write there: one answer for all commands."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.locations import SETTINGS_NAME
from wake_bridge.control.client import ask, listens
from wake_bridge.control.graph_lock import LOCK_DIRECTORY, daemon_of, graph_key
from wake_bridge.control.instance_lock import Holder, Liveness, holder, liveness
from wake_bridge.domain.causes import HoldReason, cause_written
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.errors import NotRunning, OperationFailed
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl, graph_place
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import read_own_file

ASKED_AGAIN_AFTER: Final = (0.02, 0.05, 0.1)
"""Seconds between two questions to a daemon that has its lock, and has not signed it yet."""

_ADAPTERS_VARIABLE: Final = "WAKE_BRIDGE_ADAPTERS_"

DELETED: Final = "its state directory was deleted while it ran, and is not back yet: no wake is sent"
PATIENCE: Final = 3.0
"""Seconds to wait for its answer."""

LOOKS_TAKE: Final = 30.0
"""Seconds to wait for one that looks at places which are slow to answer."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How the daemon stands. `told` is its own answer, empty where it gave none; `trouble` why it cannot write, or empty."""

    running: Liveness
    holder: Holder | None = None
    trouble: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    listens: bool = True

    @property
    def state(self) -> DaemonState:
        """The one judgement: who holds the lock and does not listen yet is starting, or about to end."""
        return _STATES[self.running] if self.running != "yes" or self.listens else DaemonState.STARTING


class DaemonState(StrEnum):
    """How a daemon stands, for who waits for it."""

    RUNNING = "running"
    STARTING = "starting"
    NOT_RUNNING = "not running"
    CANNOT_TELL = "cannot tell whether it runs"


_STATES: Final[Mapping[Liveness, DaemonState]] = {
    "yes": DaemonState.RUNNING,
    "no": DaemonState.NOT_RUNNING,
    "cannot_tell": DaemonState.CANNOT_TELL,
}


def daemon_state(state_dir: Path) -> DaemonState:
    """How the daemon of a state directory stands, without a question to it; never raises."""
    running = liveness(state_dir)
    return Serving(running, listens=running == "yes" and listens(state_dir)).state


def state_dir_in_use(graph: GraphPlace, configured: Path) -> Path:
    """Where the daemon that serves the graph now keeps its state: there a command has to act, whatever is configured.

    Returns:
        `configured` where no daemon serves the graph, or nobody can tell.

    Raises:
        OperationFailed: one serves it, and does not say where it keeps its state.
    """
    try:
        found = daemon_of(graph)
        for wait in ASKED_AGAIN_AFTER:
            if found is None or found.state_dir:
                break
            time.sleep(wait)
            found = daemon_of(graph)
    except OSError:
        return configured
    if found is None:
        return configured
    if not found.state_dir:
        raise OperationFailed(
            "a daemon serves this graph, and does not say where it keeps its state",
            str(graph),
            hint=f"nothing was done; check {LOCK_DIRECTORY}, or restart the daemon",
        )
    theirs = Path(found.state_dir)
    with suppress(OSError):
        return configured if theirs.samefile(configured) else theirs
    return theirs


def graph_served_instead(state_dir: Path, graph: GraphPlace) -> GraphPlace | None:
    """The graph that the daemon of a state directory serves, where that is another one; None else, or nobody can tell."""
    try:
        running = holder(state_dir)
        if running is None or daemon_of(graph) is not None:
            return None
        record = json.loads(read_own_file(state_dir / SETTINGS_NAME))
        served = graph_place(record["graph"]) if record["pid"] == running.pid else graph
        if isinstance(served, GraphUrl) or isinstance(graph, GraphUrl):
            return None if graph_key(served) == graph_key(graph) else served
        # one whose file was replaced serves the new one in a moment
        return None if served.absolute() == graph.absolute() or served.samefile(graph) else served
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def has_no_graph(state_dir: Path, graph: GraphPlace) -> bool:
    """Whether the daemon that runs in a state directory takes in what comes from outside, without a graph; never raises.

    Where none runs the last one counts, unless there is a graph by now.
    """
    try:
        record = json.loads(read_own_file(state_dir / SETTINGS_NAME))
        if not isinstance(record, dict) or record.get("hasGraph") is not False:
            return False
        is_there = isinstance(graph, GraphUrl) or graph.exists()
        return not is_there or holder(state_dir) is not None
    except (OSError, ValueError, RecursionError):
        return False


def reach_by_daemon(
    state_dir: Path, identities: Sequence[str], *, timeout: float = LOOKS_TAKE
) -> Mapping[str, Mapping[str, Any]]:
    """Where the daemon that runs reaches each of them, or the `hold` why nowhere; empty where none runs, or it is stuck."""
    if not identities:
        return {}
    try:
        told = ask(state_dir, "reach", identities=list(identities), timeout=timeout)
    except (NotRunning, OperationFailed):
        return {}
    return {one: told[one] for one in identities if isinstance(told.get(one), dict) and "hold" in told[one]}


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """What of a process's environment decides which tmux servers its adapters see."""
    overrides = {name: value for name, value in environment.items() if name.startswith(_ADAPTERS_VARIABLE)}
    return overrides | {"TMUX_TMPDIR": os.path.realpath(environment.get("TMUX_TMPDIR") or "/tmp")}  # noqa: S108 - tmux's own rule


def view_of(fingerprint: str, fallback_pane: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What decides where a process finds agents: two with the same view find the same.

    Args:
        fingerprint: of its configuration, with the program.
        fallback_pane: the tmux target of subscriptions that name none.
        environment: of the process. Which tmux server is meant by default follows from where it was started.
    """
    around = surroundings(environment)
    inside, _, _ = environment.get("TMUX", "").partition(",")
    usual = os.path.realpath(inside or f"{around['TMUX_TMPDIR']}/tmux-{os.getuid()}/default")
    return {"configuration": fingerprint, "pane": fallback_pane, "server": usual, **around}


def panes_by_daemon(state_dir: Path, environment: Mapping[str, str]) -> Mapping[str, Any]:
    """What the daemon that runs sees of the panes; empty where none runs.

    Args:
        state_dir: of the daemon.
        environment: of the command; `alike` in the answer says whether the daemon sees the same servers by its own.

    Raises:
        OperationFailed: one runs, and does not answer within `PATIENCE` seconds, or cannot.
    """
    try:
        return ask(state_dir, "panes", surroundings=surroundings(environment), timeout=PATIENCE)
    except NotRunning:
        return {}


def hold_told(record: Mapping[str, Any]) -> Hold:
    """The hold of such an answer."""
    known = record["reason"] in set(HoldReason)
    reason = HoldReason(record["reason"]) if known else HoldReason.UNREACHABLE
    return Hold(reason, str(record["detail"]), str(record["where"]), cause=cause_written(record.get("cause")))


def serving(state_dir: Path, graph: GraphPlace) -> Serving:
    """Look at the locks, then ask it; never raises."""
    try:
        found = holder(state_dir)
    except OSError:
        return Serving("cannot_tell")
    if found is not None:
        told: Mapping[str, Any] = {}
        is_listening = True
        # it may hold the lock and be starting, stopping or stuck: the ledger still tells the rest
        try:
            told = ask(state_dir, "status", timeout=PATIENCE)
        except NotRunning:
            is_listening = False
        except OperationFailed:
            pass
        return Serving("yes", found, str(told.get("state_trouble") or ""), told, is_listening)
    with suppress(OSError):
        found = daemon_of(graph)
        if found is not None and found.state_dir == str(state_dir):
            return Serving("yes", found, DELETED)
    return Serving("no")
