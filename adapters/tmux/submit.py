"""Press Enter on our own text, and only there (DESIGN §6.6)."""

from __future__ import annotations

from typing import Final

from adapters.tmux.attempt import Attempt
from adapters.tmux.condition import NotExpressible, condition
from adapters.tmux.driver import DrivenElsewhere
from adapters.tmux.facts import NoPane
from adapters.tmux.guarded import Verdict, if_still
from adapters.tmux.ours import sight_of, stands_alone
from adapters.tmux.prove import StillThere, prove
from adapters.tmux.view import View
from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.ports.adapter import AttemptOutcome, Refused, Unknown

PRESSES: Final = 4
"""Enter, and again at most three times."""

ENTER: Final = "send-keys -t {pane} -H 0d"
"""A carriage return as it is: by its name newer tmux may encode the key in another way.

The pane comes first: behind the key it would be two more keys, and Enter would go to whichever pane is current.
"""


async def submit(attempt: Attempt, first: View, *, presses: int = PRESSES, was_pressed: bool = False) -> AttemptOutcome:
    """Press Enter while our text stands alone, until it is seen to have gone.

    `first` is the look since which no key may have come in. `was_pressed` says that an earlier attempt may have pressed
    Enter: then it is also looked for what became of that one.
    """
    for _ in range(presses):
        stopped = await _press(attempt, first)
        if stopped is not None and not was_pressed:
            return stopped
        proof = await prove(attempt)
        if not isinstance(proof, StillThere):
            return proof
        if stopped is not None:
            return stopped
        was_pressed = True
    return attempt.staged(f"Enter was pressed {presses} times, and the text still stands unsent")


async def _press(attempt: Attempt, first: View) -> Refused | Unknown | None:
    """One Enter behind its own condition; None when it may have gone out."""
    view = await attempt.look(anew=True)
    if isinstance(view, NoPane):
        return _nothing_to_see(attempt, view)
    if breach := attempt.breach(view):
        return attempt.unknown(f"before Enter {breach}")
    if not stands_alone(view, attempt.wake):
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
