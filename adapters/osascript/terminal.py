"""A terminal's session, read as text and written to without focus (docs/macos.md, assumptions 9 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from adapters.osascript.application import report_of
from adapters.osascript.naming import Surface
from adapters.osascript.occupant import Occupant
from adapters.osascript.plan import Act, Report
from adapters.osascript.scripting import Scripting, private_file
from adapters.osascript.sight import Sight
from adapters.osascript.trouble import Kind, Trouble
from adapters.screens.classify import DRAFT, Reading, classify
from adapters.screens.frames import glyph_at
from adapters.screens.profile import Profile
from adapters.screens.screen import Screen
from adapters.screens.staged import mark_in_transcript
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState

_LOOK_FIELDS: Final = 8


@dataclass(frozen=True, slots=True)
class TerminalLook:
    """What the terminal says of a session."""

    tty: str
    title: str
    columns: int
    rows: int
    is_busy: bool
    is_front: bool
    idle: float
    text: str


class TerminalHands:
    """One attempt, or one look, at a session.

    Args:
        scripting: the system's programs.
        surface: which terminal.
        session: the terminal's id of it.
        occupant: who runs in it.
        profiles: by harness name.
        typing_quiet: seconds a person must have been away.
    """

    def __init__(
        self,
        scripting: Scripting,
        surface: Surface,
        session: str,
        occupant: Occupant,
        profiles: Mapping[str, Profile],
        typing_quiet: float,
    ) -> None:
        self._scripting = scripting
        self._surface = surface
        self._session = session
        self._occupant = occupant
        self._profiles = profiles
        self._quiet = str(int(typing_quiet))

    async def look(self, mark: str = "") -> Sight | Trouble:
        """Read the visible text and judge it by the harness's profile."""
        answer = await self._scripting.run(f"{self._surface}_look", self._session)
        if isinstance(answer, Trouble):
            return answer
        if not answer or len(answer[0]) < _LOOK_FIELDS:
            return Trouble(Kind.OTHER, "the script answered nothing", "see `wake-bridge doctor`")
        tty, title, columns, rows, busy, front, idle, text = answer[0]
        seen = TerminalLook(tty, title, int(columns), int(rows), busy == "true", front == "true", float(idle), text)
        return sight_of(seen, self._surface, self._occupant, self._profiles.get(self._occupant.harness), mark)

    async def carry_out(self, act: Act, text: str, seen: Sight) -> Report:
        """Write the text, or an empty line that is Return alone, if the session still shows what was seen."""
        with private_file(seen.raw) as path:
            if self._surface is Surface.TERMINAL:
                line = text if act is Act.SEND else ""
                answer = await self._scripting.run("terminal_write", self._session, path, self._quiet, line)
            else:
                line, ending = ("", "yes") if act is Act.RETURN else (text, "no")
                answer = await self._scripting.run("iterm_write", self._session, path, self._quiet, line, ending)
        return report_of(act, answer)


def sight_of(seen: TerminalLook, surface: Surface, occupant: Occupant, profile: Profile | None, mark: str) -> Sight:
    """What the visible text says, by the profile; nothing without one."""
    concerns_us = seen.is_front or surface is Surface.TERMINAL
    sight = Sight(
        composer=None,
        raw=seen.text,
        is_front=seen.is_front,
        quiet_for=seen.idle if concerns_us else None,
        title=seen.title,
    )
    if profile is None:
        nobody = Evidence(
            "no-agent", PresenceState.UNKNOWN, saw=occupant.why, region="process", hold=HoldReason.NO_AGENT
        )
        return replace(sight, beside=(nobody,))
    screen = with_cursor_at_prompt(
        Screen.parse(
            seen.text,
            width=seen.columns,
            height=seen.rows,
            cursor_x=0,
            cursor_y=seen.rows - 1,
            cursor_visible=True,
            title=seen.title,
        ),
        profile,
    )
    reading = classify(screen, profile)
    return replace(
        sight,
        composer=None if reading.composer == "absent" else reading.composer_text.strip(),
        has_dialog=reading.state is PresenceState.WAITING_ON_APPROVAL,
        has_mark=bool(mark) and mark_in_transcript(screen, profile, mark),
        beside=tuple(_beside(seen, reading)),
    )


def with_cursor_at_prompt(screen: Screen, profile: Profile) -> Screen:
    """The screen with its cursor put behind the lowest prompt: a terminal's text does not say where it is."""
    shape = profile.composer
    visible = shape.cursor_visible is not False
    for number in range(screen.last_text_row, -1, -1):
        glyph = glyph_at(screen, shape, number)
        if glyph is not None:
            return replace(screen, cursor_x=glyph.start, cursor_y=number, cursor_visible=visible)
    return replace(screen, cursor_visible=visible)


def _beside(seen: TerminalLook, reading: Reading) -> list[Evidence]:
    """The profile's evidence, but for what `Sight` says itself: a draft, and that nothing speaks against idle."""
    votes = [
        replace(one, source=PresenceSource.OS_UI_PROBE)
        for one in reading.evidence
        if one.vote is not PresenceState.IDLE and one.rule != DRAFT
    ]
    if seen.is_busy:
        votes.append(Evidence("busy", PresenceState.ACTIVE, region="terminal", source=PresenceSource.OS_UI_PROBE))
    return votes
