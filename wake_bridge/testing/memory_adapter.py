"""A channel past the composer into the imagined agents of `memory_adapter`: a harness's own control plane, for tests.

It keeps the contract of native adapters (`wake_bridge.testing.channel_contract`). An agent may stand behind both: what is
typed and what is sent natively ends in the same `received`.

It keeps the same contract as the real ones (`wake_bridge.testing.adapter_contract`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from pydantic import BaseModel

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step
from wake_bridge.domain.names import AttentionKind, Identity, Instant
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Delivered,
    Failed,
    Journal,
    Nowhere,
    Place,
    Refused,
    TargetLimits,
    Trace,
    Unknown,
    Wake,
)

_FENCE: Final = Binding("memory", 1, "$0", "%0", 2, "0", 3, "0")


@dataclass(slots=True)
class ImaginedAgent:
    """What the adapter talks to. `composer` holds staged text, `received` every message submitted.

    `sign` is what it shows of its last turn, in the words of `says`; `last_key` when a person who looks at it typed last. A
    turn whose `turns_fail` with a sign shows it at once, right below what was received.
    """

    state: PresenceState = PresenceState.IDLE
    composer: str = ""
    received: list[str] = field(default_factory=list)
    keys: int = 0
    paper: TargetLimits = field(default_factory=TargetLimits)
    sign: AttentionKind | None = None
    says: str = ""
    turns_fail: AttentionKind | None = None
    last_key: Instant | None = None
    program: str = ""
    failed_wake: str = ""


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
        self.last_keys: dict[str, Instant | None] = {}

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The agent of that name."""
        name = address.pane or address.suggested
        if name not in self.agents:
            return Nowhere(HoldReason.UNREACHABLE, f"there is no agent named {name!r}", name)
        return Place(key=name, label=name, fence=_FENCE, paper=self.agents[name].paper)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """State and composer."""
        self.last_keys |= {name: one.last_key for name, one in self.agents.items()}
        return {place.key: str(self.agents[place.key]) for place in places if place.key in self.agents}

    def last_key_in_front(self, key: str) -> Instant | None:
        """See `PersonSeen.last_key_in_front`; of an agent that is gone too."""
        return self.last_keys.get(key)

    async def observe(self, place: Place, address: Address) -> Observation:
        """The state, as evidence; staged text is a draft."""
        del address
        agent = self.agents[place.key]
        vote = PresenceState.USER_TYPING if agent.composer else agent.state
        evidence = (
            Evidence(
                rule="imagined",
                vote=vote,
                saw=agent.composer,
                region="composer",
                attention=agent.sign,
                text=agent.says,
                wake_id=agent.failed_wake if agent.sign else "",
            ),
        )
        return Observation(
            self._clock.now(),
            evidence,
            fingerprint=f"{vote}{agent.composer}",
            where=place.label,
            capabilities=(agent.program,) if agent.program else (),
        )

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
            return Refused(Evidence("imagined", agent.state).reason, f"the agent is {agent.state}", place.label)
        if agent.composer not in {"", wake.text}:
            return Refused(HoldReason.USER_TYPING, "there is a draft", place.label)
        if not agent.composer:
            await journal(Step.INTENT_STAGE, {})
            agent.composer = wake.text
            agent.keys += 1
            await journal(Step.STAGED, {})
        await journal(Step.INTENT_SUBMIT, {})
        agent.received.append(agent.composer)
        agent.sign, agent.failed_wake = agent.turns_fail, wake.mark if agent.turns_fail else ""
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


Answer = Literal["takes it", "refuses", "fails", "takes it and falls silent", "falls silent"]


@dataclass(slots=True)
class ImaginedLine:
    """One agent's line. `answers` is what comes of the next send; a line that is not open leads nowhere.

    `turn_id` names the running turn while the agent is active. Over a line that is `only_seen` nothing can be sent.
    """

    agent: ImaginedAgent
    is_open: bool = True
    is_loaded: bool = True
    only_seen: bool = False
    turn_id: str = "turn-1"
    answers: Answer = "takes it"
    sends: int = 0


