"""What the rows of the route table ask, and the holds they answer with (`route_table`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Instant, WakePolicy
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Authority, RouteState, hold_because_of

SET_ASIDE: Final = "set-aside"
LAST_RESORT: Final = "last-resort"
_UNASKED: Final = {SET_ASIDE, LAST_RESORT}
"""The rows that pass a route over without having asked it."""


@dataclass(frozen=True, slots=True)
class RouteContext:
    """All that a row may look at besides the route it is about.

    `passed` are the routes that were passed over by then, each with the name of the row that did it.
    """

    policy: WakePolicy
    route_states: Sequence[RouteState]
    authority: Authority
    now: Instant
    fresh_for_ms: int
    passed: tuple[tuple[RouteState, str], ...] = ()


# -- when ------------------------------------------------------------------------------------------------------------


def yields_to_another(context: RouteContext, here: RouteState) -> bool:
    """A last resort, where a route that is none is not set aside."""
    others = (one.route for one in context.route_states if one is not here)
    is_served = any(not one.degraded and not one.capabilities.last_resort for one in others)
    return here.route.capabilities.last_resort and is_served


def is_stale(context: RouteContext, here: RouteState) -> bool:
    """The last look is older than `fresh_for_ms`."""
    return here.presence is not None and not here.presence.is_fresh(context.now, context.fresh_for_ms)


def is_native(_: RouteContext, here: RouteState) -> bool:
    """A channel past the composer."""
    return here.route.capabilities.composer_independent


def is_receiver(_: RouteContext, here: RouteState) -> bool:
    """A program that decides about presence itself."""
    return here.route.capabilities.presence_independent


def was_refused_by_receiver(context: RouteContext, here: RouteState) -> bool:
    """A receiver that refused this very wake."""
    return is_receiver(context, here) and here.refused is not None


def wants_second_look(context: RouteContext, here: RouteState) -> bool:
    """One native look that is no proof yet."""
    return is_native(context, here) and here.presence is not None and here.presence.wants_second_look


def can_steer(context: RouteContext, here: RouteState) -> bool:
    """A native turn runs that may be added to."""
    able = is_native(context, here) and here.route.capabilities.can_steer and not (here.only_seen or here.refused)
    return able and context.authority.steer and _stands(here, PresenceState.ACTIVE) and bool(turn_of(here))


def is_busy(context: RouteContext, here: RouteState) -> bool:
    """A native turn runs or a dialog waits; typing outranks both in `fuse`, so that either may be behind a draft."""
    is_working = _stands(here, PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL)
    is_hidden = _stands(here, PresenceState.USER_TYPING) and not _is_free(here)
    return is_native(context, here) and (is_working or is_hidden)


def was_refused(context: RouteContext, here: RouteState) -> bool:
    """A native route that gave this wake back a moment ago."""
    return is_native(context, here) and here.refused is not None


def can_start(context: RouteContext, here: RouteState) -> bool:
    """A native route on which a turn can be begun now."""
    return _is_free(here) and _is_able(context, here)


def is_only_seen(context: RouteContext, here: RouteState) -> bool:
    """Natively idle, whether or not it can be woken there."""
    return is_native(context, here) and _is_free(here)


def may_start_thread(context: RouteContext, here: RouteState) -> bool:
    """A native conversation that nobody has open, and that may be begun all the same."""
    return _is_not_loaded(here) and _is_able(context, here) and context.authority.may_start_thread


def is_not_loaded(context: RouteContext, here: RouteState) -> bool:
    """A native conversation that nobody has open."""
    return is_native(context, here) and _is_not_loaded(here)


def is_idle(_: RouteContext, here: RouteState) -> bool:
    """Proven idle."""
    return _stands(here, PresenceState.IDLE)


def is_only_unloaded(context: RouteContext, _: RouteState) -> bool:
    """A conversation is known and not open, and no other route has a better reason than that it leads nowhere."""
    nowhere = {HoldReason.UNREACHABLE, HoldReason.NO_ADAPTER}
    asked = _asked(context)
    others = [one for one in asked if not _is_not_loaded(one)]
    return len(others) < len(asked) and all(one.nowhere and one.nowhere.reason in nowhere for one in others)


def _stands(here: RouteState, *states: PresenceState) -> bool:
    return here.presence is not None and here.presence.state in states


def _is_free(here: RouteState) -> bool:
    """Idle, or nothing speaks against it but a draft, which does not concern a channel past the composer."""
    evidence = here.presence.evidence if here.presence is not None else ()
    votes = {one.vote for one in evidence if one.weighs}
    only_typing = votes <= {PresenceState.IDLE, PresenceState.USER_TYPING}
    return _stands(here, PresenceState.IDLE) or (_stands(here, PresenceState.USER_TYPING) and only_typing)


def _is_able(context: RouteContext, here: RouteState) -> bool:
    return is_native(context, here) and here.route.capabilities.can_start and not here.only_seen


def _is_not_loaded(here: RouteState) -> bool:
    hold = here.nowhere.reason if here.nowhere is not None else here.presence.hold if here.presence else None
    return hold is HoldReason.NOT_LOADED


def _asked(context: RouteContext) -> list[RouteState]:
    return [one for one, row in context.passed if row not in _UNASKED]


# -- then ------------------------------------------------------------------------------------------------------------


def turn_of(here: RouteState) -> str:
    """The id of the running turn; empty where none is known."""
    return (here.presence.active_turn_id if here.presence else None) or ""


def as_seen(_: RouteContext, here: RouteState) -> Hold:
    """What is seen on this route keeps it back."""
    return hold_because_of(here.presence) if here.presence is not None else Hold(HoldReason.UNKNOWN)


def why_not(context: RouteContext, here: RouteState) -> Hold:
    """Why nothing can go out on this route, which was passed over."""
    known = here.refused or here.nowhere
    if known is None and here.presence is not None and here.presence.state is PresenceState.IDLE:
        detail = f"it is only seen by {here.route.adapter}, which has no way to wake it"
        return Hold(HoldReason.UNREACHABLE, detail, here.presence.where, cause=Cause.ONLY_SEEN)
    return known or as_seen(context, here)


def too_old(_: RouteContext, here: RouteState) -> Hold:
    """For a look that proves nothing any more."""
    where = here.presence.where if here.presence else ""
    return Hold(HoldReason.UNKNOWN, "the last look is too old", where, cause=Cause.OLD_LOOK)


def no_adapter(*_: object) -> Hold:
    """For an identity without a route."""
    return Hold(HoldReason.NO_ADAPTER, "no adapter serves this identity: give it a target or enable one")


def all_set_aside(context: RouteContext, _: RouteState) -> Hold:
    """For an identity whose every route failed."""
    names = ", ".join(one.route.adapter for one in context.route_states)
    detail = f"every route of this identity is degraded ({names}): see `doctor`"
    return Hold(HoldReason.NO_ADAPTER, detail, cause=Cause.ALL_DEGRADED)


def why_unloaded(context: RouteContext, _: RouteState) -> Hold:
    """The reason of the first route whose conversation nobody has open."""
    return next(why_not(context, one) for one in _asked(context) if _is_not_loaded(one))


def why_the_last(context: RouteContext, _: RouteState) -> Hold:
    """The reason of the route that was asked last: the one that somebody configured.

    A channel that nobody named has no better reason than the receiver that somebody did.
    """
    asked = _asked(context)
    receivers = [one for one in asked if is_receiver(context, one)]
    is_named = not asked[-1].route.capabilities.composer_independent
    return why_not(context, receivers[0] if receivers and not is_named else asked[-1])
