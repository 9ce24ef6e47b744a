"""One attempt, from wherever earlier ones may have got to (DESIGN §§3, 6)."""

from __future__ import annotations

import asyncio
from typing import Final

from adapters.tmux.attempt import Attempt
from adapters.tmux.facts import NoPane
from adapters.tmux.occupants import Agent
from adapters.tmux.ours import Whereabouts, whereabouts
from adapters.tmux.prove import judged, nowhere, until_it_shows
from adapters.tmux.stage import stage
from adapters.tmux.submit import submit
from adapters.tmux.view import UNREAD_INPUT, View
from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Refused, Unknown

APPEARS_WITHIN: Final = 30_000
"""Milliseconds for which a paste that nobody saw land is looked for; programs that draw it 20 s late were tried."""

_GONE: Final = {
    Progress.MAYBE_STAGED: "our text may have been pasted, and never showed",
    Progress.STAGED: "our text stood in the composer and is gone, and the mark is nowhere to be seen",
    Progress.MAYBE_SUBMITTED: "Enter may have been pressed, and the mark is nowhere to be seen",
}
"""Why nothing can be known of a text that is nowhere."""


async def deliver(attempt: Attempt, last_fingerprint: str) -> AttemptOutcome:
    """Submit the wake's text, going on from its progress.

    `last_fingerprint` is that of the look which proved the pane idle; empty when there was none.
    """
    progress = attempt.wake.progress
    if progress is Progress.SUBMITTED:
        return Delivered(Proof.SUBMITTED, {"proof": "seen by an earlier attempt"})
    first = await attempt.look(anew=True)
    if isinstance(first, NoPane):
        return _no_pane(attempt, first)
    if breach := attempt.breach(first):
        return _another_pane(attempt, first, breach)
    if progress is Progress.UNTOUCHED:
        return await _from_the_start(attempt, first, last_fingerprint)
    return await _go_on(attempt, first)


async def _from_the_start(attempt: Attempt, first: View, last_fingerprint: str) -> AttemptOutcome:
    if first.verdict.vote is not PresenceState.IDLE:
        return attempt.refused_by(first.verdict)
    if last_fingerprint and last_fingerprint != first.fingerprint:
        return attempt.refused(HoldReason.ACTIVE, "the pane moved since the look that proved it idle")
    return await _stage_and_submit(attempt, first)


async def _go_on(attempt: Attempt, first: View) -> AttemptOutcome:
    """Our text may stand there, or be on its way: look on, and send nothing that may have been sent before."""
    view = await until_it_shows(attempt, first)
    if isinstance(view, NoPane):
        return _no_pane(attempt, view)
    if breach := attempt.breach(view):
        return _another_pane(attempt, view, breach)
    is_first_enter = attempt.wake.progress is not Progress.MAYBE_SUBMITTED
    if is_first_enter and whereabouts(view, attempt.wake) is Whereabouts.ALONE:
        return await _submit_what_stands(attempt, first, view)
    return await judged(attempt, view, if_gone=_gone(attempt, view))


async def _submit_what_stands(attempt: Attempt, first: View, view: View) -> AttemptOutcome:
    if attempt.wake.progress is Progress.MAYBE_STAGED:
        await attempt.write(Step.STAGED, found="standing there")
    if view.obstacles:
        return attempt.staged(view.obstacles[0].told)
    await _rest(view)
    return await submit(attempt, first)


def _gone(attempt: Attempt, view: View) -> Refused | Unknown:
    """The text is nowhere: one that may only be slow to show is waited for, and none is pasted a second time."""
    wake = attempt.wake
    if wake.progress is Progress.MAYBE_STAGED:
        if unread := next((one for one in view.evidence if one.rule == UNREAD_INPUT), None):
            return attempt.staged(f"pasted, but not seen in the composer yet: {unread.told}")
        if wake.staged_ago is not None and wake.staged_ago < APPEARS_WITHIN:
            return attempt.staged("pasted, but not seen in the composer yet")
    return nowhere(attempt, _GONE[wake.progress], view)


async def _stage_and_submit(attempt: Attempt, first: View) -> AttemptOutcome:
    landed = await stage(attempt, first)
    if not isinstance(landed, View):
        return landed
    await _rest(landed)
    return await submit(attempt, first)


async def _rest(view: View) -> None:
    """The harness's gap between paste and Enter: one that comes too early becomes a line break of the paste."""
    if isinstance(view.agent, Agent):
        await asyncio.sleep(view.agent.profile.paste.gap_ms / 1000)


def _no_pane(attempt: Attempt, nothing: NoPane) -> AttemptOutcome:
    if attempt.wake.progress is Progress.UNTOUCHED or nothing.timed_out:
        return attempt.refused(HoldReason.UNREACHABLE, nothing.why)
    return attempt.unknown(f"where it was typed there is {nothing.why}")


def _another_pane(attempt: Attempt, view: View, breach: str) -> AttemptOutcome:
    if attempt.wake.progress is not Progress.UNTOUCHED:
        return attempt.unknown(f"{breach}, and the text may have been typed there")
    if isinstance(view.agent, Agent):
        return attempt.refused(HoldReason.UNREACHABLE, breach)
    return attempt.refused_by(view.verdict)
