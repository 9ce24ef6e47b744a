"""Which daemon drives a pane: the option `@wake_bridge_driver`, the fence where the key is (DESIGN §6.4).

Locks hold between processes that see the same files. This one is kept by the tmux server itself, and every condition
asks for it: a daemon whose entry is not there can neither paste nor press. There is one entry a graph, so that two graphs
may wake into one pane, and a dead daemon's gives way to the next one's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from adapters.tmux.command import TmuxServer
from adapters.tmux.facts import DRIVER_OPTION
from adapters.tmux.panes import Pane
from adapters.tmux.processes import process_now, started_at

_ENTRY: Final = re.compile(r"(?P<graph>[0-9a-f-]{0,40})/(?P<pid>[0-9]{1,10})/(?P<started>[0-9.]{1,24})")


class DrivenElsewhere(Exception):
    """Another daemon that lives drives the pane for the same graph, or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One run of a daemon, by its process and when that started, for one graph."""

    graph: str
    pid: int
    started: str

    @classmethod
    def here(cls, graph: str) -> Self:
        """This process."""
        return cls(graph, os.getpid(), started_at(os.getpid()))

    def __str__(self) -> str:
        return f"{self.graph}/{self.pid}/{self.started}"

    @property
    def is_alive(self) -> bool:
        """Whether the very process still runs, stopped or not."""
        process = process_now(self.pid)
        return process is not None and process.started == self.started


@dataclass(frozen=True, slots=True)
class Claim:
    """That the pane is ours: what its option said, and what it must say at the key."""

    seen: str
    ours: str

    def commands(self, pane_id: str) -> list[list[str]]:
        """The tmux commands that make it so, unless the option has changed meanwhile; none where it is so."""
        if self.seen == self.ours:
            return []
        as_seen = f"#{{==:#{{{DRIVER_OPTION}}},{self.seen}}}"
        return [["if-shell", "-F", "-t", pane_id, as_seen, f'set-option -p -t {pane_id} {DRIVER_OPTION} "{self.ours}"']]


def claim(seen: str, us: Driver) -> Claim:
    """How the pane becomes ours, whose option said `seen`: entries of living daemons for other graphs stay.

    Raises:
        DrivenElsewhere: naming the daemon that has it, or that the option holds what no daemon wrote.
    """
    kept = []
    for entry in _entries(seen):
        if (entry.pid, entry.started) == (us.pid, us.started) or not entry.is_alive:
            continue
        if entry.graph == us.graph:
            raise DrivenElsewhere(f"another wake-bridge: pid {entry.pid} drives this pane for the same graph")
        kept.append(str(entry))
    return Claim(seen, " ".join([*kept, str(us)]))


async def release(server: TmuxServer, panes: Sequence[Pane]) -> str:
    """Let no daemon drive the panes, until one claims them again; why it could not be done, empty if it was."""
    driven = [pane.pane_id for pane in panes if pane.driver]
    if not driven:
        return ""
    answer = await server.ask(*(["set-option", "-p", "-u", "-t", pane_id, DRIVER_OPTION] for pane_id in driven))
    return "" if answer.is_well else answer.complaint


def _entries(text: str) -> list[Driver]:
    found = []
    for word in text.split(" ") if text else []:
        entry = _ENTRY.fullmatch(word)
        if entry is None:
            raise DrivenElsewhere(f"the pane's option {DRIVER_OPTION} holds what no daemon wrote")
        found.append(Driver(entry["graph"], int(entry["pid"]), entry["started"]))
    return found
