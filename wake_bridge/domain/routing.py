"""How to wake one target: a table a person can read (DESIGN §7, Shape D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.delivery import Hold, HoldReason
from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.presence import Presence, PresenceState
from wake_bridge.domain.sessions import Session


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a route can do; `decide` reads nothing else of an adapter (DESIGN §7).

    What is not `watchable` is looked at only while a wake waits for it: a look disturbs, or costs.
    `last_resort`: it serves only whom no other usable route leads to, as the heartbeat does.
    """

    composer_independent: bool = False
    can_start: bool = True
    can_steer: bool = False
    guard: str = "screen"
    ack_kind: str = "screen"
    idempotent: bool = False
    watchable: bool = True
    last_resort: bool = False


@dataclass(frozen=True, slots=True)
class Binding:
    """A fence that was recorded when an identity was bound: all of it must still hold (DESIGN §6.2)."""

    socket: str
    server_pid: int
    session_id: str
    pane_id: str
    pane_pid: int
    pane_started: str
    agent_pid: int
    agent_started: str


@dataclass(frozen=True, slots=True)
class Expected:
    """Who must be where a name leads: a harness, a working directory. What is empty is not asked for."""

    agent: str = ""
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """All that is configured or known about where an identity can be reached.

    The adapter resolves it, in the order of DESIGN §6.1, to exactly one place. `suggested` and the `details` of an
    application come from the newest active subscription's metadata; `binding` from an earlier `bind`. `pane_written`
    and `suggested_written` say when each was written down, None for now: an id that begins anew with its server means
    only what it meant then. `expected` says who must be in `pane`: a name can come to mean another one. `sessions` are
    the conversations of harnesses that are known to be the identity's, the newest first. No other identity is expected
    with the same harness in the same directory where it `has_directory_to_itself`.
    """

    identity: Identity
    pane: str = ""
    socket: str = ""
    harness: str = ""
    suggested: str = ""
    binding: Binding | None = None
    pane_written: Instant | None = None
    suggested_written: Instant | None = None
    details: tuple[tuple[str, str], ...] = ()
    expected: Expected = Expected()
    sessions: tuple[Session, ...] = ()
    has_directory_to_itself: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """An adapter and where it would reach the identity (DESIGN §1)."""

    adapter: str
    address: Address
    capabilities: Capabilities
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start a turn through a native channel."""

    route: Route


@dataclass(frozen=True, slots=True)
class Steer:
    """Add to the running turn, guarded by its id."""

    route: Route
    turn_id: str


@dataclass(frozen=True, slots=True)
class Inject:
    """Put the digest into the composer of an agent proven idle."""

    route: Route


@dataclass(frozen=True, slots=True)
class StoreOnly:
    """Nothing is sent; the event stays for the next turn or for `inbox`."""

    why: str


Decision = Start | Steer | Inject | StoreOnly | Hold

_HOLD_OF: Final = {
    PresenceState.ACTIVE: HoldReason.ACTIVE,
    PresenceState.WAITING_ON_APPROVAL: HoldReason.WAITING_ON_APPROVAL,
    PresenceState.USER_TYPING: HoldReason.USER_TYPING,
    PresenceState.UNKNOWN: HoldReason.UNKNOWN,
}


def hold_because_of(presence: Presence) -> Hold:
    """A hold with the reason the presence gives; the more exact one where the evidence has it."""
    reason = presence.hold or _HOLD_OF.get(presence.state, HoldReason.UNKNOWN)
    return Hold(reason, detail=presence.detail, where=presence.where)


def decide(policy: WakePolicy, presence: Presence, routes: Sequence[Route], now: Instant, fresh_for: int) -> Decision:
    """Choose how to wake one target; the first line that applies wins (DESIGN §7).

    `routes` come in Shape D order, `fresh_for` is in milliseconds. Never raises. A `Hold` always carries a reason a
    person can act on.
    """
    if policy is WakePolicy.SILENT:
        return StoreOnly("policy is silent")
    if policy is WakePolicy.NEXT_TURN:
        return StoreOnly("picked up at the next turn")
    if not routes:
        return Hold(HoldReason.NO_ADAPTER, detail="no adapter serves this identity: give it a target or enable one")
    usable = [route for route in routes if not route.degraded]
    if not usable:
        names = ", ".join(route.adapter for route in routes)
        return Hold(HoldReason.NO_ADAPTER, detail=f"every route of this identity is degraded ({names}): see `doctor`")
    if not presence.is_fresh(now, fresh_for):
        return Hold(HoldReason.UNKNOWN, detail="the last look is too old", where=presence.where)
    # one driver at a time: whoever has another route is left alone by the heartbeat, also while that one must wait
    for route in [one for one in usable if not one.capabilities.last_resort] or usable:
        if route.capabilities.composer_independent:
            move = _native_move(route, presence)
            if move is not None:
                return move
        elif presence.state is PresenceState.IDLE:
            return Inject(route)
    return hold_because_of(presence)


def _native_move(route: Route, presence: Presence) -> Start | Steer | None:
    """What a channel past the composer may do; a person's draft does not concern it, a running turn does."""
    can = route.capabilities
    if presence.state is PresenceState.ACTIVE and can.can_steer and presence.active_turn_id:
        return Steer(route, presence.active_turn_id)
    # typing outranks activity in `fuse`, so a turn may be running behind the draft
    only_typing = all(one.vote in {PresenceState.IDLE, PresenceState.USER_TYPING} for one in presence.evidence)
    is_free = presence.state is PresenceState.IDLE or (presence.state is PresenceState.USER_TYPING and only_typing)
    return Start(route) if is_free and can.can_start else None
