"""A screen on which a test says what is to be seen: for adapters that go past it, and must know who is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel

from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.ports.adapter import AttemptOutcome, HarnessAdapter, Journal, Nowhere, Place, Refused, Wake
from wake_bridge.ports.adapter import Check as CheckOf
from wake_bridge.ports.clock import Clock


class PlayedScreen:
    """One pane with one program.

    Attributes:
        harness: what is recognised there.
        title: what the program calls its window.
        agent_pid: its process, 0 where it has quit.
        vote: what the screen speaks for.
        owner: whose it is.
    """

    name: ClassVar[str] = "played-screen"
    capabilities: ClassVar[Capabilities] = Capabilities()
    Config: ClassVar[type[BaseModel]] = BaseModel

    def __init__(self, owner: Identity, harness: str, clock: Clock) -> None:
        self.owner = owner
        self.harness = harness
        self.title = ""
        self.agent_pid = 0
        self.vote = PresenceState.IDLE
        self._clock = clock

    def of(self, identity: Identity) -> HarnessAdapter | None:
        """Who sees the identity's screen."""
        return self if identity == self.owner else None

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The pane."""
        del address
        fence = Binding("socket", 1, "$0", "%0", 1, "1", self.agent_pid, "1")
        return Place("socket:1:%0", "agents:0.0", fence)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """Changes with the title."""
        return {place.key: f"{self.title} {self.agent_pid}" for place in places}

    async def observe(self, place: Place, address: Address) -> Observation:
        """What the test says."""
        del address
        seen = Evidence("played", self.vote, region="screen")
        return Observation(self._clock.now(), (seen,), self.title, place.label, (self.harness,), title=self.title)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """Nothing is typed here."""
        del address, wake, journal
        raise AssertionError(f"{place.label} is only to be looked at: {Refused}")

    async def probe(self) -> Sequence[CheckOf]:
        """Nothing to say."""
        return []
