"""What an answer of tmux proves about a check and an act that are one step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from wake_bridge_adapters.bounded_call import Answer
from wake_bridge_adapters.tmux.guarded import Verdict, if_still


class Says:
    """A server with one answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def ask(self, *_: object, **__: object) -> Answer:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer(1, "", "can't find pane: %1"), Verdict.NOT_REACHED),
        (Answer(1, "", ""), Verdict.SILENT),
        (Answer(-9, "", ""), Verdict.SILENT),
        (Answer(0, "noise", ""), Verdict.SILENT),
        (Answer(-9, "", "", timed_out=True), Verdict.SILENT),
    ],
    ids=["refused with a word", "exit 1 without a word", "killed", "noise", "no answer"],
)
def test_only_a_refusal_in_words_proves_that_nothing_was_pasted(answer: Answer, verdict: Verdict) -> None:
    """Exit status proves nothing; a paste whose answer was lost must not pass for one that never was."""
    server: Any = Says(answer)
    assert asyncio.run(if_still(server, "%1", "1", then="paste-buffer")).verdict is verdict
