"""The table by which a route is chosen, as data: `decide` uses the rows that `routes --explain` prints.

First the rows about the whole wake; then, for each route in its order, those about a route; when every route was passed
over, the last ones. Among each the first row that applies wins. docs/routes.md shows the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import (
    Address,
    Authority,
    Capabilities,
    Decision,
    Inject,
    Observe,
    Route,
    RouteState,
    Start,
    Steer,
    StoreOnly,
    hold_because_of,
)
from wake_bridge.domain.values import dataclass

SET_ASIDE: Final = "set-aside"
LAST_RESORT: Final = "last-resort"
_UNASKED: Final = {SET_ASIDE, LAST_RESORT}
"""The rows that pass a route over without having asked it."""


NO_ROUTE: Final = "no-route"

NOTHING_LEFT: Final = "nothing-left"


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
    """A last resort, where a route that is none is not set aside; a channel or a receiver that leads nowhere is no route."""
    others = (one for one in context.route_states if one is not here)
    usable = (one.route for one in others if not (one.nowhere and one.route.capabilities.composer_independent))
    is_served = any(not one.degraded and not one.capabilities.last_resort for one in usable)
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


def leaves_it_to_receiver(context: RouteContext, here: RouteState) -> bool:
    """A native turn runs or a dialog waits, and a receiver may take the wake now."""
    return is_busy(context, here) and any(one.is_open_receiver for one in context.route_states if one is not here)


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

    A channel that nobody named, or the heartbeat, has no better reason than the receiver that somebody did.
    """
    asked = _asked(context)
    receivers = [one for one in asked if is_receiver(context, one)]
    last = asked[-1].route.capabilities
    is_named = not (last.composer_independent or last.last_resort)
    return why_not(context, receivers[0] if receivers and not is_named else asked[-1])


class TablePart(StrEnum):
    """Which part of the table a row belongs to."""

    WAKE = "the wake"
    ROUTE = "each route"
    END = "no route left"


@dataclass(frozen=True, slots=True)
class RouteRule:
    """One line: `when` it applies and what happens `then`, in words and in code.

    Without `decides` the next route is asked.
    """

    part: TablePart
    name: str
    when: str
    then: str
    applies: Callable[[RouteContext, RouteState], bool]
    decides: Callable[[RouteContext, RouteState], Decision] | None = None


@dataclass(frozen=True, slots=True)
class RouteVerdict:
    """What was decided, by which row and for which route; `passed` names the row for each route that was passed over."""

    decision: Decision
    row: str
    route: Route | None = None
    passed: tuple[tuple[Route, str], ...] = ()


def decide(
    policy: WakePolicy, route_states: Sequence[RouteState], authority: Authority, now: Instant, fresh_for_ms: int
) -> RouteVerdict:
    """Choose how to wake one target by the table.

    Args:
        policy: the wake's.
        route_states: the routes in the order in which they are tried (docs/routes.md). Those that nobody has looked at are asked for by an `Observe` when their turn
            comes: a route below one that decides need not be looked at.
        authority: what the target allows.
        now: the moment of deciding.
        fresh_for_ms: milliseconds after which a look proves nothing.

    Returns:
        The decision, and the row it comes from. A `Hold` always carries a reason a person can act on. Never raises.
    """
    context = RouteContext(policy, route_states, authority, now, fresh_for_ms)
    for part, route_state in [
        (TablePart.WAKE, _NOBODY),
        *((TablePart.ROUTE, one) for one in route_states),
        (TablePart.END, _NOBODY),
    ]:
        row = next((one for one in TABLE if one.part is part and one.applies(context, route_state)), None)
        if row is None:
            continue
        if row.decides is not None:
            passed = tuple((one.route, name) for one, name in context.passed)
            route = route_state.route if part is TablePart.ROUTE else None
            return RouteVerdict(row.decides(context, route_state), row.name, route, passed)
        context = replace(context, passed=(*context.passed, (route_state, row.name)))
    raise AssertionError("the last row of the table always applies")


_NOBODY: Final = RouteState(Route("", Address(Identity("")), Capabilities()))

