"""Plans an attempt step by step and carries it out: journal first, then the act, then a look, then everything restored.

An act is one script. Every act that could reach the place carries its own check; the plan says what may follow it.
Once the text may stand in the composer, lost focus ends the attempt as unknown; before that, as refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, Protocol

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Progress, Proof, Step
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Failed, Journal, Refused, Unknown
from wake_bridge_adapters.osascript.scripting import Kind, ScreenReading, Trouble, evidence_of, same_text


class Surface(StrEnum):
    """How text gets there; the values are the first words of their scripts' names."""

    ITERM = "iterm"
    TERMINAL = "terminal"
    APPLICATION = "app"


@dataclass(frozen=True, slots=True)
class SessionName:
    """A session of a terminal, by tty or by the terminal's own id."""

    surface: Surface
    session: str


@dataclass(frozen=True, slots=True)
class ApplicationName:
    """An application, by name or bundle id.

    `tab` is a key to press with Cmd before the composer is looked for, `user_data` the directory that tells one
    instance from another; both may be empty.
    """

    name: str
    tab: str = ""
    user_data: str = ""


_TERMINALS: Final = {"iterm2": Surface.ITERM, "iterm": Surface.ITERM, "terminal": Surface.TERMINAL}
TERMINAL_APPLICATIONS: Final = frozenset(
    {
        "ghostty", "com.mitchellh.ghostty", "kitty", "net.kovidgoyal.kitty", "alacritty", "org.alacritty", "wezterm",
        "wezterm-gui", "com.github.wez.wezterm", "warp", "dev.warp.warp-stable", "hyper", "co.zeit.hyper",
        "rio", "com.raphaelamorim.rio", "tabby", "org.tabby", "terminal", "com.apple.terminal", "iterm", "iterm2",
        "com.googlecode.iterm2",
    }
)  # fmt: skip
"""Applications, by process name or bundle id, in which any program may have the focus: a shell as well as an agent."""

_SHORT_TTY: Final = re.compile(r"ttys\d+")


def meant_by(address: Address) -> SessionName | ApplicationName | None:
    """What the address names; the configuration's word wins over the subscription's. None when it names nothing."""
    details = dict(address.details)
    written = address.pane or address.suggested or details.get("appName", "")
    terminal, is_session, session = written.partition(":")
    surface = _TERMINALS.get(terminal.strip().lower())
    if is_session and surface:
        session = session.strip()
        return SessionName(surface, f"/dev/{session}" if _SHORT_TTY.fullmatch(session) else session)
    if not written:
        return None
    return ApplicationName(written, details.get("tabShortcut", "")[:1], details.get("userDataDir", ""))


APPEARS_WITHIN: Final = 30_000
"""Milliseconds for which a paste that nobody saw land is looked for."""


class Act(StrEnum):
    """One script of the plan."""

    LOOK = "look"
    KEEP_CLIPBOARD = "keep_clipboard"
    LOAD_CLIPBOARD = "load_clipboard"
    TO_FRONT = "to_front"
    TAB = "tab"
    LOOK_AT_TAB = "look_at_tab"
    PASTE = "paste"
    READ_BACK = "read_back"
    RETURN = "return"
    SEND = "send"
    SEE_IT_GO = "see_it_go"
    RESTORE_CLIPBOARD = "restore_clipboard"
    RESTORE_FRONT = "restore_front"


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done: the text, where, and what earlier attempts may have done already."""

    surface: Surface
    text: str
    where: str
    progress: Progress = Progress.UNTOUCHED
    staged_ago: int | None = None
    has_tab: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an act: a sight, a script's refusal (`focus`, `dialog`, `value`, `typing`, `clipboard`), or trouble."""

    act: Act
    sight: ScreenReading | None = None
    refusal: str = ""
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class Do:
    """The next act, and what the journal must hold on disk before it."""

    act: Act
    journal: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """How the attempt ends, and what the journal learns of it."""

    outcome: AttemptOutcome
    journal: tuple[Step, ...] = ()


