"""A terminal's session: reads its text and writes to it without the focus."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import psutil

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState
from wake_bridge.domain.programs import is_shell_or_veto, reads_lines
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.bounded_call import BoundedCall
from wake_bridge_adapters.osascript.plan import Act, Report, Surface
from wake_bridge_adapters.osascript.scripting import Kind, ScreenReading, Scripting, Trouble, private_file
from wake_bridge_adapters.screens.classify import DRAFT, Reading, classify, mark_in_transcript
from wake_bridge_adapters.screens.composer import glyph_at
from wake_bridge_adapters.screens.profile import Profile, recognise
from wake_bridge_adapters.screens.screen import Screen

_COLUMNS: Final = 3


@dataclass(frozen=True, slots=True)
class Occupant:
    """The agent of a session; without a `harness` nobody who could take a wake, and `why`."""

    harness: str
    pid: int = 0
    started: str = ""
    why: str = ""


async def occupant_of(
    tty: str, profiles: Mapping[str, Profile], harness: str, environment: Mapping[str, str], timeout: float
) -> Occupant:
    """Who has the terminal `tty`. `harness` replaces the recognition, never the vetoes."""
    pids = await _foreground(tty, environment, timeout)
    if not pids:
        return Occupant("", why=f"no process has {tty}")
    argvs = {pid: _argv(pid) for pid in pids}
    if is_shell_or_veto(argvs[pids[0]]):
        return Occupant("", why=f"{(argvs[pids[0]] or ['nothing'])[0]} has the terminal")
    if harness and harness not in profiles:
        return Occupant("", why=f"no screen profile is called {harness!r}")
    for pid, argv in argvs.items():
        if harness and reads_lines(argv):
            return Occupant("", why=f"{argv[0]} has the terminal and is not {harness}, although `harness` says so")
        name = "" if is_shell_or_veto(argv) else harness or recognise(argv, profiles) or ""
        if name and _is_stopped(pid):
            return Occupant("", why=f"{name} is stopped")
        if name:
            return Occupant(name, pid, started_at(pid))
    return Occupant("", why=f"{argvs[pids[0]][0]} has the terminal")


def started_at(pid: int) -> str:
    """When a process started, a text that stays the same while it lives; empty if it is gone."""
    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


async def _foreground(tty: str, environment: Mapping[str, str], timeout: float) -> list[int]:
    """The pids of the foreground group, its leader first."""
    program = shutil.which("ps", path=environment.get("PATH"))
    if program is None:
        return []
    argv = [program, "-o", "pid=,pgid=,tpgid=", "-t", tty.removeprefix("/dev/")]
    answer = await asyncio.to_thread(BoundedCall(argv, "", timeout, environment).run)
    rows = [line.split() for line in answer.stdout.splitlines()]
    group = [
        (int(pid), int(leader))
        for pid, leader, front in (row for row in rows if len(row) == _COLUMNS)
        if leader == front
    ]
    return [pid for pid, leader in sorted(group, key=lambda one: one[0] != one[1])]


def _argv(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _is_stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
    except psutil.Error:
        return True


_COMPOSERS: Final = frozenset({"AXTextArea", "AXTextField", "AXComboBox"})
_NOT_ASKED: Final = "-"
_WINDOW_FIELDS: Final = 6


class ApplicationHands:
    """One attempt, or one look, at a running application.

    Args:
        scripting: the system's programs.
        pid: the process.
        tab: the key that Cmd is pressed with to bring the right tab forward; empty for none.
    """

    def __init__(self, scripting: Scripting, pid: int, tab: str = "") -> None:
        self._scripting = scripting
        self._pid = pid
        self._tab = tab
        self._front_before = 0
        self._clipboard_before = ""
        self._has_pressed = False

    async def look(self, mark: str = "") -> ScreenReading | Trouble:
        """Read the focused element. A composer that holds its own placeholder is empty."""
        del mark  # there is no transcript to be read
        answer = await self._scripting.run("app_look", str(self._pid))
        if isinstance(answer, Trouble):
            return answer
        if not answer or len(answer[0]) < _WINDOW_FIELDS:
            return Trouble(Kind.OTHER, "the script answered nothing", "see `wake-bridge doctor`")
        front, idle, dialogs, role, placeholder, value = answer[0]
        is_empty = not value.strip() or value.strip() == placeholder.strip()
        held = "" if is_empty else value
        return ScreenReading(
            composer=held if role in _COMPOSERS else None,
            raw=value,
            is_front=int(front) == self._pid,
            front_pid=int(front),
            # our own keys may count as a person's (docs/macos.md, assumption 5)
            quiet_for=None if self._has_pressed else float(idle),
            has_dialog=dialogs != "0",
        )

    async def carry_out(self, act: Act, text: str, seen: ScreenReading) -> Report:
        """One act; keys go out only while this process is in front and its composer holds what was seen."""
        match act:
            case Act.KEEP_CLIPBOARD:
                return await self._keep_clipboard()
            case Act.LOAD_CLIPBOARD:
                return Report(act, trouble=await self._scripting.set_clipboard(text))
            case Act.RESTORE_CLIPBOARD:
                return Report(act, trouble=await self._scripting.set_clipboard(self._clipboard_before))
            case Act.TO_FRONT:
                self._front_before = self._front_before or seen.front_pid
                return await self._to_front(seen.front_pid)
            case Act.RESTORE_FRONT:
                return await self._give_back_front()
            case Act.TAB:
                return await self._key(act, "tab", _NOT_ASKED)
            case Act.PASTE:
                return await self._key_over(act, "paste", seen)
            case _:
                return await self._key_over(act, "return", seen)

    async def _keep_clipboard(self) -> Report:
        kind = await self._scripting.run("clipboard_kind")
        if isinstance(kind, Trouble):
            return Report(Act.KEEP_CLIPBOARD, trouble=kind)
        if kind == [["other"]]:
            return Report(Act.KEEP_CLIPBOARD, refusal="clipboard")
        text = await self._scripting.clipboard()
        if isinstance(text, Trouble):
            return Report(Act.KEEP_CLIPBOARD, trouble=text)
        self._clipboard_before = text
        return Report(Act.KEEP_CLIPBOARD)

    async def _to_front(self, front_as_seen: int) -> Report:
        """Refused where another application came forward since the look: a person has begun something."""
        answer = await self._scripting.run("app_front", str(self._pid), str(front_as_seen))
        if isinstance(answer, Trouble):
            return Report(Act.TO_FRONT, trouble=answer)
        return Report(Act.TO_FRONT, refusal="" if answer == [[str(self._pid)]] else "focus")

    async def _give_back_front(self) -> Report:
        """Only where this process is still in front: whoever else is there now, a person put there."""
        if self._front_before in {0, self._pid}:
            return Report(Act.RESTORE_FRONT)
        answer = await self._scripting.run("app_front", str(self._front_before), str(self._pid))
        return Report(Act.RESTORE_FRONT, trouble=answer if isinstance(answer, Trouble) else None)

    async def _key_over(self, act: Act, key: str, seen: ScreenReading) -> Report:
        with private_file(seen.raw) as path:
            return await self._key(act, key, path)

    async def _key(self, act: Act, key: str, expected: str) -> Report:
        self._has_pressed = True
        answer = await self._scripting.run("app_key", str(self._pid), key, self._tab, expected)
        return report_of(act, answer)


def report_of(act: Act, answer: list[list[str]] | Trouble) -> Report:
    """What a script that checks and then acts has answered: `done`, or `refused` and why."""
    if isinstance(answer, Trouble):
        return Report(act, trouble=answer)
    match answer:
        case [["done"]]:
            return Report(act)
        case [["refused", why]]:
            return Report(act, refusal=why)
        case _:
            return Report(act, trouble=Trouble(Kind.OTHER, "the script answered nothing", "see `wake-bridge doctor`"))


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

    async def look(self, mark: str = "") -> ScreenReading | Trouble:
        """Read the visible text and judge it by the harness's profile."""
        answer = await self._scripting.run(f"{self._surface}_look", self._session)
        if isinstance(answer, Trouble):
            return answer
        if not answer or len(answer[0]) < _LOOK_FIELDS:
            return Trouble(Kind.OTHER, "the script answered nothing", "see `wake-bridge doctor`")
        tty, title, columns, rows, busy, front, idle, text = answer[0]
        seen = TerminalLook(tty, title, int(columns), int(rows), busy == "true", front == "true", float(idle), text)
        return sight_of(seen, self._surface, self._occupant, self._profiles.get(self._occupant.harness), mark)

    async def carry_out(self, act: Act, text: str, seen: ScreenReading) -> Report:
        """Write the text, or an empty line that is Return alone, if the session still shows what was seen."""
        with private_file(seen.raw) as path:
            if self._surface is Surface.TERMINAL:
                line = text if act is Act.SEND else ""
                answer = await self._scripting.run("terminal_write", self._session, path, self._quiet, line)
            else:
                line, ending = ("", "yes") if act is Act.RETURN else (text, "no")
                answer = await self._scripting.run("iterm_write", self._session, path, self._quiet, line, ending)
        return report_of(act, answer)


def sight_of(
    seen: TerminalLook, surface: Surface, occupant: Occupant, profile: Profile | None, mark: str
) -> ScreenReading:
    """What the visible text says, by the profile; nothing without one."""
    concerns_us = seen.is_front or surface is Surface.TERMINAL
    sight = ScreenReading(
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
    """The profile's evidence, but for what `ScreenReading` says itself: a draft, and that nothing speaks against idle."""
    votes = [
        replace(one, source=PresenceSource.OS_UI_PROBE)
        for one in reading.evidence
        if one.vote is not PresenceState.IDLE and one.rule != DRAFT
    ]
    if seen.is_busy:
        votes.append(Evidence("busy", PresenceState.ACTIVE, region="terminal", source=PresenceSource.OS_UI_PROBE))
    return votes
