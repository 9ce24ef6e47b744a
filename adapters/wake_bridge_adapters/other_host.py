"""The ssh adapter: one wake is handed to the daemon of the host where the agent lives, over the link to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Proof, Step
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.receivers import HOST, ReceiverAnswer, answer_of
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    Delivered,
    Failed,
    Journal,
    NotTaken,
    Nowhere,
    Place,
    TargetLimits,
    Wake,
    config_from,
)
from wake_bridge.ports.hosts import HostLinks, NotSentThere, UnansweredThere

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import OtherHostConfig

_LIMITS: Final = TargetLimits(takes_envelopes=True)
_SUCCESS: Final = range(200, 300)


class OtherHostAdapter:
    """Hands wakes over. The daemon over there decides about presence, by its own rules."""

    name: ClassVar[str] = HOST
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True,
        can_start=True,
        guard="the daemon of the other host",
        ack_kind="on the disk of the other host",
        idempotent=True,
        watchable=False,
        presence_independent=True,
        per_subscription=True,
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:OtherHostConfig")

    def __init__(self, config: OtherHostConfig, context: AdapterContext) -> None:
        del config
        self._clock = context.clock
        self._links: HostLinks | None = None

    def serve_hosts(self, links: HostLinks) -> None:
        """See `HostServed.serve_hosts`."""
        self._links = links

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The daemon of the host, if the link to it is up."""
        receiver = address.receiver
        if receiver is None:
            return Nowhere(HoldReason.UNREACHABLE, "it lives on this host")
        why = self._links.why_away(receiver.host) if self._links is not None else "no daemon runs here"
        if why:
            return Nowhere(HoldReason.HOST_AWAY, why, receiver.shown, Cause.HOST_AWAY)
        return Place(receiver.place_key, receiver.shown, paper=_LIMITS)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """The daemon over there looks at its agents itself."""
        return dict.fromkeys((one.key for one in places), "-")

    async def observe(self, place: Place, address: Address) -> Observation:
        """The daemon over there decides about presence."""
        del address
        saw = "its daemon is handed the wake whatever presence says"
        seen = Evidence("host-decides", PresenceState.UNKNOWN, saw, place.label, PresenceSource.UNKNOWN)
        return Observation(self._clock.now(), (seen,), where=place.label)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """Hand the frozen envelope over once; the journal says beforehand that it may be there."""
        receiver = address.receiver
        if receiver is None or receiver.place_key != place.key or self._links is None:
            return Failed(retryable=True, reason="it no longer lives there")
        if not wake.may_begin:
            return NotTaken(ReceiverAnswer.TRANSIENT, "waking is switched off")
        event_id = str(json.loads(wake.text)["eventId"])
        await journal(Step.INTENT_SUBMIT, {"eventId": event_id, "where": place.label})
        try:
            reply = await self._links.hand_over(receiver.host, wake.text)
        except NotSentThere as unsent:
            await journal(Step.REFUSED, {"why": str(unsent)})
            return NotTaken(ReceiverAnswer.TRANSIENT, str(unsent))
        except UnansweredThere as lost:
            return NotTaken(ReceiverAnswer.TRANSIENT, f"{lost}, and it may have arrived")
        if reply.status in _SUCCESS:
            await journal(Step.SUBMITTED, {"status": str(reply.status), "eventId": event_id})
            return Delivered(Proof.SUBMITTED, {"proof": f"{place.label} has it in its ledger", "eventId": event_id})
        answer, said = answer_of(reply.status), f"{reply.status}: {reply.why}" if reply.why else str(reply.status)
        if answer is not ReceiverAnswer.TRANSIENT:
            await journal(Step.REFUSED, {"why": said})
        return NotTaken(answer, said)

    async def probe(self) -> Sequence[Check]:
        """`doctor` asks the daemon how its links stand."""
        return []