class MemoryChannel:
    """Delivers over the `lines`, by identity; drafts do not concern it."""

    name: ClassVar[str] = "channel"
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_steer=True, guard="turn id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = MemoryConfig

    def __init__(self, config: MemoryConfig, context: AdapterContext) -> None:
        del config
        self._clock = context.clock
        self.lines: dict[Identity, ImaginedLine] = {}

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The identity's line, while it is open."""
        line = self.lines.get(address.identity)
        if line is None or not line.is_open:
            return Nowhere(HoldReason.UNREACHABLE, f"no line to {address.identity} is open")
        key = f"channel:{address.identity}"
        return Place(key=key, label=f"the line of {address.identity}", only_seen=line.only_seen)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """What the line says of the agent."""
        lines = {f"channel:{identity}": line for identity, line in self.lines.items() if line.is_open}
        return {
            one.key: f"{lines[one.key].agent.state} {lines[one.key].is_loaded}" for one in places if one.key in lines
        }

    async def observe(self, place: Place, address: Address) -> Observation:
        """What the agent says of itself; a draft is not among it."""
        line = self.lines[address.identity]
        vote, hold = line.agent.state, None
        if not line.is_open or not line.is_loaded:
            vote, hold = PresenceState.UNKNOWN, HoldReason.NOT_LOADED if line.is_open else HoldReason.UNREACHABLE
        said = Evidence("the line says", vote, source=PresenceSource.CODEX_APP_SERVER, hold=hold)
        turn_id = line.turn_id if vote is PresenceState.ACTIVE else None
        return Observation(
            self._clock.now(), (said,), fingerprint=vote, where=place.label, is_proof=True, active_turn_id=turn_id
        )

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """Send once, after the intent is written; what may have been sent is only looked for."""
        line = self.lines[address.identity]
        if wake.progress in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
            return await self._look_for(line, wake, journal)
        refused = _refusal(line, wake, place.label)
        if refused is not None:
            return refused
        await journal(Step.INTENT_SUBMIT, {})
        line.sends += 1
        if line.answers == "refuses":
            await journal(Step.REFUSED, {})
            return Refused(HoldReason.UNREACHABLE, "the line would not take it", place.label)
        if line.answers == "fails":
            await journal(Step.REFUSED, {})
            return Failed(retryable=True, reason="the line broke before anything was sent")
        if line.answers != "falls silent":
            line.agent.received.append(wake.text)
        if line.answers != "takes it":
            return Failed(retryable=True, reason="the line fell silent")
        await journal(Step.SUBMITTED, {})
        return Delivered(Proof.ACKNOWLEDGED, {"turn": wake.turn_id})

    @staticmethod
    async def _look_for(line: ImaginedLine, wake: Wake, journal: Journal) -> AttemptOutcome:
        if any(wake.mark in text for text in line.agent.received):
            return Delivered(Proof.ACKNOWLEDGED)
        if not line.is_open:
            return Unknown({"why": "the line is closed"})
        await journal(Step.ABSENT, {"why": "the agent's own record does not have it"})
        return Refused(HoldReason.UNREACHABLE, "it never came in")

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """See `Tracer.trace`: by the agent's own record, while the line is open."""
        del place
        line = self.lines[address.identity]
        if any(wake.mark in text for text in line.agent.received):
            return Trace(Proof.ACKNOWLEDGED, "the agent's own record has it")
        rests = line.is_open and line.agent.state is PresenceState.IDLE
        return Trace(Proof.NONE, "the record does not have it" if rests else "no rest is to be seen", is_absent=rests)

    async def probe(self) -> Sequence[tuple[str, bool | None, str, str]]:
        """Nothing can be wrong with it."""
        return []


def _refusal(line: ImaginedLine, wake: Wake, where: str) -> Refused | None:
    """Why nothing may be sent now; None when it may."""
    state = line.agent.state
    if not line.is_open or line.only_seen:
        return Refused(HoldReason.UNREACHABLE, "the line is closed", where)
    if not line.is_loaded and not wake.may_start_thread:
        return Refused(HoldReason.NOT_LOADED, "nobody has the conversation open", where)
    is_steered = state is PresenceState.ACTIVE and wake.turn_id == line.turn_id
    if state is not PresenceState.IDLE and not is_steered:
        return Refused(Evidence("the line says", state).reason, f"the agent is {state}", where)
    return None
