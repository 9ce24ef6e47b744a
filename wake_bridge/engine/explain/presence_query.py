"""Where an identity can be woken, and its presence there, for a person who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.homes import Reach
from wake_bridge.domain.names import EPOCH_START, Identity, WakePolicy
from wake_bridge.domain.presence import Evidence, Presence, PresenceSource, PresenceState
from wake_bridge.domain.receivers import Receiver
from wake_bridge.domain.route_table import decide
from wake_bridge.domain.routing import Address, Authority, Capabilities, Route, RouteState
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_states import RouteStates, with_what_is_missing
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import Nowhere, Place
from wake_bridge.ports.clock import Clock

ASKED_AT_ONCE: Final = 100
"""Identities that are asked for side by side: with thousands the last ones would wait longer than an adapter is given."""


@dataclass(frozen=True, slots=True)
class PresenceReading:
    """How an identity stands: the presence by which a wake would be decided now, and the adapter it comes from.

    `capabilities` are what that adapter can do, None where none was asked. `others` are the routes that were asked before
    it, in order, each with what it showed or why it led nowhere.
    """

    presence: Presence
    adapter: str = ""
    others: Sequence[RouteState] = ()
    capabilities: Capabilities | None = None


def in_batches(identities: Iterable[Identity]) -> Iterator[list[Identity]]:
    """Each identity once, `ASKED_AT_ONCE` at a time: an adapter may answer all that is asked side by side with one call."""
    asked = [*dict.fromkeys(identities)]
    for first in range(0, len(asked), ASKED_AT_ONCE):
        yield asked[first : first + ASKED_AT_ONCE]


async def reaches_of(identities: Iterable[Identity], routes: Routes, watch: Watch) -> dict[Identity, Reach]:
    """See `reach_of`. The identities are looked at `in_batches`."""
    reaches: dict[Identity, Reach] = {}
    for some in in_batches(identities):
        found = await asyncio.gather(*(reach_of(one, routes, watch) for one in some))
        reaches |= zip(some, found, strict=True)
    return reaches


async def reach_of(identity: Identity, routes: Routes, watch: Watch) -> Reach:
    """The place that answers for an identity: its pane where it has one, else a channel by which it can be woken."""
    natively: Reach | None = None
    nowhere: list[RouteState] = []
    for route in routes.of(identity):
        found = await watch.locate(route)
        if isinstance(found, Nowhere):
            nowhere.append(RouteState(route, nowhere=found.hold))
        elif not route.capabilities.composer_independent:
            # the pane is what a person looks for, also where another door is tried first
            overruled = await _overruled(routes, route, found)
            return Reach(found.label, found.key, route.adapter, overruled=overruled, harness=route.address.harness)
        elif not found.only_seen:
            natively = natively or Reach(found.label, found.key, route.adapter)
        else:
            why = f"it is only seen by {route.adapter}, which has no way to wake it"
            nowhere.append(
                RouteState(route, nowhere=Hold(HoldReason.UNREACHABLE, why, found.label, cause=Cause.ONLY_SEEN))
            )
    posted = [await reach_of_receiver(identity, routes, watch, one) for one in routes.receivers_of(identity)]
    working = next((one for one in posted if one.hold is None), None)
    return working or natively or next(iter(posted), None) or Reach(hold=_why_nowhere(identity, nowhere, routes))


async def reach_of_receiver(identity: Identity, routes: Routes, watch: Watch, receiver: Receiver) -> Reach:
    """Whether wakes are posted to a receiver, or pushed to a client, now: nothing may be allowed to be posted there at all."""
    route, shut = routes.to(identity, receiver), routes.shut_now(receiver)
    if shut is None and route is not None:
        found = await watch.locate(route)
        shut = found.hold if isinstance(found, Nowhere) else None
    return Reach(receiver.shown, receiver.place_key, receiver.adapter, shut)


def _why_nowhere(identity: Identity, nowhere: Sequence[RouteState], routes: Routes) -> Hold:
    """What the table says where each route leads nowhere."""
    left = decide(
        WakePolicy.IMMEDIATE,
        [replace(one, route=replace(one.route, degraded=False)) for one in nowhere],
        Authority(),
        EPOCH_START,
        0,
    )
    decision = with_what_is_missing(left, identity, routes).decision
    return decision if isinstance(decision, Hold) else Hold(HoldReason.UNREACHABLE)


async def is_suggested(routes: Routes, route: Route, found: Place) -> bool:
    """Whether what a subscription says leads to that place; a mark or a binding may overrule it."""
    address = route.address
    said = Address(Identity(""), suggested=address.suggested, suggested_written=address.suggested_written)
    meant = await routes.adapter(route).resolve(said)
    return isinstance(meant, Place) and meant.key == found.key


async def _overruled(routes: Routes, route: Route, found: Place) -> str:
    address = route.address
    if address.pane and address.binding and not (found.fence and found.fence.has_pane_of(address.binding)):
        who = address.identity
        return f"[targets] puts {who} in {found.label}; what it was bound to is not used: `wake-bridge unbind {who}`"
    is_remembered = address.remembered is not None and address.binding is None and not address.pane
    if not address.suggested or is_remembered:
        return ""
    if await is_suggested(routes, route, found):
        return ""
    who = address.identity
    if address.pane:
        return f"[targets] puts {who} in {found.label}; its subscription's {address.suggested!r} is not used"
    return f"{who} is bound to {found.label}; its subscription's {address.suggested!r} is not used: `wake-bridge unbind {who}`"


async def presence_of(
    identity: Identity, routes: Routes, watch: Watch, current: Current, clock: Clock
) -> PresenceReading:
    """Look where a wake would be decided now; a second time, 1.5 s later, when one look cannot prove idle.

    An identity that nothing leads to is `unknown`, and the evidence says why.
    """
    # where a pane is to be seen it says how the agent stands; a receiver says nothing of it
    receivers = routes.receivers_of(identity) if routes.is_only_posted(identity) else ()
    route_states = RouteStates(identity, routes, watch, current, clock, patient=True, receivers=receivers)
    if not route_states.all:
        return PresenceReading(_unknown(routes.missing(identity) or Hold(HoldReason.NO_ADAPTER), clock))
    verdict = await route_states.look_until_decided()
    asked = [one for one in route_states.all if one.presence is not None or one.nowhere is not None]
    deciding = route_states.at(verdict.route) if verdict.route is not None else None
    others = [one for one in asked if one is not deciding]
    if deciding is not None and deciding.presence is not None:
        return PresenceReading(deciding.presence, deciding.route.adapter, others, deciding.route.capabilities)
    why = verdict.decision if isinstance(verdict.decision, Hold) else Hold(HoldReason.UNKNOWN)
    for one in asked:
        if one.presence is not None and (
            one.presence.state is not PresenceState.UNKNOWN or one.presence.hold is why.reason
        ):
            rest = [other for other in asked if other is not one]
            return PresenceReading(one.presence, one.route.adapter, rest, one.route.capabilities)
    return PresenceReading(_unknown(why, clock), others=others)


def _unknown(why: Hold, clock: Clock) -> Presence:
    seen = Evidence(why.reason, PresenceState.UNKNOWN, why.detail, "target", hold=why.reason, cause=why.cause)
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
