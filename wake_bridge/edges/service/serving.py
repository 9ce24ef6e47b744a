"""Which daemon serves a state directory, and whether it can still write there: one answer for all commands."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import NotRunning, OperationFailed
from wake_bridge.edges.service.control_socket import ask
from wake_bridge.edges.service.graph_lock import daemon_of
from wake_bridge.edges.service.instance_lock import Holder, Liveness, holder

DELETED: Final = "its state directory was deleted while it ran, and is not back yet: no wake is sent"
PATIENCE: Final = 3.0
"""Seconds to wait for its answer."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How the daemon stands. `told` is its own answer, empty where it gave none; `trouble` why it cannot write, or empty."""

    running: Liveness
    holder: Holder | None = None
    trouble: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)


def serving(state_dir: Path, graph: Path) -> Serving:
    """Look at the locks, then ask it; never raises."""
    try:
        found = holder(state_dir)
    except OSError:
        return Serving("cannot_tell")
    if found is not None:
        told: Mapping[str, Any] = {}
        # it may hold the lock and be starting, stopping or stuck: the ledger still tells the rest
        with suppress(NotRunning, OperationFailed):
            told = ask(state_dir, "status", timeout=PATIENCE)
        return Serving("yes", found, str(told.get("state_trouble") or ""), told)
    with suppress(OSError):
        found = daemon_of(graph)
        if found is not None and found.state_dir == str(state_dir):
            return Serving("yes", found, DELETED)
    return Serving("no")
