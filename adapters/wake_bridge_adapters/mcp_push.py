"""The MCP push adapter: one wake is one notification to the agent's own MCP client, over the server that it has started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Progress, Proof, Step
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.receivers import PUSH
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    Delivered,
    Journal,
    Nowhere,
    Place,
    Refused,
    TargetLimits,
    Trace,
    Unknown,
    Wake,
    config_from,
)
from wake_bridge.ports.sessions import PushChannel, PushClient

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import McpPushConfig

_LIMITS: Final = TargetLimits(takes_envelopes=True)


class McpPushAdapter:
    """Pushes wakes. The client decides about presence; whether its agent acts on them, the engine looks at afterwards."""

    name: ClassVar[str] = PUSH
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True,
        can_start=True,
        guard="client",
        ack_kind="mail read or a turn begun",
        watchable=False,
        presence_independent=True,
        per_subscription=True,
        needs_sign=True,
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:McpPushConfig")

    def __init__(self, config: McpPushConfig, context: AdapterContext) -> None:
        del config
        self._clock = context.clock
        self._pushes: PushChannel | None = None

    def serve_pushes(self, pushes: PushChannel) -> None:
        """See `PushServed.serve_pushes`."""
        self._pushes = pushes

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The client that takes pushes for the identity now."""
        if address.receiver is None:
            return Nowhere(HoldReason.UNREACHABLE, "no subscription of it asks for pushes")
        client = self._client(address)
        if client is None:
            why = f"no MCP client of {address.identity} takes wakes now"
            return Nowhere(HoldReason.UNREACHABLE, why, address.receiver.shown, Cause.NO_MCP_CLIENT)
        return Place(address.receiver.place_key, client.told, _fence_of(client), paper=_LIMITS)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """Nothing can be seen of a client."""
        return dict.fromkeys((one.key for one in places), "-")

    async def observe(self, place: Place, address: Address) -> Observation:
        """The client decides about presence."""
        del address
        saw = "it is pushed to whatever presence says"
        seen = Evidence("client-decides", PresenceState.UNKNOWN, saw, place.label, PresenceSource.MCP_CLIENT)
        return Observation(self._clock.now(), (seen,), where=place.label)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One notification, once; what may have been sent is never sent again."""
        if wake.progress is not Progress.UNTOUCHED:
            return Unknown({"why": "a client does not tell what it was given"})
        client = self._client(address)
        if client is None or self._pushes is None or not wake.may_begin:
            return Refused(HoldReason.UNREACHABLE, "no MCP client takes wakes now", place.label, Cause.NO_MCP_CLIENT)
        envelope = json.loads(wake.text)
        if envelope["eventType"] not in client.events:
            why = f"its MCP client takes no {envelope['eventType']}"
            return Refused(HoldReason.UNREACHABLE, why, place.label, Cause.NO_MCP_CLIENT)
        await journal(Step.INTENT_SUBMIT, {"eventId": envelope["eventId"], "where": client.told})
        is_written = await self._pushes.push(address.identity, wake.mark, wake.text)
        if is_written is False:
            await journal(Step.REFUSED, {"why": "the client's server took nothing"})
            why = "the MCP server of its client did not take the wake"
            return Refused(HoldReason.UNREACHABLE, why, place.label, Cause.NO_MCP_CLIENT)
        if is_written is None:
            return Unknown({"why": "its server did not say that it was written"})
        return Delivered(Proof.ACCEPTED, {"by": f"written to {client.told}", "eventId": envelope["eventId"]})

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """Nothing shows what a client holds; whether the agent acts is seen elsewhere."""
        del place, address, wake
        return Trace(Proof.NONE, "a client does not show what it was given", is_absent=True)

    async def probe(self) -> Sequence[Check]:
        """Who is connected, the daemon knows."""
        return []

    def _client(self, address: Address) -> PushClient | None:
        return self._pushes.client_of(address.identity) if self._pushes is not None else None


def _fence_of(client: PushClient) -> Binding:
    """Which connection it was."""
    return Binding(
        socket=PUSH,
        server_pid=0,
        session_id=client.connection,
        pane_id="",
        pane_pid=client.pid,
        pane_started="",
        agent_pid=client.pid,
        agent_started="",
    )
