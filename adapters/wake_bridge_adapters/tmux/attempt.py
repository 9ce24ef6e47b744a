"""What all steps of one attempt share: the pane, the wake, the journal, and how it ends.

Locks hold between processes that see the same files. This one is kept by the tmux server itself, and every condition
asks for it: a daemon whose entry is not there can neither paste nor press. There is one entry a graph, so that two graphs
may wake into one pane, and a dead daemon's gives way to the next one's.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from typing import Final, Self

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Step
from wake_bridge.domain.presence import Evidence
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import Journal, Refused, SendBy, Unknown, Wake
from wake_bridge.ports.clock import Clock
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.occupants import NO_PROCESS, PaneAgent, breach, process_now, started_at
from wake_bridge_adapters.tmux.pane_facts import DRIVER_OPTION, NoPane, scrollback_of
from wake_bridge_adapters.tmux.panes import Pane
from wake_bridge_adapters.tmux.view import Observer, PaneView

_ENTRY: Final = re.compile(r"(?P<graph>[0-9a-f-]{0,40})/(?P<pid>[0-9]{1,10})/(?P<started>[0-9.]{1,24})")


class DrivenElsewhere(Exception):
    """Another daemon that lives drives the pane for the same graph, or nobody can tell; `cause` says which."""

    def __init__(self, why: str, cause: Cause) -> None:
        super().__init__(why)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class DriverProcess:
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
class PaneClaim:
    """That the pane is ours: what its option said, and what it must say at the key."""

    seen: str
    ours: str

    def commands(self, pane_id: str) -> list[list[str]]:
        """The tmux commands that make it so, unless the option has changed meanwhile; none where it is so."""
        if self.seen == self.ours:
            return []
        as_seen = f"#{{==:#{{{DRIVER_OPTION}}},{self.seen}}}"
        return [["if-shell", "-F", "-t", pane_id, as_seen, f'set-option -p -t {pane_id} {DRIVER_OPTION} "{self.ours}"']]


def claim(seen: str, us: DriverProcess) -> PaneClaim:
    """How the pane becomes ours, whose option said `seen`: entries of living daemons for other graphs stay.

    Raises:
        DrivenElsewhere: naming the daemon that has it, or that the option holds what no daemon wrote.
    """
    kept = []
    for entry in _entries(seen):
        if (entry.pid, entry.started) == (us.pid, us.started) or not entry.is_alive:
            continue
        if entry.graph == us.graph:
            why = f"another wake-bridge: pid {entry.pid} drives this pane for the same graph"
            raise DrivenElsewhere(why, Cause.ANOTHER_WAKE_BRIDGE)
        kept.append(str(entry))
    return PaneClaim(seen, " ".join([*kept, str(us)]))


async def release(server: TmuxServer, panes: Sequence[Pane]) -> str:
    """Let no daemon drive the panes, until one claims them again; why it could not be done, empty if it was."""
    driven = [pane.pane_id for pane in panes if pane.driver]
    if not driven:
        return ""
    answer = await server.ask(*(["set-option", "-p", "-u", "-t", pane_id, DRIVER_OPTION] for pane_id in driven))
    return "" if answer.is_well else answer.complaint


def _entries(text: str) -> list[DriverProcess]:
    found = []
    for word in text.split(" ") if text else []:
        entry = _ENTRY.fullmatch(word)
        if entry is None:
            why = f"the pane's option {DRIVER_OPTION} holds what no daemon wrote"
            raise DrivenElsewhere(why, Cause.DRIVER_OPTION)
        found.append(DriverProcess(entry["graph"], int(entry["pid"]), entry["started"]))
    return found


POLL: Final = 0.02
"""Seconds between two looks while something is awaited; a look costs 3 ms."""


@dataclass(frozen=True, slots=True)
class PaneAttempt:
    """One attempt to put one wake in front of one agent.

    `fence` is what must still hold: where earlier attempts typed, or the pane as it was resolved.
    """

    server: TmuxServer
    observer: Observer
    pane_id: str
    label: str
    harness: str
    wake: Wake
    fence: Binding
    journal: Journal
    driver: DriverProcess
    clock: Clock

    def claim(self, view: PaneView) -> PaneClaim:
        """How the pane is made ours, or that it is; raises `DrivenElsewhere`."""
        return claim(view.look.facts.driver, self.driver)

    async def look(self, *, anew: bool = False) -> PaneView | NoPane:
        """Look at the pane, and once more if a call failed: that proves nothing. `anew` reads the processes again."""
        view = await self.observer.view(self.pane_id, self.harness, anew=anew)
        if not isinstance(view, NoPane) or view.timed_out:
            return view
        await asyncio.sleep(POLL)
        return await self.observer.view(self.pane_id, self.harness, anew=anew)

    async def scrollback(self) -> str | NoPane:
        """The pane with its history; asked for once more if a call failed."""
        text = await scrollback_of(self.server, self.pane_id)
        return await scrollback_of(self.server, self.pane_id) if isinstance(text, NoPane) else text

    async def ask(self, *commands: Sequence[str], stdin: str = "") -> CallResult:
        """Send commands to the pane's server."""
        return await self.server.ask(*commands, stdin=stdin)

    async def write(self, step: Step, **detail: str) -> SendBy | None:
        """Write a step down; only then may the next key be sent, and no later than the answer says."""
        return await self.journal(step, {"where": self.label, "pane": self.pane_id, **detail})

    def breach(self, view: PaneView) -> str:
        """What of the fence no longer holds; empty while all of it does.

        Who has moved in since the pane was looked up was never judged to be the identity's.
        """
        if self.fence.agent_pid == NO_PROCESS and isinstance(view.agent, PaneAgent):
            return "the agent was started after the pane had been looked up"
        return breach(self.fence, view.fence)

    def refused(self, reason: HoldReason, detail: str, cause: Cause = Cause.OTHER) -> Refused:
        """Nothing more is typed now."""
        return Refused(reason, detail, self.label, cause)

    def refused_by(self, evidence: Evidence) -> Refused:
        """Nothing more is typed because of what was seen."""
        return self.refused(evidence.reason, evidence.told, evidence.why)

    def staged(self, detail: str, cause: Cause = Cause.STAGED) -> Refused:
        """Our text may stand in the composer, and it is not safe to press Enter."""
        return self.refused(HoldReason.STAGED, detail, cause)

    def unknown(self, why: str, **seen: str) -> Unknown:
        """No look can tell any more."""
        return Unknown({"why": why, "where": self.label, "pane": self.pane_id, **seen})
