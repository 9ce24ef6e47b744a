"""One attempt, from wherever earlier ones may have got to."""

from __future__ import annotations

import asyncio
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Progress, Proof, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Refused, Unknown
from wake_bridge_adapters.tmux.attempt import Attempt, DrivenElsewhere
from wake_bridge_adapters.tmux.facts import NoPane
from wake_bridge_adapters.tmux.guarded import NotExpressible, Verdict, condition, if_still
from wake_bridge_adapters.tmux.occupants import Agent
from wake_bridge_adapters.tmux.prove import Swallowed, judged, nowhere, prove, until_it_shows
from wake_bridge_adapters.tmux.stage import stage
from wake_bridge_adapters.tmux.view import UNREAD_INPUT, View, Whereabouts, sight_of, whereabouts

AGAIN: Final = 3
"""How often Enter is pressed again, at most, where a harness is known to ignore one."""

ENTER: Final = "send-keys -t {pane} -H 0d"
"""A carriage return as it is: by its name newer tmux may encode the key in another way.

The pane comes first: behind the key it would be two more keys, and Enter would go to whichever pane is current.
"""


async def submit(attempt: Attempt, first: View) -> AttemptOutcome:
    """Press Enter, for the first time, on our text that stands alone, and see what comes of it.

    `first` is the look since which no key may have come in.
    """
    stopped = await _press(attempt, first)
    if stopped is not None:
        return stopped
    proof = await prove(attempt)
    for _ in range(AGAIN):
        if not isinstance(proof, Swallowed):
            return proof
        stopped = await _press(attempt, first)
        proof = await prove(attempt)
        if stopped is not None and isinstance(proof, Swallowed):
            return stopped
    if not isinstance(proof, Swallowed):
        return proof
    return attempt.staged(f"Enter was pressed {AGAIN + 1} times, and our text still stands there")


async def _press(attempt: Attempt, first: View) -> Refused | Unknown | None:
    """One Enter behind its own condition; None when it may have gone out."""
    view = await attempt.look(anew=True)
    if isinstance(view, NoPane):
        return _nothing_to_see(attempt, view)
    if breach := attempt.breach(view):
        return attempt.unknown(f"before Enter {breach}")
    if whereabouts(view, attempt.wake) is not Whereabouts.ALONE:
        return attempt.staged("our text does not stand alone in the composer")
    if view.obstacles:
        return attempt.staged(view.obstacles[0].told)
    try:
        claim = attempt.claim(view)
        guard = condition(view.look, first.look, sight_of(view, attempt.wake), driver=claim.ours)
    except (NotExpressible, DrivenElsewhere) as problem:
        return attempt.staged(str(problem))
    await attempt.write(Step.INTENT_SUBMIT)
    pressed = await if_still(
        attempt.server,
        attempt.pane_id,
        guard,
        before=claim.commands(attempt.pane_id),
        then=ENTER.format(pane=attempt.pane_id),
    )
    if pressed.verdict in {Verdict.DONE, Verdict.SILENT}:
        return None
    why = pressed.answer.complaint if pressed.verdict is Verdict.NOT_REACHED else "the pane was no longer as seen"
    await attempt.write(Step.REFUSED, why=why)
    return attempt.staged(f"Enter was held back: {why}")


def _nothing_to_see(attempt: Attempt, nothing: NoPane) -> Refused | Unknown:
    if nothing.timed_out:
        return attempt.refused(HoldReason.UNREACHABLE, f"before Enter: {nothing.why}", nothing.cause)
    return attempt.unknown(f"before Enter: {nothing.why}")


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
        return attempt.refused(HoldReason.ACTIVE, "the pane moved since the look that proved it idle", Cause.MOVING)
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
            return attempt.staged(f"pasted, but not seen in the composer yet: {unread.told}", Cause.NOT_YET_SHOWN)
        if wake.staged_ago is not None and wake.staged_ago < APPEARS_WITHIN:
            return attempt.staged("pasted, but not seen in the composer yet", Cause.NOT_YET_SHOWN)
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
        return attempt.refused(HoldReason.UNREACHABLE, nothing.why, nothing.cause)
    return attempt.unknown(f"where it was typed there is {nothing.why}")


def _another_pane(attempt: Attempt, view: View, breach: str) -> AttemptOutcome:
    if attempt.wake.progress is not Progress.UNTOUCHED:
        return attempt.unknown(f"{breach}, and the text may have been typed there")
    if isinstance(view.agent, Agent):
        return attempt.refused(HoldReason.UNREACHABLE, breach)
    return attempt.refused_by(view.verdict)
