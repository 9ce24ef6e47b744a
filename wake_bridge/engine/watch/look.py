"""The presence of one identity, for a person who asks (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wake_bridge.domain.delivery import Hold, HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Presence, PresenceSource, PresenceState
from wake_bridge.domain.routing import Capabilities, Prospect
from wake_bridge.engine.settings import Current
from wake_bridge.engine.watch.prospects import Prospects
from wake_bridge.engine.watch.routes import Routes
from wake_bridge.engine.watch.watch import Watch
from wake_bridge.ports.clock import Clock


@dataclass(frozen=True, slots=True)
class Seen:
    """How an identity stands: the presence by which a wake would be decided now, and the adapter it comes from.

    `capabilities` are what that adapter can do, None where none was asked. `others` are the routes that were asked before it, in order, each with what it showed or why it led nowhere.
    """

    presence: Presence
    adapter: str = ""
    others: Sequence[Prospect] = ()
    capabilities: Capabilities | None = None


async def presence_of(identity: Identity, routes: Routes, watch: Watch, current: Current, clock: Clock) -> Seen:
    """Look where a wake would be decided now; a second time, 1.5 s later, when one look cannot prove idle.

    An identity that nothing leads to is `unknown`, and the evidence says why.
    """
    prospects = Prospects(identity, routes, watch, current, clock, patient=True)
    if not prospects.all:
        return Seen(_unknown(Hold(HoldReason.NO_ADAPTER, routes.missing(identity)), clock))
    verdict = await prospects.look_on()
    asked = [one for one in prospects.all if one.presence is not None or one.nowhere is not None]
    deciding = prospects.at(verdict.route) if verdict.route is not None else None
    others = [one for one in asked if one is not deciding]
    if deciding is not None and deciding.presence is not None:
        return Seen(deciding.presence, deciding.route.adapter, others, deciding.route.capabilities)
    why = verdict.decision if isinstance(verdict.decision, Hold) else Hold(HoldReason.UNKNOWN)
    for one in asked:
        if one.presence is not None and (
            one.presence.state is not PresenceState.UNKNOWN or one.presence.hold is why.reason
        ):
            rest = [other for other in asked if other is not one]
            return Seen(one.presence, one.route.adapter, rest, one.route.capabilities)
    return Seen(_unknown(why, clock), others=others)


def _unknown(why: Hold, clock: Clock) -> Presence:
    seen = Evidence(rule=why.reason, vote=PresenceState.UNKNOWN, saw=why.detail, region="target", hold=why.reason)
    return Presence(
        PresenceState.UNKNOWN,
        PresenceSource.UNKNOWN,
        clock.now(),
        (seen,),
        why.reason,
        why.detail,
        why.where,
        decided_by=seen,
    )
