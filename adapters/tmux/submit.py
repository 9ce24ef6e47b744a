"""Press Enter on our own text, and only there (DESIGN §6.6)."""

from __future__ import annotations

from typing import Final

from adapters.tmux.attempt import Attempt
from adapters.tmux.condition import NotExpressible, condition
from adapters.tmux.driver import DrivenElsewhere
from adapters.tmux.facts import NoPane
from adapters.tmux.guarded import Verdict, if_still
from adapters.tmux.ours import Whereabouts, sight_of, whereabouts
from adapters.tmux.prove import Swallowed, prove
from adapters.tmux.view import View
from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.ports.adapter import AttemptOutcome, Refused, Unknown

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
        return attempt.refused(HoldReason.UNREACHABLE, f"before Enter: {nothing.why}")
    return attempt.unknown(f"before Enter: {nothing.why}")
