"""The heartbeat adapter: passes its text to the adapter that reaches the identity.

It never types by itself: looks, gate, locks and journal are its carrier's, and so the two can never be in a pane at once.
When it is time for a nudge, and what that says, is the engine's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from wake_bridge.domain.delivery import HoldReason, Proof
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Failed,
    HarnessAdapter,
    Journal,
    Nowhere,
    Place,
    Trace,
    Tracer,
    Wake,
    config_from,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import HeartbeatConfig


class HeartbeatAdapter:
    """Brings nudges to identities that nothing else serves, through their own adapter."""

    name: ClassVar[str] = "heartbeat"
    capabilities: ClassVar[Capabilities] = Capabilities(guard="carrier", ack_kind="carrier", last_resort=True)
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:HeartbeatConfig")

    def __init__(self, config: HeartbeatConfig, context: AdapterContext) -> None:
        del config
        self._clock = context.clock
        self._carrier_of: Callable[[Identity], HarnessAdapter | None] = lambda _: None
        self._carriers: dict[str, HarnessAdapter] = {}

    def ride_on(self, carrier_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """See `Carried.ride_on`."""
        self._carrier_of = carrier_of

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The place its carrier finds, under the same key: locks and limits count both drivers together."""
        carrier = self._carrier_of(address.identity)
        if carrier is None:
            return Nowhere(HoldReason.NO_ADAPTER, _nobody(address.identity))
        found = await carrier.resolve(address)
        if isinstance(found, Place):
            self._carriers[found.key] = carrier
        return found

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """Each carrier surveys its own."""
        signs: dict[str, str] = {}
        watched = {place.key for place in places}
        self._carriers = {key: carrier for key, carrier in self._carriers.items() if key in watched}
        for carrier in {id(one): one for one in self._carriers.values()}.values():
            theirs = [place for place in places if self._carriers.get(place.key) is carrier]
            signs |= await carrier.survey(theirs) if theirs else {}
        return signs

    async def observe(self, place: Place, address: Address) -> Observation:
        """What its carrier sees."""
        carrier = self._carrier_of(address.identity)
        if carrier is None:
            gone = Evidence(
                "no-carrier", PresenceState.UNKNOWN, saw=_nobody(address.identity), hold=HoldReason.NO_ADAPTER
            )
            return Observation(self._clock.now(), (gone,), where=place.label)
        return await carrier.observe(place, address)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt of its carrier, with the same lock, conditions and journal as every other wake."""
        carrier = self._carrier_of(address.identity)
        if carrier is None:
            return Failed(retryable=True, reason=_nobody(address.identity))
        return await carrier.deliver(place, address, wake, journal)

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """What its carrier finds of it."""
        carrier = self._carrier_of(address.identity)
        if carrier is None:
            return Trace(Proof.NONE, _nobody(address.identity))
        if not isinstance(carrier, Tracer):
            return Trace(Proof.NONE, f"the adapter {carrier.name}, which sent it, cannot look for it")
        return await carrier.trace(place, address, wake)

    async def probe(self) -> Sequence[tuple[str, bool | None, str, str]]:
        """It is as well as its carriers are."""
        return []


def _nobody(identity: Identity) -> str:
    return f"no adapter with a surface of its own reaches {identity}"