NextMove = Do | End


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """How far the attempt got: whether text may stand there, what comes next in front."""

    may_stand: bool = False
    is_front: bool = False
    will_return: bool = False

    def after(self, act: Act) -> AttemptProgress:
        """The standing once `act` was set out on."""
        return replace(self, may_stand=True) if act in {Act.PASTE, Act.SEND} else self


_THEN: Final = {
    Act.KEEP_CLIPBOARD: Act.LOAD_CLIPBOARD,
    Act.LOAD_CLIPBOARD: Act.TO_FRONT,
    Act.TAB: Act.LOOK_AT_TAB,
    Act.PASTE: Act.READ_BACK,
    Act.RETURN: Act.SEE_IT_GO,
    Act.SEND: Act.SEE_IT_GO,
}
"""The acts that are always followed by the same one, unless they were refused or failed."""


def begin(task: Task) -> tuple[NextMove, AttemptProgress]:
    """The first move: always a look."""
    return Do(Act.LOOK), AttemptProgress(may_stand=task.progress is not Progress.UNTOUCHED)


def follow(
    task: Task, standing: AttemptProgress, report: Report, votes: Sequence[Evidence] = ()
) -> tuple[NextMove, AttemptProgress]:
    """What follows a report.

    `votes` is the evidence of the report's sight, as presence reads it. Never raises.
    """
    if report.trouble is not None:
        return _trouble(task, standing, report, report.trouble), standing
    if report.refusal:
        return _refusal(task, standing, report), standing
    if report.act in _THEN:
        return Do(_THEN[report.act]), standing
    match report.act:
        case Act.LOOK | Act.LOOK_AT_TAB:
            return _after_look(task, standing, report, votes)
        case Act.TO_FRONT:
            return _in_front(task, standing), standing
        case Act.READ_BACK:
            return _after_read_back(task, report.sight), standing
        case _:
            return _after_return(task, report.sight), standing


def clean_up(acts: Sequence[Act]) -> tuple[Act, ...]:
    """What must be put back, whatever happened, given the acts set out on."""
    restore = []
    if Act.LOAD_CLIPBOARD in acts:
        restore.append(Act.RESTORE_CLIPBOARD)
    if Act.TO_FRONT in acts:
        restore.append(Act.RESTORE_FRONT)
    return tuple(restore)


def _after_look(
    task: Task, standing: AttemptProgress, report: Report, votes: Sequence[Evidence]
) -> tuple[NextMove, AttemptProgress]:
    sight = report.sight
    verdict = single_vote(tuple(votes))
    is_clear = all(one.vote is PresenceState.IDLE or one.rule == "draft" or not one.weighs for one in votes)
    if standing.may_stand and task.has_tab and report.act is Act.LOOK:
        # the text stands in its own tab, whatever is shown now
        return (Do(Act.TO_FRONT) if is_clear else End(_held(task, verdict))), standing
    if standing.may_stand:
        return _resume(
            task, replace(standing, is_front=report.act is Act.LOOK_AT_TAB), sight, verdict, is_clear=is_clear
        )
    if verdict.vote is not PresenceState.IDLE:
        return End(_held(task, verdict)), standing
    return _approach(task, report.act, standing)


def _approach(task: Task, looked: Act, standing: AttemptProgress) -> tuple[NextMove, AttemptProgress]:
    """From a composer proven empty to the act that fills it."""
    if task.surface is Surface.TERMINAL:
        return Do(Act.SEND, (Step.INTENT_SUBMIT,)), standing
    if task.surface is Surface.ITERM or looked is Act.LOOK_AT_TAB:
        return Do(Act.PASTE, (Step.INTENT_STAGE,)), standing
    return Do(Act.KEEP_CLIPBOARD), standing


