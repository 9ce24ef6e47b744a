"""The presence of one identity, for a person who asks (DESIGN §5)."""

from __future__ import annotations

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Presence, PresenceSource, PresenceState
from wake_bridge.engine.watch.routes import Routes
from wake_bridge.engine.watch.watch import Watch
from wake_bridge.ports.adapter import Nowhere
from wake_bridge.ports.clock import Clock


async def presence_of(identity: Identity, routes: Routes, watch: Watch, clock: Clock) -> Presence:
    """Look at the identity's place now; a second time, 1.5 s later, when one look cannot prove idle.

    An identity that nothing leads to is `unknown`, and the evidence says why.
    """
    leading = routes.of(identity)
    if not leading:
        return _unknown(HoldReason.NO_ADAPTER, routes.missing(identity), "", clock)
    route = leading[0]
    place = await watch.locate(route)
    if isinstance(place, Nowhere):
        return _unknown(place.reason, place.detail, place.where, clock)
    presence = await watch.look(route, place)
    return await watch.look_twice(route, place) if presence.wants_second_look else presence


def _unknown(reason: HoldReason, detail: str, where: str, clock: Clock) -> Presence:
    seen = Evidence(rule=reason, vote=PresenceState.UNKNOWN, saw=detail, region="target", hold=reason)
    return Presence(
        PresenceState.UNKNOWN, PresenceSource.UNKNOWN, clock.now(), (seen,), reason, detail, where, decided_by=seen
    )
