"""What an answer of tmux proves about a check and an act that are one step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tmux.guarded import TmuxVerdict, if_still


class Says:
    """A server with one answer."""

    def __init__(self, answer: CallResult) -> None:
        self.answer = answer

    async def ask(self, *_: object, **__: object) -> CallResult:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (CallResult(1, "", "can't find pane: %1"), TmuxVerdict.NOT_REACHED),
        (CallResult(1, "", ""), TmuxVerdict.SILENT),
        (CallResult(-9, "", ""), TmuxVerdict.SILENT),
        (CallResult(0, "noise", ""), TmuxVerdict.SILENT),
        (CallResult(-9, "", "", timed_out=True), TmuxVerdict.SILENT),
    ],
    ids=["refused with a word", "exit 1 without a word", "killed", "noise", "no answer"],
)
def test_only_a_refusal_in_words_proves_that_nothing_was_pasted(answer: CallResult, verdict: TmuxVerdict) -> None:
    """Exit status proves nothing; a paste whose answer was lost must not pass for one that never was."""
    server: Any = Says(answer)
    assert asyncio.run(if_still(server, "%1", "1", then="paste-buffer")).verdict is verdict
