"""The table by which a route is chosen, as data: `decide` walks the very rows that `routes --explain` prints (docs/design.md §7).

First the rows about the whole wake; then, for each route in its order, those about a route; when every route was passed
over, the last ones. Among each the first row that applies wins. docs/routes.md shows the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from wake_bridge.domain import route_conditions as conditions
from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.route_conditions import RouteContext
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
)


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
        route_states: the routes in Shape D order. Those that nobody has looked at are asked for by an `Observe` when their turn
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


NO_ROUTE: Final = "no-route"
NOTHING_LEFT: Final = "nothing-left"

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
        conditions.no_adapter,
    ),
    RouteRule(
        TablePart.WAKE,
        "all-set-aside",
        "every route is set aside",
        "hold: no_adapter",
        lambda context, _: all(one.route.degraded for one in context.route_states),
        conditions.all_set_aside,
    ),
    RouteRule(
        TablePart.ROUTE,
        conditions.SET_ASIDE,
        "the route failed and has not answered since",
        "the next route",
        lambda _, one: one.route.degraded,
    ),
    RouteRule(
        TablePart.ROUTE,
        conditions.LAST_RESORT,
        "the heartbeat, and a route that is not set aside exists",
        "the next route",
        conditions.yields_to_another,
    ),
    RouteRule(
        TablePart.ROUTE,
        "look",
        "no look at it yet",
        "look, then decide again",
        lambda _, one: one.presence is None and one.nowhere is None,
        lambda _, one: Observe(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "nowhere",
        "it leads to no place now: no socket, no session, no pane, an unknown version, a suspended receiver",
        "the next route",
        lambda _, one: one.nowhere is not None,
    ),
    RouteRule(
        TablePart.ROUTE,
        "receiver-refused",
        "a receiver: it refused this very wake",
        "the next route",
        conditions.was_refused_by_receiver,
    ),
    RouteRule(
        TablePart.ROUTE,
        "receiver",
        "a receiver that is not suspended: it decides about presence itself",
        "send it there, whatever presence says",
        conditions.is_receiver,
        lambda _, one: Start(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "stale",
        "the last look is older than `presence.fresh_for`",
        "hold: unknown",
        conditions.is_stale,
        conditions.too_old,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-second-look",
        "native: it looks idle, and one look is no proof there",
        "hold: a second look follows soon",
        conditions.wants_second_look,
        conditions.as_seen,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-steer",
        "native: a turn runs whose id is known, it can be added to, and `steer` allows it",
        "steer: added to that turn",
        conditions.can_steer,
        lambda _, one: Steer(one.route, conditions.turn_of(one)),
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-busy",
        "native: a turn runs, or a dialog waits",
        "hold, and no screen is typed into either",
        conditions.is_busy,
        conditions.as_seen,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-refused",
        "native: it gave this wake back a moment ago, unsent",
        "the next route",
        conditions.was_refused,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-idle",
        "native: idle, whatever is being typed in the composer",
        "start a turn",
        conditions.can_start,
        lambda _, one: Start(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-seen",
        "native: idle, but it can only be seen there and not woken",
        "the next route, by its own look",
        conditions.is_only_seen,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-open",
        "native: no program has the conversation open, and `may_start_thread` allows to begin one",
        "start a turn",
        conditions.may_start_thread,
        lambda _, one: Start(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-not-loaded",
        "native: no program has the conversation open",
        "the next route",
        conditions.is_not_loaded,
    ),
    RouteRule(
        TablePart.ROUTE,
        "native-unsure",
        "native: anything else that is not known for certain",
        "the next route, by its own look",
        conditions.is_native,
    ),
    RouteRule(
        TablePart.ROUTE,
        "screen-idle",
        "a screen: proven idle",
        "inject: typed into the composer",
        conditions.is_idle,
        lambda _, one: Inject(one.route),
    ),
    RouteRule(
        TablePart.ROUTE,
        "screen-waits",
        "a screen: anything else",
        "hold, with what is seen there",
        lambda *_: True,
        conditions.as_seen,
    ),
    RouteRule(
        TablePart.END,
        "not-loaded",
        "a native route knows the conversation, and the others lead nowhere",
        "hold: not_loaded",
        conditions.is_only_unloaded,
        conditions.why_unloaded,
    ),
    RouteRule(
        TablePart.END,
        NOTHING_LEFT,
        "every route was passed over",
        "hold, with the reason of the last one",
        lambda *_: True,
        conditions.why_the_last,
    ),
)
"""Every row, in the order in which they are asked."""
