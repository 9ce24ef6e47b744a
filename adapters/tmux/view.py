"""What one look means: facts, who is there and what the screen says, as evidence (DESIGN §§5, 6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from adapters.screens.classify import DRAFT, Reading, classify
from adapters.screens.screen import Screen
from adapters.screens.version import version_evidence
from adapters.tmux.command import TmuxServer
from adapters.tmux.facts import Look, NoPane, PaneFacts, look_at
from adapters.tmux.fence import fence_around
from adapters.tmux.occupants import Agent, NoAgent, Occupants
from adapters.tmux.processes import unread_bytes
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote
from wake_bridge.domain.routing import Binding

UNREAD_INPUT: Final = "unread-input"
"""The evidence for bytes that the program has not read from its terminal yet."""

_RETAKES: Final = 3
LEAST_QUIET: Final = 2
"""Seconds for which clients must have been quiet at the least: their activity is told in whole seconds (DESIGN §6.4)."""


@dataclass(frozen=True, slots=True)
class View:
    """One look, understood. `fence` is the pane as it is now."""

    look: Look
    agent: Agent | NoAgent
    screen: Screen
    reading: Reading | None
    evidence: tuple[Evidence, ...]
    fence: Binding

    @property
    def verdict(self) -> Evidence:
        """The evidence that decides this look taken alone."""
        return single_vote(self.evidence)

    @property
    def obstacles(self) -> tuple[Evidence, ...]:
        """All that speaks against a key, but for text in the composer, which may be ours."""
        return tuple(one for one in self.evidence if one.vote is not PresenceState.IDLE and one.rule != DRAFT)

    @property
    def fingerprint(self) -> str:
        """Equal for two looks between which nothing relevant moved; empty when nothing can be said."""
        if self.reading is None or self.look.is_moving:
            return ""
        facts = self.look.facts
        parts = (str(self.fence), facts.command, facts.values["pane_mode"], facts.values["pane_width"])
        return "\n".join((*parts, facts.values["pane_height"], self.reading.fingerprint))


class Observer:
    """Looks at the panes of one server.

    Args:
        server: where they are.
        occupants: who recognises the agent.
        typing_quiet: seconds a person's keys must lie back.
    """

    def __init__(self, server: TmuxServer, occupants: Occupants, typing_quiet: float) -> None:
        self._server = server
        self._occupants = occupants
        self._typing_quiet = max(typing_quiet, LEAST_QUIET)

    async def view(self, pane_id: str, harness: str, *, anew: bool = False) -> View | NoPane:
        """Look once; retaken while the pane moves under the look.

        `harness` replaces the recognition; `anew` reads the processes again whatever is remembered.
        """
        look = await look_at(self._server, pane_id)
        for _ in range(_RETAKES):
            if isinstance(look, NoPane) or not look.is_moving:
                break
            look = await look_at(self._server, pane_id)
        if isinstance(look, NoPane):
            return look
        return await asyncio.to_thread(self._understood, look, harness, anew=anew)

    def _understood(self, look: Look, harness: str, *, anew: bool) -> View:
        facts = look.facts
        agent = self._occupants.of(
            self._server.socket, facts.pane_id, facts.pane_pid, facts.command, harness, anew=anew
        )
        if facts.is_dead:
            agent = NoAgent("the program has ended")
        screen = screen_of(look)
        reading = None
        if isinstance(agent, Agent):
            reading = classify(screen, agent.profile, version_evidence(agent.profile, agent.version))
        return View(
            look=look,
            agent=agent,
            screen=screen,
            reading=reading,
            evidence=(
                *_pane_evidence(facts),
                *_agent_evidence(agent),
                *_typing_evidence(look, self._typing_quiet),
                *_motion_evidence(look),
                *(reading.evidence if reading else ()),
            ),
            fence=fence_around(
                socket=self._server.socket,
                server_pid=facts.server_pid,
                session_id=facts.values["session_id"],
                pane_id=facts.pane_id,
                pane_pid=facts.pane_pid,
                agent=agent.process if isinstance(agent, Agent) else None,
            ),
        )


def screen_of(look: Look) -> Screen:
    """The look as the screen profiles read it."""
    values = look.facts.values
    return Screen.parse(
        look.ansi,
        width=int(values["pane_width"]),
        height=int(values["pane_height"]),
        cursor_x=int(values["cursor_x"]),
        cursor_y=int(values["cursor_y"]),
        cursor_visible=values["cursor_flag"] == "1",
        title=look.facts.title,
        command=look.facts.command,
    )


def _pane_evidence(facts: PaneFacts) -> Iterator[Evidence]:
    """What makes everything on the screen worthless."""
    for is_so, rule, hold in (
        (facts.is_dead, "pane-dead", HoldReason.PANE_DEAD),
        (facts.is_in_mode, "copy-mode", HoldReason.COPY_MODE),
        (facts.is_input_off, "input-off", HoldReason.INPUT_OFF),
    ):
        if is_so:
            saw = facts.values["pane_mode"] if rule == "copy-mode" else ""
            yield Evidence(rule, PresenceState.UNKNOWN, saw=saw, region="pane", hold=hold)
    if facts.is_synchronized:
        saw = "synchronize-panes is on: Enter would go to every pane of the window"
        yield Evidence("synchronized", PresenceState.UNKNOWN, saw=saw, region="pane")


def _agent_evidence(agent: Agent | NoAgent) -> Iterator[Evidence]:
    if isinstance(agent, NoAgent):
        yield Evidence(agent.rule, PresenceState.UNKNOWN, saw=agent.why, region="process", hold=HoldReason.NO_AGENT)


def _typing_evidence(look: Look, typing_quiet: float) -> Iterator[Evidence]:
    """A key within `typing_quiet` from a client whose keys go to this pane; keys in other panes do not count."""
    typists = look.typists()
    if not typists:
        return
    since_key = look.server_time - max(client.last_key for client in typists)
    if since_key <= typing_quiet:
        yield Evidence("client-key", PresenceState.USER_TYPING, saw=f"a key {max(since_key, 0)} s ago", region="client")
        return
    since_touch = look.server_time - max(look.facts.sessions_showing_it().values(), default=0)
    if since_touch < LEAST_QUIET:
        yield Evidence(
            "session-touched", PresenceState.USER_TYPING, saw=f"{max(since_touch, 0)} s ago", region="client"
        )


def _motion_evidence(look: Look) -> Iterator[Evidence]:
    if look.is_moving:
        yield Evidence("moving", PresenceState.ACTIVE, region="pane")
    elif not look.facts.is_dead and (waiting := unread_bytes(look.facts.terminal)):
        saw = f"{waiting} bytes of input are not read yet"
        yield Evidence(UNREAD_INPUT, PresenceState.ACTIVE, saw=saw, region="terminal")