def _resume(
    task: Task, standing: AttemptProgress, sight: ScreenReading | None, verdict: Evidence, *, is_clear: bool
) -> tuple[NextMove, AttemptProgress]:
    """Our text may stand there: press Return once on that very text, find that it has gone, or look again later."""
    if sight is None or sight.composer is None:
        return End(_held(task, verdict)), standing
    if same_text(sight.composer, task.text):
        if task.progress is Progress.MAYBE_SUBMITTED:
            return End(_still_there(task)), standing
        if not is_clear:
            return End(_held(task, verdict)), standing
        journal = (Step.STAGED,) if task.progress is Progress.MAYBE_STAGED else ()
        if task.surface is Surface.APPLICATION and not standing.is_front:
            return Do(Act.TO_FRONT, journal), replace(standing, will_return=True)
        return Do(Act.RETURN, (*journal, Step.INTENT_SUBMIT)), standing
    if sight.has_mark:
        return End(
            Delivered(Proof.SUBMITTED, {"proof": "the mark stands in the transcript"}), (Step.SUBMITTED,)
        ), standing
    if sight.composer:
        return End(
            Refused(HoldReason.STAGED, "the composer holds other text, perhaps ours among it", task.where)
        ), standing
    if task.progress is not Progress.MAYBE_STAGED:
        return End(
            Unknown({"why": "our text is gone from the composer, and nothing shows whether it was sent"})
        ), standing
    if task.staged_ago is not None and task.staged_ago < APPEARS_WITHIN:
        why = "pasted, but not seen in the composer yet"
        return End(Refused(HoldReason.STAGED, why, task.where, Cause.NOT_YET_SHOWN)), standing
    return End(Unknown({"why": "our text may have been pasted, and never showed"})), standing


def _in_front(task: Task, standing: AttemptProgress) -> NextMove:
    if standing.will_return:
        return Do(Act.RETURN, (Step.INTENT_SUBMIT,))
    if task.has_tab:
        return Do(Act.TAB)
    return Do(Act.PASTE, (Step.INTENT_STAGE,))


def _after_read_back(task: Task, sight: ScreenReading | None) -> NextMove:
    if sight is None or (task.surface is Surface.APPLICATION and not sight.is_front):
        return End(_lost("focus was lost after the paste"))
    if sight.has_dialog:
        return End(Refused(HoldReason.STAGED, "a dialog came up over our text", task.where))
    if sight.composer is None or not same_text(sight.composer, task.text):
        return End(Refused(HoldReason.STAGED, "the pasted text could not be read back", task.where))
    return Do(Act.RETURN, (Step.STAGED, Step.INTENT_SUBMIT))


def _after_return(task: Task, sight: ScreenReading | None) -> NextMove:
    if sight is None:
        return End(_lost("nothing could be seen after Return"))
    if sight.has_mark and not sight.composer:
        return End(Delivered(Proof.SUBMITTED, {"proof": "the mark stands in the transcript"}), (Step.SUBMITTED,))
    if sight.composer == "" and task.surface is not Surface.TERMINAL:
        return End(Delivered(Proof.SUBMITTED, {"proof": "Return emptied the composer"}), (Step.SUBMITTED,))
    if sight.composer is not None and same_text(sight.composer, task.text):
        return End(_still_there(task))
    return End(_lost("Return was pressed, but its effect is not visible"))


def _trouble(task: Task, standing: AttemptProgress, report: Report, trouble: Trouble) -> NextMove:
    if report.act in {Act.RETURN, Act.SEND, Act.SEE_IT_GO}:
        return End(_lost(f"after Return: {trouble}"))
    if standing.may_stand:
        return End(Refused(HoldReason.STAGED, str(trouble), task.where))
    if trouble.kind in {Kind.PERMISSION, Kind.PLACE}:
        return End(Refused(HoldReason.UNREACHABLE, str(trouble), task.where))
    return End(Failed(retryable=True, reason=str(trouble)))


def _refusal(task: Task, standing: AttemptProgress, report: Report) -> NextMove:
    """A script's own check said no: this act's key was not pressed."""
    took_back = (Step.REFUSED,) if report.act in {Act.PASTE, Act.RETURN, Act.SEND} else ()
    may_stand = standing.may_stand and report.act not in {Act.PASTE, Act.SEND}
    if may_stand and report.refusal == "focus":
        return End(_lost("focus was lost after the paste"), took_back)
    reason = HoldReason.STAGED if may_stand else _WHY[report.refusal]
    return End(Refused(reason, f"refused before {report.act}: {_SAID[report.refusal]}", task.where), took_back)


