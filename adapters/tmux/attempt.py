"""What every step of one attempt shares: the pane, the wake, the journal, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from adapters.bounded_call import Answer
from adapters.tmux.command import TmuxServer
from adapters.tmux.driver import Claim, Driver, claim
from adapters.tmux.facts import NoPane, scrollback_of
from adapters.tmux.fence import NO_PROCESS, breach
from adapters.tmux.occupants import Agent
from adapters.tmux.view import Observer, View
from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.domain.presence import Evidence
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.adapter import Journal, Refused, Unknown, Wake

POLL: Final = 0.02
"""Seconds between two looks while something is awaited; a look costs 3 ms."""


@dataclass(frozen=True, slots=True)
class Attempt:
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
    driver: Driver

    def claim(self, view: View) -> Claim:
        """How the pane is made ours, or that it is; raises `DrivenElsewhere`."""
        return claim(view.look.facts.driver, self.driver)

    async def look(self, *, anew: bool = False) -> View | NoPane:
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

    async def ask(self, *commands: Sequence[str], stdin: str = "") -> Answer:
        """Send commands to the pane's server."""
        return await self.server.ask(*commands, stdin=stdin)

    async def write(self, step: Step, **detail: str) -> None:
        """Write a step down; only then may the next key be sent."""
        await self.journal(step, {"where": self.label, "pane": self.pane_id, **detail})

    def breach(self, view: View) -> str:
        """What of the fence no longer holds; empty while all of it does.

        Who has moved in since the pane was looked up was never judged to be the identity's.
        """
        if self.fence.agent_pid == NO_PROCESS and isinstance(view.agent, Agent):
            return "the agent was started after the pane had been looked up"
        return breach(self.fence, view.fence)

    def refused(self, reason: HoldReason, detail: str) -> Refused:
        """Nothing more is typed now."""
        return Refused(reason, detail, self.label)

    def refused_by(self, evidence: Evidence) -> Refused:
        """Nothing more is typed because of what was seen."""
        return self.refused(reason_of(evidence), evidence.told)

    def staged(self, detail: str) -> Refused:
        """Our text may stand in the composer, and it is not safe to press Enter."""
        return self.refused(HoldReason.STAGED, detail)

    def unknown(self, why: str, **seen: str) -> Unknown:
        """No look can tell any more."""
        return Unknown({"why": why, "where": self.label, "pane": self.pane_id, **seen})


def reason_of(evidence: Evidence) -> HoldReason:
    """The hold that a piece of evidence against typing asks for."""
    return evidence.hold or HoldReason(evidence.vote.value)
