"""Delivers one wake: stages it, submits it, proves it, and resumes what an earlier attempt began."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Progress, Proof, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Refused, Trace, Unknown
from wake_bridge_adapters.tmux.attempt import POLL, DrivenElsewhere, PaneAttempt
from wake_bridge_adapters.tmux.guarded import (
    TIME_SHOWS,
    TIME_SHOWS_NO_MORE,
    NotExpressible,
    TmuxVerdict,
    condition,
    if_still,
    in_time,
)
from wake_bridge_adapters.tmux.occupants import NO_PROCESS, PaneAgent, started_at
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.stage import stage
from wake_bridge_adapters.tmux.view import UNREAD_INPUT, PaneView, TextLocation, is_in_text, sight_of, text_location

AGAIN_AFTER: Final = 3.0
"""Seconds that our text must go on standing there, alone, its Enter read, before it counts as swallowed."""

SHOWS_WITHIN: Final = 5.0
"""Seconds in which one attempt waits for what its key has done to show; later ones go on looking."""

LOOKS_ON: Final = 1.0
"""Seconds in which a later attempt looks on before our text counts as gone: a composer may be emptied before the transcript is drawn."""


@dataclass(frozen=True, slots=True)
class Swallowed:
    """The text stands where it stood, in a harness that is known to ignore an Enter and never to take one late."""


async def prove(attempt: PaneAttempt) -> AttemptOutcome | Swallowed:
    """Watch the pane after Enter until it shows what became of the text."""
    start = time.monotonic()
    while True:
        view = await attempt.look()
        waited = time.monotonic() - start
        if isinstance(view, NoPane):
            return attempt.unknown(f"after Enter: {view.why}")
        where = text_location(view, attempt.wake)
        if where is TextLocation.SENT:
            return await delivered(attempt, "the mark stands in the transcript")
        if _turn_began(view):
            return await delivered(attempt, "the composer is empty and a turn runs")
        if where is TextLocation.ALONE and waited >= AGAIN_AFTER and _swallows_enter(view) and not view.obstacles:
            return Swallowed()
        if waited >= SHOWS_WITHIN:
            if breach := attempt.breach(view):
                return attempt.unknown(f"after Enter {breach}")
            why = "after Enter the mark is neither in the composer nor in the transcript"
            return await judged(attempt, view, if_gone=nowhere(attempt, why, view))
        await asyncio.sleep(POLL)


async def until_it_shows(attempt: PaneAttempt, view: PaneView) -> PaneView | NoPane:
    """Look on, for a moment, until our text shows anywhere; `view` is the look that was taken already."""
    deadline = time.monotonic() + LOOKS_ON
    while text_location(view, attempt.wake) is TextLocation.GONE and time.monotonic() < deadline:
        await asyncio.sleep(POLL)
        after = await attempt.look()
        if isinstance(after, NoPane):
            return after
        view = after
    return view


async def judged(attempt: PaneAttempt, view: PaneView, *, if_gone: Refused | Unknown) -> AttemptOutcome:
    """What a look says of a text after which Enter may have been pressed; `if_gone` where it is nowhere."""
    match text_location(view, attempt.wake):
        case TextLocation.ALONE:
            seen = f": {view.obstacles[0].told}" if view.obstacles else ""
            return attempt.staged(f"Enter was pressed, and our text still stands there{seen}")
        case TextLocation.AMONG:
            return attempt.staged("our text stands in the composer, but not alone")
        case TextLocation.SENT:
            return await delivered(attempt, "the mark stands in the transcript")
        case TextLocation.UNCLEAR:
            verdict = view.verdict
            return attempt.refused(verdict.reason, f"our text may stand there: {verdict.told}", verdict.why)
        case TextLocation.GONE:
            return await _looked_for_in_scrollback(attempt, if_gone)


async def _looked_for_in_scrollback(attempt: PaneAttempt, if_gone: Refused | Unknown) -> AttemptOutcome:
    """Read what has scrolled away, and the screen with it: a text that has just landed in the composer is no proof."""
    text = await attempt.scrollback()
    if isinstance(text, NoPane):
        return attempt.refused(HoldReason.UNREACHABLE, f"the scrollback cannot be read: {text.why}", text.cause)
    if not is_in_text(text, attempt.wake):
        return if_gone
    view = await attempt.look()
    if isinstance(view, NoPane) or text_location(view, attempt.wake) is not TextLocation.GONE:
        return attempt.staged("our text has only just come to show")
    return await delivered(attempt, "the mark stands in the scrollback")


def nowhere(attempt: PaneAttempt, why: str, view: PaneView) -> Unknown:
    """The text is nowhere to be seen, and nothing tells whether it was sent."""
    composer = view.reading.composer if view.reading else ""
    return attempt.unknown(why, composer=composer, rule=view.verdict.rule)


async def delivered(attempt: PaneAttempt, proof: str) -> Delivered:
    """Write the proof down and report it."""
    await attempt.write(Step.SUBMITTED, proof=proof)
    return Delivered(Proof.SUBMITTED, {"proof": proof, "where": attempt.label, "pane": attempt.pane_id})


def _turn_began(view: PaneView) -> bool:
    """Whether, right after Enter, a turn runs over an empty composer."""
    reading = view.reading
    if reading is None or reading.composer not in {"empty", "placeholder"}:
        return False
    return any(one.vote is PresenceState.ACTIVE for one in reading.evidence)


def _swallows_enter(view: PaneView) -> bool:
    return isinstance(view.agent, PaneAgent) and view.agent.profile.paste.swallows_enter


async def trace(attempt: PaneAttempt) -> Trace:
    """Look for the mark of the attempt's wake; its fence is where the wake was announced, or the pane as it is now.

    A mark that another program left, be it in a composer that nobody can send any more, proves nothing either way.
    """
    view, has_ended = await attempt.look(anew=True), _has_ended(attempt.fence)
    if isinstance(view, NoPane):
        return _unseen(view.why, is_absent=has_ended and not view.timed_out)
    is_theirs = _program_of(view.fence) == _program_of(attempt.fence)
    where = text_location(view, attempt.wake)
    if is_theirs and where is TextLocation.SENT:
        return Trace(Proof.SUBMITTED, "the mark stands in the transcript")
    if is_theirs and where in {TextLocation.ALONE, TextLocation.AMONG}:
        return _unseen("our text stands in the composer")
    if where is TextLocation.UNCLEAR and not has_ended:
        return _unseen(view.verdict.told)
    return await _trace_in_history(attempt, view, is_theirs=is_theirs, has_ended=has_ended)


async def _trace_in_history(attempt: PaneAttempt, view: PaneView, *, is_theirs: bool, has_ended: bool) -> Trace:
    text = await attempt.scrollback()
    if isinstance(text, NoPane):
        return _unseen(f"the scrollback cannot be read: {text.why}")
    if is_in_text(text, attempt.wake):
        if not is_theirs:
            return _unseen("its mark is in text that another program left there")
        after = await attempt.look()
        if isinstance(after, NoPane) or text_location(after, attempt.wake) is not TextLocation.GONE:
            return _unseen("our text has only just come to show")
        return Trace(Proof.SUBMITTED, "the mark stands in the scrollback")
    if has_ended or view.verdict.vote is PresenceState.IDLE:
        return _unseen("the mark is not visible anywhere", is_absent=True)
    return _unseen(view.verdict.told)


def _unseen(told: str, *, is_absent: bool = False) -> Trace:
    return Trace(Proof.NONE, told, is_absent)


def _program_of(fence: Binding) -> tuple[int, str]:
    """The process that was, or would be, woken."""
    if fence.agent_pid != NO_PROCESS:
        return fence.agent_pid, fence.agent_started
    return fence.pane_pid, fence.pane_started


def _has_ended(fence: Binding) -> bool:
    pid, started = _program_of(fence)
    return started_at(pid) != started


AGAIN: Final = 3
"""How often Enter is pressed again, at most, where a harness is known to ignore one."""

ENTER: Final = "send-keys -t {pane} -H 0d"
"""A carriage return as it is: by its name newer tmux may encode the key in another way.

