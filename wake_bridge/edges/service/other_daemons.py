"""Other daemons of ours that serve the same graph from a state directory of their own (DESIGN §9: one driver)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from wake_bridge.domain.errors import AlreadyRunning


def daemons_of(graph: Path, besides: int) -> list[int]:
    """The pids of this user's daemons that have the graph open, but for the process `besides`."""
    return [process.pid for process in _wake_bridges() if process.pid != besides and _has_open(process, graph)]


def require_none_of(graph: Path) -> None:
    """See that no other daemon serves the graph: what the one has told, the other does not know, and would tell again.

    Raises:
        AlreadyRunning: naming it.
    """
    others = daemons_of(graph, os.getpid())
    if others:
        raise AlreadyRunning(
            f"another wake-bridge serves this graph with another state directory: pid {others[0]}",
            str(graph),
            hint="stop it first: each would wake the same agents for the same mail",
        )


def _wake_bridges() -> Iterator[psutil.Process]:
    """This user's processes that look like a daemon of ours."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            is_one = process.uids().real == os.getuid() and "run" in words and "--dry-run" not in words
        except psutil.Error:
            continue
        if is_one and any(Path(word).name in {"wake-bridge", "wake_bridge"} for word in words):
            yield process


def _has_open(process: psutil.Process, file: Path) -> bool:
    try:
        return any(Path(one.path) == file.resolve() for one in process.open_files())
    except psutil.Error:
        return False
