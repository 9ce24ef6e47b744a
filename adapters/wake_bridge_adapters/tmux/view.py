"""Finds our own text on a screen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import Wake
from wake_bridge_adapters.screens.classify import DRAFT, Reading, classify, holds_only, holds_part, mark_in_transcript
from wake_bridge_adapters.screens.profile import Profile
from wake_bridge_adapters.screens.screen import Screen
from wake_bridge_adapters.screens.version import version_evidence
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.guarded import NotExpressible, can_be_sight
from wake_bridge_adapters.tmux.occupants import (
    HIDDEN,
    NoAgent,
    Occupants,
    PaneAgent,
    fence_around,
    input_of,
    unread_bytes,
)
from wake_bridge_adapters.tmux.pane_facts import NoPane, PaneFacts, PaneReading, look_at

UNREAD_INPUT: Final = "unread-input"
"""The evidence for bytes that the program has not read from its terminal yet."""

_RETAKES: Final = 3
LEAST_QUIET: Final = 2
"""Seconds for which clients must have been quiet at the least: their activity is told in whole seconds."""


@dataclass(frozen=True, slots=True)
class PaneView:
    """One look, understood. `fence` is the pane as it is now."""

    look: PaneReading
    agent: PaneAgent | NoAgent
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
        return tuple(
            one for one in self.evidence if one.weighs and one.vote is not PresenceState.IDLE and one.rule != DRAFT
        )

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

    async def view(self, pane_id: str, harness: str, *, anew: bool = False) -> PaneView | NoPane:
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

    def _understood(self, look: PaneReading, harness: str, *, anew: bool) -> PaneView:
        facts = look.facts
        agent = self._occupants.of(
            self._server.socket, facts.pane_id, facts.pane_pid, facts.command, harness, anew=anew
        )
        if facts.is_dead:
            agent = NoAgent("the program has ended")
        screen = screen_of(look)
        reading = None
        if isinstance(agent, PaneAgent):
            reading = classify(screen, agent.profile, version_evidence(agent.profile, agent.version))
        return PaneView(
            look=look,
            agent=agent,
            screen=screen,
            reading=reading,
            evidence=(
                *_pane_evidence(facts),
                *_agent_evidence(agent, screen, self._occupants.profiles),
                *_typing_evidence(look, self._typing_quiet),
                *_motion_evidence(look, agent),
                *(reading.evidence if reading else ()),
            ),
            fence=fence_around(
                socket=self._server.socket,
                server_pid=facts.server_pid,
                session_id=facts.values["session_id"],
                pane_id=facts.pane_id,
                pane_pid=facts.pane_pid,
                agent=agent.process if isinstance(agent, PaneAgent) else None,
            ),
        )


def screen_of(look: PaneReading) -> Screen:
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


def _agent_evidence(agent: PaneAgent | NoAgent, screen: Screen, profiles: Mapping[str, Profile]) -> Iterator[Evidence]:
    if isinstance(agent, NoAgent):
        saw = f"{agent.why}; {_line_for(screen, profiles)}" if agent.rule == HIDDEN else agent.why
        yield Evidence(agent.rule, PresenceState.UNKNOWN, saw=saw, region="process", hold=HoldReason.NO_AGENT)
    elif agent.carriers:
        saw = f"behind {', '.join(agent.carriers)}{', where only the screen tells' if agent.is_hidden else ''}"
        yield Evidence("carried", PresenceState.UNKNOWN, saw=saw, region="process", weighs=False)


def _line_for(screen: Screen, profiles: Mapping[str, Profile]) -> str:
    """The line of configuration that says what is behind a carrier: the harness whose composer is on the screen, if it is one."""
    idle = [name for name, one in profiles.items() if classify(screen, one).state is PresenceState.IDLE]
    return f'`harness = "{idle[0]}"`' if len(idle) == 1 else 'such as `harness = "claude"`'


def _typing_evidence(look: PaneReading, typing_quiet: float) -> Iterator[Evidence]:
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


def _motion_evidence(look: PaneReading, agent: PaneAgent | NoAgent) -> Iterator[Evidence]:
    if look.is_moving:
        yield Evidence("moving", PresenceState.ACTIVE, region="pane")
        return
    terminals = [look.facts.terminal]
    if isinstance(agent, PaneAgent) and agent.carriers and not agent.is_hidden:
        terminals.append(input_of(agent.process.pid))
    if not look.facts.is_dead and (waiting := max(map(unread_bytes, terminals))):
        saw = f"{waiting} bytes of input are not read yet"
        yield Evidence(UNREAD_INPUT, PresenceState.ACTIVE, saw=saw, region="terminal")


_LEAST_OF_MARK: Final = 8
"""Characters of the mark that must stand on one row: 40 bits, most of them random."""

_PLAIN_RUN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ]*[A-Za-z0-9]")


class TextLocation(StrEnum):
    """Where one look shows our text.

    `ALONE` is all that the composer holds, or the harness's chip for it; `AMONG` is in the composer beside something
    else, as any chip of a paste may be; `SENT` is above the composer, or above a dialog known to have taken its place;
    `UNCLEAR` cannot be told, since no composer is to be seen, or only a piece of the text; `GONE` is none of them.
    """

    ALONE = "alone"
    AMONG = "among"
    SENT = "sent"
    UNCLEAR = "unclear"
    GONE = "gone"


def text_location(view: PaneView, wake: Wake) -> TextLocation:
    """Where our text is.

    The composer is asked first: a pane that was made narrow may show a copy of it above.
    """
    if view.reading is None or not isinstance(view.agent, PaneAgent):
        return TextLocation.UNCLEAR
    profile, held = view.agent.profile, view.reading.composer_text
    if holds_only(view.screen, profile, wake.text):
        return TextLocation.ALONE
    if is_in_text(held, wake):
        return TextLocation.AMONG
    if view.reading.composer == "draft" and holds_part(held, wake.text):
        return TextLocation.UNCLEAR
    if mark_in_transcript(view.screen, profile, wake.mark):
        return TextLocation.SENT
    if profile.paste.chip and re.search(profile.paste.chip, " ".join(held.split())):
        return TextLocation.AMONG
    return TextLocation.UNCLEAR if view.reading.composer == "absent" else TextLocation.GONE


def is_in_text(text: str, wake: Wake) -> bool:
    """Whether the mark stands in `text`, be it wrapped and framed."""
    return wake.mark in re.sub(r"[^0-9A-Z]", "", text)


def sight_of(view: PaneView, wake: Wake) -> str:
    """A part of our text that stands on one row, for a condition to search for: the mark, or the harness's chip.

    Raises:
        NotExpressible: no row shows enough of it.
    """
    rows = [row.text for row in view.screen.rows]
    candidates = [*_parts_of_mark(wake.mark), *_runs_of_chip(view)]
    for part in candidates:
        if can_be_sight(part) and any(part in row for row in rows):
            return part
    raise NotExpressible("our mark is not on one row")


def placeholder_of(view: PaneView) -> str:
    """Where a harness parks the real cursor elsewhere: a part of the placeholder that must still stand there.

    Empty where the cursor itself tells that somebody typed, and where there is no placeholder.
    """
    if view.reading is None or not isinstance(view.agent, PaneAgent) or view.reading.composer != "placeholder":
        return ""
    if view.agent.profile.composer.anchor == "cursor":
        return ""
    rows = [row.text for row in view.screen.rows]
    runs = sorted(_PLAIN_RUN.findall(view.reading.composer_text), key=len, reverse=True)
    return next((run for run in runs if can_be_sight(run) and any(run in row for row in rows)), "")


def _parts_of_mark(mark: str) -> list[str]:
    """The mark and ever shorter parts of it, for a narrow pane that wraps inside it."""
    return [
        mark[start : start + length]
        for length in range(len(mark), _LEAST_OF_MARK - 1, -1)
        for start in range(len(mark) - length, -1, -1)
    ]


def _runs_of_chip(view: PaneView) -> list[str]:
    if view.reading is None or not isinstance(view.agent, PaneAgent) or not view.agent.profile.paste.chip:
        return []
    found = re.search(view.agent.profile.paste.chip, " ".join(view.reading.composer_text.split()))
    return sorted(_PLAIN_RUN.findall(found.group()), key=len, reverse=True) if found else []
