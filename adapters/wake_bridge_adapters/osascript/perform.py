"""Performing a plan: the journal before the act, the act, a look at what came of it, and everything put back."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from wake_bridge.ports.adapter import AttemptOutcome, Journal
from wake_bridge_adapters.osascript.plan import Act, Do, Report, Task, begin, clean_up, follow
from wake_bridge_adapters.osascript.scripting import ScreenReading, Trouble, evidence_of, same_text


class Hands(Protocol):
    """One surface's scripts. Every act carries its own check inside one script."""

    async def look(self, mark: str = "") -> ScreenReading | Trouble:
        """One look; `mark` is searched for outside the composer."""

    async def carry_out(self, act: Act, text: str, seen: ScreenReading) -> Report:
        """One act that is no look. `seen` is the latest sight: what the script must still find."""


LOOKS: Final = {Act.LOOK, Act.LOOK_AT_TAB, Act.READ_BACK, Act.SEE_IT_GO}
SHOWS_WITHIN: Final = 3.0
"""Seconds in which a key's effect is waited for."""

_BETWEEN_LOOKS: Final = 0.3
_GAP: Final = 0.4
"""Seconds between the paste and Return: one that comes too early becomes a line break of the paste."""


async def perform(task: Task, hands: Hands, mark: str, journal: Journal, typing_quiet: float) -> AttemptOutcome:
    """One attempt from its first look to its outcome; clipboard and front application are put back whatever happens."""
    move, standing = begin(task)
    seen: ScreenReading | None = None
    acts: list[Act] = []
    try:
        while isinstance(move, Do):
            for step in move.journal:
                await journal(step, {"surface": str(task.surface)})
            acts.append(move.act)
            standing = standing.after(move.act)
            report = await _report(move.act, task, hands, mark, seen)
            seen = report.sight or seen
            votes = evidence_of(report.sight, typing_quiet) if report.sight else ()
            move, standing = follow(task, standing, report, votes)
    finally:
        await _put_back(acts, hands, task.text, seen)
    for step in move.journal:
        await journal(step, {"surface": str(task.surface)})
    return move.outcome


async def _report(act: Act, task: Task, hands: Hands, mark: str, seen: ScreenReading | None) -> Report:
    if act in {Act.LOOK, Act.LOOK_AT_TAB}:
        return _looked(act, await hands.look(mark))
    if act in LOOKS:
        return await _watch(act, task, hands, mark)
    if act is Act.RETURN:
        await asyncio.sleep(_GAP)
    return await hands.carry_out(act, task.text, seen or ScreenReading(composer=None))


async def _watch(act: Act, task: Task, hands: Hands, mark: str) -> Report:
    """Look until the key's effect shows, or the time for it is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SHOWS_WITHIN
    while True:
        report = _looked(act, await hands.look(mark))
        if report.sight is None or _shows(act, report.sight, task) or loop.time() > deadline:
            return report
        await asyncio.sleep(_BETWEEN_LOOKS)


def _shows(act: Act, sight: ScreenReading, task: Task) -> bool:
    stands = sight.composer is not None and same_text(sight.composer, task.text)
    return stands if act is Act.READ_BACK else sight.has_mark or (sight.composer is not None and not stands)


def _looked(act: Act, found: ScreenReading | Trouble) -> Report:
    return Report(act, trouble=found) if isinstance(found, Trouble) else Report(act, sight=found)


async def _put_back(acts: list[Act], hands: Hands, text: str, seen: ScreenReading | None) -> None:
    for act in clean_up(acts):
        await hands.carry_out(act, text, seen or ScreenReading(composer=None))
