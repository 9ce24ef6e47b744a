"""The routes of one identity as the JSON record of `routes`: for the command and for the control socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Identity
from wake_bridge.domain.route_table import TABLE, Verdict
from wake_bridge.domain.routing import Authority, Inject, Prospect, Start, Steer

MOVES: Final[dict[type, str]] = {Start: "start", Steer: "steer", Inject: "inject", Hold: "hold"}


def routes_record(
    identity: Identity,
    prospects: Sequence[Prospect],
    authority: Authority,
    verdict: Verdict,
    degraded: Mapping[str, str],
) -> dict[str, Any]:
    """What `routes --explain` prints: each route in order, what the table says now, and all its rows.

    `degraded` says why an adapter is set aside.
    """
    rows = {route.adapter: row for route, row in verdict.passed}
    if verdict.route is not None:
        rows[verdict.route.adapter] = verdict.row
    return {
        "agentIdentity": identity,
        "authority": {"steer": authority.steer, "mayStartThread": authority.may_start_thread},
        "decision": _decision(identity, verdict),
        "routes": [_route(one, rows.get(one.route.adapter), degraded) for one in prospects],
        "table": [
            {
                "part": row.part,
                "row": row.name,
                "when": row.when,
                "then": row.then,
                "decides": row.name == verdict.row,
                "passed": [route.adapter for route, name in verdict.passed if name == row.name],
            }
            for row in TABLE
        ],
    }


def _decision(identity: Identity, verdict: Verdict) -> dict[str, Any]:
    decision = verdict.decision
    hold = decision if isinstance(decision, Hold) else None
    return {
        "move": MOVES[type(decision)],
        "row": verdict.row,
        "route": verdict.route.adapter if verdict.route is not None else None,
        "turnId": decision.turn_id if isinstance(decision, Steer) else None,
        "holdReason": hold.reason if hold else None,
        "why": hold.detail if hold else None,
        "where": (hold.where or None) if hold else None,
        "remedy": hold.told(identity) if hold else None,
    }


def _route(prospect: Prospect, row: str | None, degraded: Mapping[str, str]) -> dict[str, Any]:
    seen, nowhere = prospect.presence, prospect.nowhere
    return {
        "route": prospect.route.adapter,
        "row": row,
        "reachable": seen is not None,
        "where": (seen.where if seen else nowhere.where if nowhere else "") or None,
        "presence": seen.state if seen else None,
        "source": seen.source if seen else None,
        "activeTurnId": seen.active_turn_id if seen else None,
        "why": seen.detail if seen else nowhere.detail if nowhere else None,
        "onlySeen": prospect.only_seen,
        "degraded": degraded.get(prospect.route.adapter),
        "capabilities": asdict(prospect.route.capabilities),
    }
