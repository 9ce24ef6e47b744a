"""`routes`: which ways lead to an identity's agent, and which of them a wake would take now, by which row of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wake_bridge.cli.output import Console


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option("--explain", is_flag=True, help="Show the full table and mark the row that decides.")
@pass_run
def routes(run: CommandContext, identity: str, explain: bool) -> None:
    """Show the routes to an identity's agent in their order, and the one that a wake would take now.

    Pauses, limits and quiet hours come first: if one of them holds, it is shown first.
    """
    record = _record(run, identity) | {"guards": _guards(run, identity)}
    if not explain:
        record.pop("table")
    console = run.console
    console.object(record, _sentence(record))
    if record["routes"]:
        console.say("")
        rows = [_row(number, one) for number, one in enumerate(record["routes"], 1)]
        console.table(["", "route", "now", "where", "can", "row", "seen"], rows)
    if explain:
        _explain(console, record)


def _record(run: CommandContext, identity: str) -> dict[str, Any]:
    """From the daemon, which has watched; without it by looks of our own."""
    import asyncio

    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import NotRunning
    from wake_bridge.domain.names import Identity
    from wake_bridge.offline.inspection import Viewpoint

    view, who = Viewpoint(run.settings), Identity(identity)
    view.require(who)
    try:
        return dict(ask(run.settings.state_dir, "routes", identity=identity, timeout=30))
    except NotRunning:
        return asyncio.run(view.routes_now(who))


def _guards(run: CommandContext, identity: str) -> list[dict[str, Any]]:
    """What people switched off, and limits that are reached, in the order in which they hold."""
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.reasons import held_because
    from wake_bridge.offline.history import holds_of

    who = Identity(identity)
    return [
        {
            "guard": one.reason,
            "cause": one.cause,
            "detail": one.detail,
            "why": held_because(one, who),
            "remedy": one.remedy(who),
        }
        for one in holds_of(run.settings, who)
    ]


def _sentence(record: Mapping[str, Any]) -> str:
    who, decision = record["agentIdentity"], record["decision"]
    by = {
        "start": f"would start a turn now, by {decision['route']}",
        "steer": f"would be added to the running turn {decision['turnId']} now, by {decision['route']}",
        "inject": f"would be typed into the composer now, by {decision['route']}",
        "hold": f"would wait now ({decision['holdReason']}): {decision['remedy']}",
    }[decision["move"]]
    if record["guards"]:
        first = record["guards"][0]
        return (
            f"{who}: a wake is held now: {first['why']}; {first['remedy']}. But for that, it {by}  [{decision['row']}]"
        )
    return f"{who}: a wake {by}  [{decision['row']}]"


def _row(number: int, one: Mapping[str, Any]) -> list[str]:
    now = "set aside" if one["degraded"] else one["presence"] or "nowhere"
    return [
        str(number),
        one["route"],
        f"{now} (only seen)" if one["onlySeen"] else now,
        one["where"] or "",
        _can(one["capabilities"]),
        one["row"] or "not asked",
        one["degraded"] or one["why"] or "",
    ]


def _can(capabilities: Mapping[str, Any]) -> str:
    if not capabilities["composer_independent"]:
        return "heartbeat" if capabilities["last_resort"] else "type"
    return ", ".join(word for word, able in (("start", "can_start"), ("steer", "can_steer")) if capabilities[able])


def _explain(console: Console, record: Mapping[str, Any]) -> None:
    authority = record["authority"]
    allowed = [key for key, name in (("steer", "steer"), ("may_start_thread", "mayStartThread")) if authority[name]]
    console.say(f"\nallowed besides by [targets]: {', '.join(allowed) or 'nothing'}")
    console.say("the table (* decides; behind a row the routes that it passed over):\n")
    rows = [
        ["*" if row["decides"] else "", row["part"], row["row"], row["when"], row["then"], ", ".join(row["passed"])]
        for row in record["table"]
    ]
    console.table(["", "asked of", "row", "when", "then", "passed over"], rows)