The pane comes first: behind the key it would be two more keys, and Enter would go to whichever pane is current.
"""


async def submit(attempt: PaneAttempt, first: PaneView) -> AttemptOutcome:
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


async def _press(attempt: PaneAttempt, first: PaneView) -> Refused | Unknown | None:
    """One Enter behind its own condition; None when it may have gone out."""
    view = await attempt.look(anew=True)
    if isinstance(view, NoPane):
        return _nothing_to_see(attempt, view)
    if breach := attempt.breach(view):
        return attempt.unknown(f"before Enter {breach}")
    if text_location(view, attempt.wake) is not TextLocation.ALONE:
        return attempt.staged("our text does not stand alone in the composer")
    if view.obstacles:
        return attempt.staged(view.obstacles[0].told)
    try:
        claim = attempt.claim(view)
        guard = condition(view.look, first.look, sight_of(view, attempt.wake), driver=claim.ours)
    except (NotExpressible, DrivenElsewhere) as problem:
        return attempt.staged(str(problem))
    send_by = await attempt.write(Step.INTENT_SUBMIT)
    pressed = await if_still(
        attempt.server,
        attempt.pane_id,
        guard if send_by is None else in_time(guard, send_by),
        before=[*claim.commands(attempt.pane_id), *(() if send_by is None else [TIME_SHOWS])],
        then=ENTER.format(pane=attempt.pane_id),
        after=[] if send_by is None else [TIME_SHOWS_NO_MORE],
    )
    if pressed.verdict in {TmuxVerdict.DONE, TmuxVerdict.SILENT}:
        return None
    why = pressed.answer.complaint if pressed.verdict is TmuxVerdict.NOT_REACHED else "the pane was no longer as seen"
    if send_by is not None and send_by.is_over(attempt.clock):
        why = "the time for it was over"
    await attempt.write(Step.REFUSED, why=why)
    return attempt.staged(f"Enter was held back: {why}")


def _nothing_to_see(attempt: PaneAttempt, nothing: NoPane) -> Refused | Unknown:
    if nothing.timed_out:
        return attempt.refused(HoldReason.UNREACHABLE, f"before Enter: {nothing.why}", nothing.cause)
    return attempt.unknown(f"before Enter: {nothing.why}")


APPEARS_WITHIN: Final = 30_000
"""Milliseconds for which a paste that nobody saw land is looked for; programs that draw it 20 s late were tried."""

_GONE: Final = {
    Progress.MAYBE_STAGED: "our text may have been pasted, and never showed",
    Progress.STAGED: "our text stood in the composer and is gone, and the mark is not visible anywhere",
    Progress.MAYBE_SUBMITTED: "Enter may have been pressed, and the mark is not visible anywhere",
}
"""Why nothing can be known of a text that is nowhere."""


async def deliver(attempt: PaneAttempt, last_fingerprint: str) -> AttemptOutcome:
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


async def _from_the_start(attempt: PaneAttempt, first: PaneView, last_fingerprint: str) -> AttemptOutcome:
    if first.verdict.vote is not PresenceState.IDLE:
        return attempt.refused_by(first.verdict)
    if last_fingerprint and last_fingerprint != first.fingerprint:
        return attempt.refused(HoldReason.ACTIVE, "the pane moved since the look that proved it idle", Cause.MOVING)
    return await _stage_and_submit(attempt, first)


async def _go_on(attempt: PaneAttempt, first: PaneView) -> AttemptOutcome:
    """Our text may stand there, or be on its way: look on, and send nothing that may have been sent before."""
    view = await until_it_shows(attempt, first)
    if isinstance(view, NoPane):
        return _no_pane(attempt, view)
    if breach := attempt.breach(view):
        return _another_pane(attempt, view, breach)
    is_first_enter = attempt.wake.progress is not Progress.MAYBE_SUBMITTED
    if is_first_enter and text_location(view, attempt.wake) is TextLocation.ALONE:
        return await _submit_what_stands(attempt, first, view)
    return await judged(attempt, view, if_gone=_gone(attempt, view))


async def _submit_what_stands(attempt: PaneAttempt, first: PaneView, view: PaneView) -> AttemptOutcome:
    if attempt.wake.progress is Progress.MAYBE_STAGED:
        await attempt.write(Step.STAGED, found="standing there")
    if view.obstacles:
        return attempt.staged(view.obstacles[0].told)
    await _rest(view)
    return await submit(attempt, first)


def _gone(attempt: PaneAttempt, view: PaneView) -> Refused | Unknown:
    """The text is nowhere: one that may only be slow to show is waited for, and none is pasted a second time."""
    wake = attempt.wake
    if wake.progress is Progress.MAYBE_STAGED:
        if unread := next((one for one in view.evidence if one.rule == UNREAD_INPUT), None):
            return attempt.staged(f"pasted, but not seen in the composer yet: {unread.told}", Cause.NOT_YET_SHOWN)
        if wake.staged_ago is not None and wake.staged_ago < APPEARS_WITHIN:
            return attempt.staged("pasted, but not seen in the composer yet", Cause.NOT_YET_SHOWN)
    return nowhere(attempt, _GONE[wake.progress], view)


async def _stage_and_submit(attempt: PaneAttempt, first: PaneView) -> AttemptOutcome:
    landed = await stage(attempt, first)
    if not isinstance(landed, PaneView):
        return landed
    await _rest(landed)
    return await submit(attempt, first)


async def _rest(view: PaneView) -> None:
    """The harness's gap between paste and Enter: one that comes too early becomes a line break of the paste."""
    if isinstance(view.agent, PaneAgent):
        await asyncio.sleep(view.agent.profile.paste.gap_ms / 1000)


def _no_pane(attempt: PaneAttempt, nothing: NoPane) -> AttemptOutcome:
    if attempt.wake.progress is Progress.UNTOUCHED or nothing.timed_out:
        return attempt.refused(HoldReason.UNREACHABLE, nothing.why, nothing.cause)
    return attempt.unknown(f"where it was typed there is {nothing.why}")


def _another_pane(attempt: PaneAttempt, view: PaneView, breach: str) -> AttemptOutcome:
    if attempt.wake.progress is not Progress.UNTOUCHED:
        return attempt.unknown(f"{breach}, and the text may have been typed there")
    if isinstance(view.agent, PaneAgent):
        return attempt.refused(HoldReason.UNREACHABLE, breach)
    return attempt.refused_by(view.verdict)
