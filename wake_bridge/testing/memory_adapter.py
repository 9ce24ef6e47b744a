"""An adapter without a surface: one imagined agent that can be put into any state. For tests of the engine.

It keeps the same contract as the real ones (`wake_bridge.testing.adapter_contract`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pydantic import BaseModel

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Delivered,
    Journal,
    Nowhere,
    Paper,
    Place,
    Refused,
    Trace,
    Unknown,
    Wake,
)

IMAGINED_HOLDS: Final = {
    PresenceState.ACTIVE: HoldReason.ACTIVE,
    PresenceState.USER_TYPING: HoldReason.USER_TYPING,
    PresenceState.WAITING_ON_APPROVAL: HoldReason.WAITING_ON_APPROVAL,
    PresenceState.UNKNOWN: HoldReason.UNKNOWN,
}
_FENCE: Final = Binding("memory", 1, "$0", "%0", 2, "0", 3, "0")


@dataclass(slots=True)
class ImaginedAgent:
    """What the adapter talks to. `composer` holds staged text, `received` every message submitted."""

    state: PresenceState = PresenceState.IDLE
    composer: str = ""
    received: list[str] = field(default_factory=list)
    keys: int = 0
    paper: Paper = field(default_factory=Paper)


class MemoryConfig(BaseModel):
    """It has no settings."""


class MemoryAdapter:
    """Delivers to the agents in `agents`, by the name in an address's `pane`."""

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities()
    Config: ClassVar[type[BaseModel]] = MemoryConfig

    def __init__(self, config: MemoryConfig, context: AdapterContext) -> None:
        del config
        self._clock = context.clock
        self.agents: dict[str, ImaginedAgent] = {}

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The agent of that name."""
        name = address.pane or address.suggested
        if name not in self.agents:
            return Nowhere(HoldReason.UNREACHABLE, f"there is no agent named {name!r}", name)
        return Place(key=name, label=name, fence=_FENCE, paper=self.agents[name].paper)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """State and composer."""
        return {place.key: str(self.agents[place.key]) for place in places if place.key in self.agents}

    async def observe(self, place: Place, address: Address) -> Observation:
        """The state, as evidence; staged text is a draft."""
        del address
        agent = self.agents[place.key]
        vote = PresenceState.USER_TYPING if agent.composer else agent.state
        evidence = (Evidence(rule="imagined", vote=vote, saw=agent.composer, region="composer"),)
        return Observation(self._clock.now(), evidence, fingerprint=f"{vote}{agent.composer}", where=place.label)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """Stage and submit, each after its intent is written; go on from what the journal knew."""
        del address
        agent = self.agents[place.key]
        may_be_sent = wake.progress in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}
        if may_be_sent and any(wake.mark in text for text in agent.received):
            return Delivered(Proof.SUBMITTED)
        if may_be_sent and agent.composer == wake.text:
            return Refused(
                HoldReason.STAGED, "Enter may have been pressed, and the text still stands there", place.label
            )
        if wake.progress is not Progress.UNTOUCHED and agent.composer != wake.text:
            return Unknown({"why": "the mark is nowhere"})
        if agent.state is not PresenceState.IDLE:
            return Refused(IMAGINED_HOLDS[agent.state], f"the agent is {agent.state}", place.label)
        if agent.composer not in {"", wake.text}:
            return Refused(HoldReason.USER_TYPING, "there is a draft", place.label)
        if not agent.composer:
            await journal(Step.INTENT_STAGE, {})
            agent.composer = wake.text
            agent.keys += 1
            await journal(Step.STAGED, {})
        await journal(Step.INTENT_SUBMIT, {})
        agent.received.append(agent.composer)
        agent.composer = ""
        agent.keys += 1
        await journal(Step.SUBMITTED, {})
        return Delivered(Proof.SUBMITTED)

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """See `Tracer.trace`: among what the agent received; absent only while it rests with an empty composer."""
        del address
        agent = self.agents.get(place.key)
        if agent is None:
            return Trace(Proof.NONE, "there is no such agent")
        if any(wake.mark in text for text in agent.received):
            return Trace(Proof.SUBMITTED, "the mark stands in the transcript")
        rests = agent.state is PresenceState.IDLE and not agent.composer
        return Trace(Proof.NONE, "the mark is nowhere" if rests else f"the agent is {agent.state}", is_absent=rests)

    async def probe(self) -> Sequence[tuple[str, bool | None, str, str]]:
        """Nothing can be wrong with it."""
        return []
