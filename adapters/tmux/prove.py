"""See that the text went (DESIGN §6.7): nothing tmux says about its own success is proof."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from adapters.tmux.attempt import POLL, Attempt
from adapters.tmux.facts import NoPane
from adapters.tmux.ours import is_in_composer, is_in_text, is_in_transcript, shows_composer, stands_alone
from adapters.tmux.view import View
from wake_bridge.domain.delivery import HoldReason, Proof, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import Delivered, Refused, Unknown

AGAIN_AFTER: Final = 3.0
"""Seconds that our text must go on standing there, alone, its Enter read, before it counts as swallowed.

An Enter that was only taken late would be followed by ours, and approve whatever the turn it began asks first.
"""

PROVES_WITHIN: Final = 5.0
"""Seconds for a submitted text to be seen to have left the composer."""


@dataclass(frozen=True, slots=True)
class StillThere:
    """The text stands where it stood: Enter was swallowed."""


async def prove(attempt: Attempt) -> Delivered | StillThere | Refused | Unknown:
    """Watch the pane after Enter until it shows what became of the text."""
    start = time.monotonic()
    while True:
        view = await attempt.look()
        waited = time.monotonic() - start
        if isinstance(view, NoPane):
            return attempt.unknown(f"after Enter: {view.why}")
        if proof := _proof_in(attempt, view):
            return await delivered(attempt, proof)
        stands = stands_alone(view, attempt.wake)
        if stands and waited >= AGAIN_AFTER and not view.obstacles:
            return StillThere()
        if waited >= PROVES_WITHIN:
            return await _undecided(attempt, view, stands=stands)
        await asyncio.sleep(POLL)


def _proof_in(attempt: Attempt, view: View) -> str:
    """How this look, right after Enter, shows that the text left the composer; empty if it does not."""
    reading = view.reading
    if reading is None:
        return ""
    if is_in_transcript(view, attempt.wake):
        return "the mark stands in the transcript"
    is_empty = reading.composer in {"empty", "placeholder"}
    is_busy = any(one.vote is PresenceState.ACTIVE for one in reading.evidence)
    return "the composer is empty and a turn runs" if is_empty and is_busy else ""


async def delivered(attempt: Attempt, proof: str) -> Delivered:
    """Write the proof down and report it."""
    await attempt.write(Step.SUBMITTED, proof=proof)
    return Delivered(Proof.SUBMITTED, {"proof": proof, "where": attempt.label, "pane": attempt.pane_id})


async def mark_is_in_history(attempt: Attempt, view: View) -> bool | NoPane:
    """Whether our mark stands outside the composer, what has scrolled away included; or why that cannot be told."""
    if not shows_composer(view) or is_in_composer(view, attempt.wake):
        return False
    text = await attempt.scrollback()
    return text if isinstance(text, NoPane) else is_in_text(text, attempt.wake)


async def _undecided(attempt: Attempt, view: View, *, stands: bool) -> Delivered | Refused | Unknown:
    if breach := attempt.breach(view):
        return attempt.unknown(f"after Enter {breach}")
    if stands:
        return attempt.staged(f"Enter was pressed; the text still stands: {view.obstacles[0].told}")
    found = await mark_is_in_history(attempt, view)
    if isinstance(found, NoPane):
        return attempt.refused(HoldReason.UNREACHABLE, f"after Enter the scrollback cannot be read: {found.why}")
    if found:
        return await delivered(attempt, "the mark stands in the scrollback")
    return attempt.unknown(
        "after Enter the mark is neither in the composer nor in the transcript",
        composer=view.reading.composer if view.reading else "",
        rule=view.verdict.rule,
    )
