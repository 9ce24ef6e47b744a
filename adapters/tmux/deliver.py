"""One attempt, from wherever earlier ones may have got to (DESIGN §§3, 6)."""

from __future__ import annotations

import asyncio
from typing import Final

from adapters.tmux.attempt import Attempt, reason_of
from adapters.tmux.facts import NoPane
from adapters.tmux.occupants import Agent
from adapters.tmux.ours import is_in_composer, is_in_transcript, shows_composer, stands_alone
from adapters.tmux.prove import delivered, mark_is_in_history
from adapters.tmux.stage import stage
from adapters.tmux.submit import submit
from adapters.tmux.view import View
from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import AttemptOutcome, Delivered

APPEARS_WITHIN: Final = 10_000
"""Milliseconds in which a harness that has read a paste shows it, however slow it is."""


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
    if progress is Progress.MAYBE_SUBMITTED:
        return await _after_enter(attempt, first)
    return await _after_paste(attempt, first)


async def _from_the_start(attempt: Attempt, first: View, last_fingerprint: str) -> AttemptOutcome:
    if first.verdict.vote is not PresenceState.IDLE:
        return attempt.refused_by(first.verdict)
    if last_fingerprint and last_fingerprint != first.fingerprint:
        return attempt.refused(HoldReason.ACTIVE, "the pane moved since the look that proved it idle")
    return await _stage_and_submit(attempt, first)


async def _after_paste(attempt: Attempt, first: View) -> AttemptOutcome:
    """Our text may stand there: submit that very text, or find that it is gone and stage it again."""
    if stands_alone(first, attempt.wake):
        if attempt.wake.progress is Progress.MAYBE_STAGED:
            await attempt.write(Step.STAGED, found="standing there")
        if first.obstacles:
            return attempt.staged(first.obstacles[0].told)
        await _rest(first)
        return await submit(attempt, first)
    if is_in_composer(first, attempt.wake):
        return attempt.staged("our text stands in the composer, but not alone")
    proof = await _found(attempt, first)
    if isinstance(proof, NoPane):
        return attempt.refused(HoldReason.UNREACHABLE, f"the scrollback cannot be read: {proof.why}")
    if proof:
        return await delivered(attempt, proof)
    if first.verdict.vote is not PresenceState.IDLE:
        return attempt.refused(reason_of(first.verdict), f"our text may stand there: {first.verdict.told}")
    if _may_still_appear(attempt):
        return attempt.staged("pasted a moment ago, and not seen in the composer yet")
    return await _stage_and_submit(attempt, first)


def _may_still_appear(attempt: Attempt) -> bool:
    """Whether a paste that nobody saw land may only be slow: a second one would stand behind it, and be sent with it."""
    wake = attempt.wake
    is_unseen = wake.progress is Progress.MAYBE_STAGED
    return is_unseen and wake.staged_ago is not None and wake.staged_ago < APPEARS_WITHIN


async def _after_enter(attempt: Attempt, first: View) -> AttemptOutcome:
    """Enter may have gone out: never type again; look, or press once more on what provably still stands there."""
    if stands_alone(first, attempt.wake):
        if first.obstacles:
            return attempt.staged(first.obstacles[0].told)
        return await submit(attempt, first, presses=1, was_pressed=True)
    if is_in_composer(first, attempt.wake):
        return attempt.staged("our text stands in the composer, but not alone")
    proof = await _found(attempt, first)
    if isinstance(proof, NoPane):
        return attempt.refused(HoldReason.UNREACHABLE, f"the scrollback cannot be read: {proof.why}")
    if proof:
        return await delivered(attempt, proof)
    if not shows_composer(first):
        return attempt.refused(reason_of(first.verdict), f"Enter may have been pressed: {first.verdict.told}")
    return attempt.unknown("Enter may have been pressed, and the mark is nowhere to be seen", rule=first.verdict.rule)


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


async def _found(attempt: Attempt, view: View) -> str | NoPane:
    """Where the mark shows that the text was submitted, by whomever; empty if nowhere, or why that cannot be told."""
    if is_in_transcript(view, attempt.wake):
        return "the mark stands in the transcript"
    found = await mark_is_in_history(attempt, view)
    if isinstance(found, NoPane):
        return found
    return "the mark stands in the scrollback" if found else ""


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
