"""What the rows of the route table ask, and the holds they answer with (`route_table`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Instant, WakePolicy
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Authority, Prospect, hold_because_of

SET_ASIDE: Final = "set-aside"
LAST_RESORT: Final = "last-resort"
_UNASKED: Final = {SET_ASIDE, LAST_RESORT}
"""The rows that pass a route over without having asked it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All that a row may look at besides the route it is about.

    `passed` are the routes that were passed over by then, each with the name of the row that did it.
    """

    policy: WakePolicy
    prospects: Sequence[Prospect]
    authority: Authority
    now: Instant
    fresh_for_ms: int
    passed: tuple[tuple[Prospect, str], ...] = ()


# -- when ------------------------------------------------------------------------------------------------------------


def yields_to_another(moment: Moment, here: Prospect) -> bool:
    """A last resort, where a route that is none is not set aside."""
    others = (one.route for one in moment.prospects if one is not here)
    is_served = any(not one.degraded and not one.capabilities.last_resort for one in others)
    return here.route.capabilities.last_resort and is_served


def is_stale(moment: Moment, here: Prospect) -> bool:
    """The last look is older than `fresh_for_ms`."""
    return here.presence is not None and not here.presence.is_fresh(moment.now, moment.fresh_for_ms)


def is_native(_: Moment, here: Prospect) -> bool:
    """A channel past the composer."""
    return here.route.capabilities.composer_independent


def wants_second_look(moment: Moment, here: Prospect) -> bool:
    """One native look that is no proof yet."""
    return is_native(moment, here) and here.presence is not None and here.presence.wants_second_look


def can_steer(moment: Moment, here: Prospect) -> bool:
    """A native turn runs that may be added to."""
    able = is_native(moment, here) and here.route.capabilities.can_steer and not (here.only_seen or here.refused)
    return able and moment.authority.steer and _stands(here, PresenceState.ACTIVE) and bool(turn_of(here))


def is_busy(moment: Moment, here: Prospect) -> bool:
    """A native turn runs or a dialog waits; typing outranks both in `fuse`, so that either may be behind a draft."""
    is_working = _stands(here, PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL)
    is_hidden = _stands(here, PresenceState.USER_TYPING) and not _is_free(here)
    return is_native(moment, here) and (is_working or is_hidden)


def was_refused(moment: Moment, here: Prospect) -> bool:
    """A native route that gave this wake back a moment ago."""
    return is_native(moment, here) and here.refused is not None


def can_start(moment: Moment, here: Prospect) -> bool:
    """A native route on which a turn can be begun now."""
    return _is_free(here) and _is_able(moment, here)


def is_only_seen(moment: Moment, here: Prospect) -> bool:
    """Natively idle, whether or not it can be woken there."""
    return is_native(moment, here) and _is_free(here)


def may_start_thread(moment: Moment, here: Prospect) -> bool:
    """A native conversation that nobody has open, and that may be begun all the same."""
    return _is_not_loaded(here) and _is_able(moment, here) and moment.authority.may_start_thread


def is_not_loaded(moment: Moment, here: Prospect) -> bool:
    """A native conversation that nobody has open."""
    return is_native(moment, here) and _is_not_loaded(here)


def is_idle(_: Moment, here: Prospect) -> bool:
    """Proven idle."""
    return _stands(here, PresenceState.IDLE)


def is_only_unloaded(moment: Moment, _: Prospect) -> bool:
    """A conversation is known and not open, and no other route has a better reason than that it leads nowhere."""
    nowhere = {HoldReason.UNREACHABLE, HoldReason.NO_ADAPTER}
    asked = _asked(moment)
    others = [one for one in asked if not _is_not_loaded(one)]
    return len(others) < len(asked) and all(one.nowhere and one.nowhere.reason in nowhere for one in others)


def _stands(here: Prospect, *states: PresenceState) -> bool:
    return here.presence is not None and here.presence.state in states


def _is_free(here: Prospect) -> bool:
    """Idle, or nothing speaks against it but a draft, which does not concern a channel past the composer."""
    evidence = here.presence.evidence if here.presence is not None else ()
    votes = {one.vote for one in evidence if one.weighs}
    only_typing = votes <= {PresenceState.IDLE, PresenceState.USER_TYPING}
    return _stands(here, PresenceState.IDLE) or (_stands(here, PresenceState.USER_TYPING) and only_typing)


def _is_able(moment: Moment, here: Prospect) -> bool:
    return is_native(moment, here) and here.route.capabilities.can_start and not here.only_seen


def _is_not_loaded(here: Prospect) -> bool:
    hold = here.nowhere.reason if here.nowhere is not None else here.presence.hold if here.presence else None
    return hold is HoldReason.NOT_LOADED


def _asked(moment: Moment) -> list[Prospect]:
    return [one for one, row in moment.passed if row not in _UNASKED]


# -- then ------------------------------------------------------------------------------------------------------------


def turn_of(here: Prospect) -> str:
    """The id of the running turn; empty where none is known."""
    return (here.presence.active_turn_id if here.presence else None) or ""


def as_seen(_: Moment, here: Prospect) -> Hold:
    """What is seen on this route keeps it back."""
    return hold_because_of(here.presence) if here.presence is not None else Hold(HoldReason.UNKNOWN)


def why_not(moment: Moment, here: Prospect) -> Hold:
    """Why nothing can go out on this route, which was passed over."""
    known = here.refused or here.nowhere
    if known is None and here.presence is not None and here.presence.state is PresenceState.IDLE:
        detail = f"it is only seen by {here.route.adapter}, which has no way to wake it"
        return Hold(HoldReason.UNREACHABLE, detail, here.presence.where, cause=Cause.ONLY_SEEN)
    return known or as_seen(moment, here)


def too_old(_: Moment, here: Prospect) -> Hold:
    """For a look that proves nothing any more."""
    where = here.presence.where if here.presence else ""
    return Hold(HoldReason.UNKNOWN, "the last look is too old", where, cause=Cause.OLD_LOOK)


def no_adapter(*_: object) -> Hold:
    """For an identity without a route."""
    return Hold(HoldReason.NO_ADAPTER, "no adapter serves this identity: give it a target or enable one")


def all_set_aside(moment: Moment, _: Prospect) -> Hold:
    """For an identity whose every route failed."""
    names = ", ".join(one.route.adapter for one in moment.prospects)
    detail = f"every route of this identity is degraded ({names}): see `doctor`"
    return Hold(HoldReason.NO_ADAPTER, detail, cause=Cause.ALL_DEGRADED)


def why_unloaded(moment: Moment, _: Prospect) -> Hold:
    """The reason of the first route whose conversation nobody has open."""
    return next(why_not(moment, one) for one in _asked(moment) if _is_not_loaded(one))


def why_the_last(moment: Moment, _: Prospect) -> Hold:
    """The reason of the route that was asked last: the one that somebody configured."""
    return why_not(moment, _asked(moment)[-1])
