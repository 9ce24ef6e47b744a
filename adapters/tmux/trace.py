"""Whether a wake of unknown outcome has arrived after all: one look at screen and scrollback (decision 11)."""

from __future__ import annotations

from adapters.tmux.attempt import Attempt
from adapters.tmux.facts import NoPane
from adapters.tmux.fence import NO_PROCESS
from adapters.tmux.ours import Whereabouts, is_in_text, whereabouts
from adapters.tmux.processes import started_at
from adapters.tmux.view import View
from wake_bridge.domain.delivery import Proof
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.adapter import Trace


async def trace(attempt: Attempt) -> Trace:
    """Look for the mark of the attempt's wake; its fence is where the wake was announced, or the pane as it is now.

    A mark that another program left, be it in a composer that nobody can send any more, proves nothing either way.
    """
    view, has_ended = await attempt.look(anew=True), _has_ended(attempt.fence)
    if isinstance(view, NoPane):
        return _unseen(view.why, is_absent=has_ended and not view.timed_out)
    is_theirs = _program_of(view.fence) == _program_of(attempt.fence)
    where = whereabouts(view, attempt.wake)
    if is_theirs and where is Whereabouts.SENT:
        return Trace(Proof.SUBMITTED, "the mark stands in the transcript")
    if is_theirs and where in {Whereabouts.ALONE, Whereabouts.AMONG}:
        return _unseen("our text stands in the composer")
    if where is Whereabouts.UNCLEAR and not has_ended:
        return _unseen(view.verdict.told)
    return await _trace_in_history(attempt, view, is_theirs=is_theirs, has_ended=has_ended)


async def _trace_in_history(attempt: Attempt, view: View, *, is_theirs: bool, has_ended: bool) -> Trace:
    text = await attempt.scrollback()
    if isinstance(text, NoPane):
        return _unseen(f"the scrollback cannot be read: {text.why}")
    if is_in_text(text, attempt.wake):
        if not is_theirs:
            return _unseen("its mark stands in what another program left there")
        after = await attempt.look()
        if isinstance(after, NoPane) or whereabouts(after, attempt.wake) is not Whereabouts.GONE:
            return _unseen("our text has only just come to show")
        return Trace(Proof.SUBMITTED, "the mark stands in the scrollback")
    if has_ended or view.verdict.vote is PresenceState.IDLE:
        return _unseen("the mark is nowhere to be seen", is_absent=True)
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
