"""Whatever a line and a pane do, in any order: every wake arrives once, or is told to be unknown."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wake_bridge.domain.delivery import DeliveryState, Outcome
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import AttemptOutcome
from wake_bridge.testing.memory_adapter import Answer, ImaginedLine
from wake_bridge.testing.office import Office

ADA: Final = Identity("@ada")
ANSWERS: Final[list[Answer]] = ["takes it", "refuses", "fails", "takes it and falls silent", "falls silent"]
BUSY: Final = {PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL}
STATES: Final = [PresenceState.IDLE, PresenceState.IDLE, *sorted(BUSY)]


class Scene(NamedTuple):
    """How things are for a while, and whether mail comes or the daemon is started anew at its beginning."""

    answers: Answer
    is_open: bool
    is_loaded: bool
    only_seen: bool
    natively: PresenceState
    on_screen: PresenceState
    seconds: int
    mail: bool
    restarts: bool


SCENES: Final = st.lists(
    st.builds(
        Scene,
        answers=st.sampled_from(ANSWERS),
        is_open=st.booleans(),
        is_loaded=st.integers(0, 3).map(bool),
        only_seen=st.integers(0, 3).map(lambda dice: dice == 0),
        natively=st.sampled_from(STATES),
        on_screen=st.sampled_from(STATES),
        seconds=st.integers(2, 90),
        mail=st.booleans(),
        restarts=st.integers(0, 5).map(lambda dice: dice == 0),
    ),
    min_size=1,
    max_size=8,
)


class Watched:
    """An office whose pane reports what is typed while the agent itself says that it is busy."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.pane = office.agent("ada")
        self.line = office.line(ADA, "ada natively")
        self.typed_over: list[str] = []
        typing = office.adapter.deliver

        async def deliver(place: Any, address: Any, wake: Any, journal: Any) -> AttemptOutcome:
            if _says_busy(self.line) and wake.progress.value == "untouched":
                self.typed_over.append(wake.mark)
            return await typing(place, address, wake, journal)

        office.adapter.deliver = deliver  # type: ignore[method-assign]

    async def plays(self, scene: Scene) -> None:
        if scene.restarts:
            await self.office.restarts()
        if scene.mail:
            self.office.core.send("@me", ADA, "news")
        line = self.line
        line.answers, line.is_open, line.is_loaded = scene.answers, scene.is_open, scene.is_loaded
        line.only_seen, line.agent.state, self.pane.state = scene.only_seen, scene.natively, scene.on_screen
        await self.passes(scene.seconds)

    async def passes(self, seconds: int) -> None:
        await self.office.reads()
        await self.office.works()
        self.office.clock.turn(seconds * 1000)
        await self.office.recovery.tick()


def _says_busy(line: ImaginedLine) -> bool:
    return line.is_open and line.is_loaded and line.agent.state in BUSY


async def _story(directory: Path, scenes: list[Scene]) -> None:
    async with Office(directory, ["@me", ADA], channels=("channel",), start=int(time.time() * 1000)) as office:
        office.subscribe(ADA, pane="ada")
        await office.reads()
        watched = Watched(office)
        for scene in scenes:
            await watched.plays(scene)
        quiet = Scene("takes it", True, True, False, PresenceState.IDLE, PresenceState.IDLE, 60, False, False)
        for _ in range(8):
            await watched.plays(quiet)

        assert watched.typed_over == []
        texts = [*watched.line.agent.received, *watched.pane.received]
        for one in office.deliveries(ADA):
            arrived = sum(one.id in text for text in texts)
            assert one.state.is_terminal, one
            if one.outcome is Outcome.SUBMITTED:
                assert arrived == 1, one
            elif one.outcome is Outcome.UNKNOWN:
                assert arrived <= 1, one
            else:
                assert (one.state, arrived) == (DeliveryState.DELIVERED, 0), one
        assert office.ledger.degraded(ADA) == {}


def _played(scenes: list[Scene]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_story(Path(directory), scenes))


@settings(max_examples=15)
@given(scenes=SCENES)
def test_every_wake_arrives_once_whatever_its_routes_do(scenes: list[Scene]) -> None:
    """Never after bytes may have been accepted, never into a busy agent's pane, and never lost."""
    _played(scenes)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@settings(max_examples=1000)
@given(scenes=SCENES)
def test_the_same_for_many_stories(scenes: list[Scene]) -> None:
    """The same, a thousand times over."""
    _played(scenes)
