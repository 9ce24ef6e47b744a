"""Compares and pastes in one step, then waits until the text shows."""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import Failed, Refused, Unknown
from wake_bridge_adapters.tmux.attempt import POLL, DrivenElsewhere, PaneAttempt, PaneClaim
from wake_bridge_adapters.tmux.guarded import Guarded, NotExpressible, TmuxVerdict, condition, if_still
from wake_bridge_adapters.tmux.occupants import spelled
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.view import PaneView, TextLocation, placeholder_of, text_location

_ULID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def why_unfit(text: str, mark: str) -> str:
    """Why the text may not be pasted; empty if it may.

    tmux before 3.7 hands ESC and the end-of-paste sequence through: what stands behind them would be keys.
    """
    if not _ULID.fullmatch(mark):
        return f"the mark is no ULID: {mark!r}"
    if mark not in text:
        return "the text does not hold its mark"
    for character in text:
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cs"}:
            return f"the text holds the control character U+{ord(character):04X}"
    return ""


LANDS_WITHIN: Final = 3.0
"""Seconds for pasted text to appear in the composer."""


async def stage(attempt: PaneAttempt, first: PaneView) -> PaneView | Refused | Failed | Unknown:
    """Paste the text if the pane is still as `first` saw it, and wait until it stands in the composer, alone.

    Returns the look that saw it stand, or why there is none.
    """
    if why := why_unfit(attempt.wake.text, attempt.wake.mark):
        return Failed(retryable=False, reason=why)
    try:
        claim = attempt.claim(first)
        guard = condition(first.look, first.look, placeholder_of(first), driver=claim.ours)
    except DrivenElsewhere as elsewhere:
        return attempt.refused(HoldReason.OTHER_DRIVER, str(elsewhere), elsewhere.cause)
    except NotExpressible as problem:
        return attempt.refused(HoldReason.UNKNOWN, str(problem), Cause.NOT_AT_REST)
    await attempt.write(Step.PROBED, rule=first.verdict.rule, saw=first.verdict.saw, fence=spelled(first.fence))
    await attempt.write(Step.INTENT_STAGE)
    pasted = await _compare_and_paste(attempt, guard, claim)
    if pasted.verdict is TmuxVerdict.NOT_REACHED:
        await attempt.write(Step.REFUSED, why=pasted.answer.complaint)
        return Failed(retryable=True, reason=pasted.answer.complaint)
    if pasted.verdict is TmuxVerdict.REFUSED:
        await attempt.write(Step.REFUSED, why="the pane was no longer as seen")
        return await _what_came_in_between(attempt)
    return await see_it_land(attempt)


async def see_it_land(attempt: PaneAttempt) -> PaneView | Refused | Unknown:
    """Wait until our text, and nothing else, stands in the composer."""
    deadline = time.monotonic() + LANDS_WITHIN
    while True:
        view = await attempt.look()
        if isinstance(view, NoPane):
            return _nothing_to_see(attempt, view)
        if breach := attempt.breach(view):
            return attempt.unknown(f"after the paste {breach}")
        if text_location(view, attempt.wake) is TextLocation.ALONE:
            await attempt.write(Step.STAGED, composer=_shown(view))
            return view
        if time.monotonic() >= deadline:
            return await _never_landed(attempt, view)
        await asyncio.sleep(POLL)


async def _compare_and_paste(attempt: PaneAttempt, guard: str, claim: PaneClaim) -> Guarded:
    """One buffer of our own for one paste: shared names have carried one sender's text into another's pane."""
    buffer = f"wake-bridge-{attempt.wake.mark}"
    pasted = await if_still(
        attempt.server,
        attempt.pane_id,
        guard,
        before=[["load-buffer", "-b", buffer, "-"], *claim.commands(attempt.pane_id)],
        then=f"paste-buffer -d -p -r -b {buffer} -t {attempt.pane_id}",
        otherwise=f"delete-buffer -b {buffer}",
        stdin=attempt.wake.text,
    )
    if pasted.verdict in {TmuxVerdict.NOT_REACHED, TmuxVerdict.SILENT}:
        await attempt.ask(["delete-buffer", "-b", buffer])
    return pasted


async def _what_came_in_between(attempt: PaneAttempt) -> Refused:
    view = await attempt.look(anew=True)
    if isinstance(view, NoPane):
        return attempt.refused(HoldReason.UNREACHABLE, view.why, view.cause)
    if view.verdict.vote is PresenceState.IDLE:
        why = "something moved between the look and the paste; nothing was pasted"
        return attempt.refused(HoldReason.ACTIVE, why, Cause.MOVING)
    return attempt.refused_by(view.verdict)


async def _never_landed(attempt: PaneAttempt, view: PaneView) -> Refused:
    if text_location(view, attempt.wake) is TextLocation.AMONG:
        await attempt.write(Step.STAGED, composer=_shown(view), alone="no")
        return attempt.staged("our text stands in the composer, but not alone")
    if view.obstacles:
        return attempt.staged(f"pasted, then {view.obstacles[0].told}")
    return attempt.staged("pasted, but not seen in the composer yet", Cause.NOT_YET_SHOWN)


def _nothing_to_see(attempt: PaneAttempt, nothing: NoPane) -> Refused | Unknown:
    if nothing.timed_out:
        return attempt.refused(HoldReason.UNREACHABLE, f"after the paste {nothing.why}", nothing.cause)
    return attempt.unknown(f"after the paste: {nothing.why}")


def _shown(view: PaneView) -> str:
    return view.reading.composer if view.reading else ""