TABLE: Final[tuple[RouteRule, ...]] = (
    RouteRule(
        TablePart.WAKE,
        "silent",
        "the policy is silent",
        "recorded only; the heartbeat does not speak of it either",
        lambda context, _: context.policy is WakePolicy.SILENT,
        lambda *_: StoreOnly("policy is silent"),
    ),
    RouteRule(
        TablePart.WAKE,
        "next-turn",
        "the policy is next_turn",
        "stored; picked up at the agent's next turn",
        lambda context, _: context.policy is WakePolicy.NEXT_TURN,
        lambda *_: StoreOnly("picked up at the next turn"),
    ),
    RouteRule(
        TablePart.WAKE,
        NO_ROUTE,
        "no adapter serves the identity",
        "hold: no_adapter",
        lambda context, _: not context.route_states,
        no_adapter,
    ),
    RouteRule(
        TablePart.WAKE,
        "all-set-aside",
        "every route is set aside",
        "hold: no_adapter",
        lambda context, _: all(one.route.degraded for one in context.route_states),
        all_set_aside,
    ),
    RouteRule(
        TablePart.ROUTE,
        SET_ASIDE,
        "the route failed and has not answered since",
        "the next route",
        lambda _, one: one.route.degraded,
    ),
    RouteRule(
        TablePart.ROUTE,
        LAST_RESORT,
        "the heartbeat, and another route is not set aside (a channel or a receiver that leads nowhere does not count)",
        "the next route",
        yields_to_another,
    ),
    RouteRule(
        TablePart.ROUTE,
        "look",
        "no look at it yet",
        "look, then decide again",
        lambda _, one: one.is_unseen,
        lambda _, one: Observe(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "nowhere",
        "it leads to no place now: no socket, no session, no pane, an unknown version, no MCP client, a suspended receiver",
        "the next route",
        lambda _, one: one.nowhere is not None,
    ),
    RouteRule(
        TablePart.ROUTE,
        "receiver-refused",
        "a receiver: it refused this very wake",
        "the next route",
        was_refused_by_receiver,
    ),
    RouteRule(
        TablePart.ROUTE,
        "receiver",
        "a receiver that is not suspended: it decides about presence itself",
        "send it there, whatever presence says",
        is_receiver,
        lambda _, one: Start(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "stale",
        "the last look is older than `presence.fresh_for`",
        "hold: unknown",
        is_stale,
        too_old,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-second-look",
        "native: it looks idle, and one look is no proof there",
        "hold: a second look follows soon",
        wants_second_look,
        as_seen,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-steer",
        "native: a turn runs whose id is known, it can be added to, and `steer` allows it",
        "steer: added to that turn",
        can_steer,
        lambda _, one: Steer(one.route, turn_of(one)),
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-left-to-receiver",
        "native: a turn runs, or a dialog waits, and a receiver may take the wake now",
        "the next route",
        leaves_it_to_receiver,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-busy",
        "native: a turn runs, or a dialog waits",
        "hold, and no screen is typed into either",
        is_busy,
        as_seen,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-refused",
        "native: it gave this wake back a moment ago, unsent",
        "the next route",
        was_refused,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-idle",
        "native: idle, whatever is being typed in the composer",
        "start a turn",
        can_start,
        lambda _, one: Start(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-seen",
        "native: idle, but it can only be seen there and not woken",
        "the next route, by its own look",
        is_only_seen,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-open",
        "native: no program has the conversation open, and `may_start_thread` allows to begin one",
        "start a turn",
        may_start_thread,
        lambda _, one: Start(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-not-loaded",
        "native: no program has the conversation open",
        "the next route",
        is_not_loaded,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-unsure",
        "native: anything else that is not known for certain",
        "the next route, by its own look",
        is_native,
    ),
    RouteRule(
        TablePart.ROUTE,
        "screen-idle",
        "a screen: proven idle",
        "inject: typed into the composer",
        is_idle,
        lambda _, one: Inject(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "screen-waits",
        "a screen: anything else",
        "hold, with what is seen there",
        lambda *_: True,
        as_seen,
    ),
    RouteRule(
        TablePart.END,
        "not-loaded",
        "a native route knows the conversation, and the others lead nowhere",
        "hold: not_loaded",
        is_only_unloaded,
        why_unloaded,
    ),
    RouteRule(
        TablePart.END,
        NOTHING_LEFT,
        "every route was passed over",
        "hold, with the reason of the last one",
        lambda *_: True,
        why_the_last,
    ),
)
"""Every row, in the order in which they are asked."""