_WHY: Final = {
    "focus": HoldReason.USER_TYPING,
    "dialog": HoldReason.WAITING_ON_APPROVAL,
    "value": HoldReason.USER_TYPING,
    "typing": HoldReason.USER_TYPING,
    "clipboard": HoldReason.USER_TYPING,
}
"""Which hold each refusal is: a person is at the machine, or a dialog is."""

_SAID: Final = {
    "focus": "another application is in front",
    "dialog": "a dialog is open",
    "value": "the composer changed",
    "typing": "somebody is at the keyboard",
    "clipboard": "the clipboard holds what could not be put back",
}


def _still_there(task: Task) -> Refused:
    """A second Return is never pressed: the first may only be taken late."""
    return Refused(HoldReason.STAGED, "Return was pressed, and our text still stands there", task.where)


def _held(task: Task, verdict: Evidence) -> Refused:
    detail = f"{verdict.rule}: {verdict.saw}" if verdict.saw else verdict.rule
    return Refused(verdict.reason, detail, task.where, verdict.why)


def _lost(why: str) -> Unknown:
    return Unknown({"why": why})


class Hands(Protocol):
    """One surface's scripts. Every act carries its own check inside one script."""

    async def look(self, mark: str = "") -> ScreenReading | Trouble:
        """One look; `mark` is searched for outside the composer."""

    async def carry_out(self, act: Act, text: str, seen: ScreenReading) -> Report:
        """One act that is no look. `seen` is the latest sight: what the script must still find."""


LOOKS: Final = {Act.LOOK, Act.LOOK_AT_TAB, Act.READ_BACK, Act.SEE_IT_GO}
SHOWS_WITHIN: Final = 3.0
"""Seconds in which a key's effect is waited for."""

_BETWEEN_LOOKS: Final = 0.3
_GAP: Final = 0.4
"""Seconds between the paste and Return: one that comes too early becomes a line break of the paste."""


async def perform(task: Task, hands: Hands, mark: str, journal: Journal, typing_quiet: float) -> AttemptOutcome:
    """One attempt from its first look to its outcome; clipboard and front application are put back whatever happens."""
    move, standing = begin(task)
    seen: ScreenReading | None = None
    acts: list[Act] = []
    try:
        while isinstance(move, Do):
            for step in move.journal:
                await journal(step, {"surface": str(task.surface)})
            acts.append(move.act)
            standing = standing.after(move.act)
            report = await _report(move.act, task, hands, mark, seen)
            seen = report.sight or seen
            votes = evidence_of(report.sight, typing_quiet) if report.sight else ()
            move, standing = follow(task, standing, report, votes)
    finally:
        await _put_back(acts, hands, task.text, seen)
    for step in move.journal:
        await journal(step, {"surface": str(task.surface)})
    return move.outcome


async def _report(act: Act, task: Task, hands: Hands, mark: str, seen: ScreenReading | None) -> Report:
    if act in {Act.LOOK, Act.LOOK_AT_TAB}:
        return _looked(act, await hands.look(mark))
    if act in LOOKS:
        return await _watch(act, task, hands, mark)
    if act is Act.RETURN:
        await asyncio.sleep(_GAP)
    return await hands.carry_out(act, task.text, seen or ScreenReading(composer=None))


async def _watch(act: Act, task: Task, hands: Hands, mark: str) -> Report:
    """Look until the key's effect shows, or the time for it is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SHOWS_WITHIN
    while True:
        report = _looked(act, await hands.look(mark))
        if report.sight is None or _shows(act, report.sight, task) or loop.time() > deadline:
            return report
        await asyncio.sleep(_BETWEEN_LOOKS)


def _shows(act: Act, sight: ScreenReading, task: Task) -> bool:
    stands = sight.composer is not None and same_text(sight.composer, task.text)
    return stands if act is Act.READ_BACK else sight.has_mark or (sight.composer is not None and not stands)


def _looked(act: Act, found: ScreenReading | Trouble) -> Report:
    return Report(act, trouble=found) if isinstance(found, Trouble) else Report(act, sight=found)


async def _put_back(acts: list[Act], hands: Hands, text: str, seen: ScreenReading | None) -> None:
    for act in clean_up(acts):
        await hands.carry_out(act, text, seen or ScreenReading(composer=None))
