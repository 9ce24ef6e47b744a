"""A person types at a random moment of a wake: the draft rule holds in every trial."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from wake_bridge.demo.tmux_server import Typist
from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Place, Refused, Wake
from wake_bridge.testing import until

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Journal, Resident, Scene

QUICK, FULL = 20, 200
AT_ONCE = 10
"""Trials side by side, each with an agent, a session and a client of its own."""


KEY = "|"
"""A key that stands in no wake, nor in the frame around a paste."""


@dataclass
class Trial:
    """One wake, and one key at some moment of it."""

    agent: Resident
    typist: Typist
    journal: Journal
    wake: Wake
    after: Step | None
    """The step from which the moment is counted; None for the beginning."""
    delay: float

    def story(self, outcome: AttemptOutcome) -> str:
        """What became of it; `VIOLATION` if the draft rule was broken."""
        received = self.agent.fake.bytes_received()
        submits, composer = self.agent.fake.submits(), self.agent.composer()
        names = self.journal.names
        if isinstance(outcome, Delivered):
            return "submitted, then the key" if submits == [self.wake.text] and composer == KEY else "VIOLATION"
        if not isinstance(outcome, Refused) or submits:
            return "VIOLATION"
        if "intent_stage" not in names or (names[-1] == "refused" and "staged" not in names):
            return "nothing of ours" if received == KEY.encode() and composer == KEY else "VIOLATION"
        is_reported = outcome.reason is HoldReason.STAGED and b"\r" not in received
        return "staged, unsent" if is_reported and self.wake.mark in composer else "VIOLATION"


async def play(scene: Scene, trial: Trial) -> str:
    place = await scene.adapter.resolve(scene.address(trial.agent.id))
    assert isinstance(place, Place)
    begins, loop = asyncio.Event(), asyncio.get_running_loop()
    if trial.after is None:
        begins.set()
    else:
        trial.journal.on[trial.after] = lambda: loop.call_soon_threadsafe(begins.set)
    attempt = asyncio.create_task(scene.adapter.deliver(place, scene.address(), trial.wake, trial.journal))
    # an attempt that was held for another key never comes that far
    attempt.add_done_callback(lambda _: begins.set())
    await begins.wait()
    await asyncio.sleep(trial.delay)
    await asyncio.to_thread(trial.typist.types, KEY)
    outcome = await attempt
    await asyncio.to_thread(until, lambda: KEY.encode() in trial.agent.fake.bytes_received(), "the key")
    return trial.story(outcome)


@pytest.mark.parametrize(
    "trials",
    [
        QUICK,
        pytest.param(FULL, marks=[pytest.mark.torture, pytest.mark.timeout(1800)]),
    ],
)
def test_a_typist_at_any_moment_never_has_a_word_submitted(scene: Scene, trials: int) -> None:
    """Before the condition the draft is untouched, after it our text is staged; never both submitted."""
    chance = random.Random(4711)
    stories: Counter[str] = Counter()
    for at in range(0, trials, AT_ONCE):
        residents = [scene.resident(f"a{at + n}", session=f"s{at + n}") for n in range(AT_ONCE)]
        typists = [scene.attached(one.id, session=f"s{at + n}") for n, one in enumerate(residents)]
        scene.waits_until_quiet()
        played = [
            Trial(
                resident,
                typist,
                scene.new_journal(),
                scene.wake(),
                chance.choice([None, Step.INTENT_STAGE, Step.STAGED]),
                chance.choice([0.06, 0.6]) * chance.random(),
            )
            for resident, typist in zip(residents, typists, strict=True)
        ]

        async def round_of(trials: list[Trial] = played) -> list[str]:
            return await asyncio.gather(*(play(scene, trial) for trial in trials))

        stories.update(asyncio.run(round_of()))
        for resident in residents:
            resident.fake.shows("exit")
    print(dict(stories))

    assert sum(stories.values()) == trials
    assert stories["VIOLATION"] == 0
    assert stories["staged, unsent"] > 0
