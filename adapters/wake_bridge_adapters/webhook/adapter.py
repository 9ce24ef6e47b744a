"""The webhook adapter: one wake is one signed POST to the receiver that the subscription names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Proof, Step
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.receivers import WEBHOOK, Receiver, ReceiverAnswer, answer_of
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
    Posted,
    TargetLimits,
    Wake,
    config_from,
)
from wake_bridge_adapters.webhook.addresses import (
    Allowed,
    Forbidden,
    Unresolved,
    literal,
    require_public,
)
from wake_bridge_adapters.webhook.post import NOT_INSTALLED, NotSent, Sender, Unanswered

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.webhook.table import WebhookConfig

_LIMITS: Final = TargetLimits(takes_envelopes=True)
_SUCCESS: Final = range(200, 300)


class WebhookAdapter:
    """Posts wakes. The receiver decides about presence: nothing is looked at before."""

    name: ClassVar[str] = WEBHOOK
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True,
        can_start=True,
        guard="receiver",
        ack_kind="2xx",
        idempotent=True,
        watchable=False,
        presence_independent=True,
        per_subscription=True,
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.webhook.table:WebhookConfig")
    label: ClassVar[str] = ""

    def __init__(self, config: WebhookConfig, context: AdapterContext) -> None:
        self._allowed = Allowed.of(config.allow)
        self._clock = context.clock
        self._sender = Sender(self._allowed, context.timeout)

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system; empty where it can."""
        del environment
        return "" if find_spec("httpx2") and find_spec("standardwebhooks") else NOT_INSTALLED

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The receiver of this very wake; what can be told without looking its name up is told here."""
        receiver = address.receiver
        if receiver is None:
            return Nowhere(HoldReason.UNREACHABLE, "none of its subscriptions names a receiver")
        why = self.unavailable({}) or receiver.problem
        if why:
            return Nowhere(HoldReason.UNREACHABLE, why, receiver.shown, Cause.RECEIVER_FORBIDDEN)
        try:
            self._require_allowed(receiver.url.reveal())
        except Forbidden as refused:
            return Nowhere(HoldReason.UNREACHABLE, str(refused), receiver.shown, Cause.RECEIVER_FORBIDDEN)
        return Place(receiver.place_key, receiver.shown, paper=_LIMITS)

    def _require_allowed(self, url: str) -> None:
        from urllib.parse import urlsplit  # noqa: PLC0415

        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "http" and not self._allowed.has_host(host):
            raise Forbidden(f'{host} is asked without TLS: `[adapters.webhook] allow = ["{host}"]` allows it')
        if (address := literal(host)) is not None:
            require_public(host, [address], self._allowed)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """Nothing can be seen of a receiver without posting to it."""
        return dict.fromkeys((one.key for one in places), "-")

    async def observe(self, place: Place, address: Address) -> Observation:
        """The receiver decides about presence."""
        del address
        seen = Evidence(
            "receiver-decides",
            PresenceState.UNKNOWN,
            "it is posted to whatever presence says",
            place.label,
            PresenceSource.A2A_WEBHOOK,
        )
        return Observation(self._clock.now(), (seen,), where=place.label)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One POST of the frozen envelope; the journal says beforehand that it may have been sent."""
        receiver = address.receiver
        if receiver is None or receiver.place_key != place.key:
            return Failed(retryable=True, reason="its subscription no longer names this receiver")
        if not wake.may_begin:
            return NotTaken(ReceiverAnswer.TRANSIENT, "waking is switched off")
        event_id = str(json.loads(wake.text)["eventId"])
        await journal(Step.INTENT_SUBMIT, {"eventId": event_id, "where": place.label})
        try:
            reply = await self._sender.post(receiver, wake.text, self._clock.wall())
        except Forbidden as refused:
            await journal(Step.REFUSED, {"why": str(refused)})
            return NotTaken(ReceiverAnswer.UNWELCOME, str(refused))
        except (NotSent, Unresolved) as unsent:
            await journal(Step.REFUSED, {"why": str(unsent)})
            return NotTaken(ReceiverAnswer.TRANSIENT, str(unsent))
        except Unanswered as lost:
            return NotTaken(ReceiverAnswer.TRANSIENT, f"{lost}, and it may have arrived")
        said = f"HTTP {reply.status}"
        if reply.status in _SUCCESS:
            await journal(Step.SUBMITTED, {"status": str(reply.status), "eventId": event_id})
            return Delivered(Proof.SUBMITTED, {"proof": f"{place.label} answered {said}", "eventId": event_id})
        answer = answer_of(reply.status)
        if answer is not ReceiverAnswer.TRANSIENT:
            await journal(Step.REFUSED, {"why": said})
        return NotTaken(answer, said, reply.wish)

    async def post_message(self, receiver: Receiver, body: str) -> Posted:
        """See `MessagePoster.post_message`: whatever the network says of the URL stays here."""
        try:
            self._require_allowed(receiver.url.reveal())
            reply = await self._sender.post(receiver, body, self._clock.wall())
        except Forbidden:
            return Posted("its address is not public, or has no TLS: `[adapters.webhook] allow` can allow it")
        except Unresolved:
            return Posted("its host leads nowhere")
        except NotSent:
            return Posted("it cannot be connected to")
        except Unanswered:
            return Posted("it did not answer, and it may have arrived", is_unknown=True)
        return Posted() if reply.status in _SUCCESS else Posted(f"HTTP {reply.status}", wish=reply.wish)

    async def probe(self) -> Sequence[Check]:
        """Nothing is posted to see whether somebody answers."""
        return []
