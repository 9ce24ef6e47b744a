"""`routes`, `presence`, `push-capable`: which routes lead to an agent, and what is seen of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wake_bridge.cli.output import Console
    from wake_bridge.domain.delivery import Hold


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option("--explain", is_flag=True, help="Show the full table and mark the row that decides.")
@pass_run
def routes(run: CommandContext, identity: str, explain: bool) -> None:
    """Show the routes to an identity's agent in their order, and the one that a wake would take now.

    Pauses, limits and quiet hours come first: if one of them holds, it is shown first.
    """
    record = routes_now(run, identity)
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


def routes_now(run: CommandContext, identity: str) -> dict[str, Any]:
    """Its routes, what the table says now, and in `guards` what holds before it. Raises `NotFound` for nobody."""
    from wake_bridge.domain.names import Identity
    from wake_bridge.offline import looks

    return looks.routes_now(run.settings, Identity(identity)) | {"guards": _guards(run, identity)}


def _guards(run: CommandContext, identity: str) -> list[dict[str, Any]]:
    """What people switched off, and limits that are reached, in the order in which they hold."""
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.reasons import held_because
    from wake_bridge.offline.holds import holds_of
    from wake_bridge.records import time_or_none

    who = Identity(identity)
    return [
        {
            "guard": one.reason,
            "cause": one.cause,
            "detail": one.detail,
            "why": held_because(one, who),
            "remedy": one.remedy(who),
            "until": time_or_none(one.next_look_at),
        }
        for one in holds_of(run.settings, who)
    ]


def move_now(decision: Mapping[str, Any]) -> str:
    """What a wake would do now, as the table decides, behind "it"."""
    return {
        "start": f"would start a turn now, by {decision['route']}",
        "steer": f"would be added to the running turn {decision['turnId']} now, by {decision['route']}",
        "inject": f"would be typed into the composer now, by {decision['route']}",
        "hold": f"would wait now ({decision['holdReason']}): {decision['remedy']}",
    }[decision["move"]]


def _sentence(record: Mapping[str, Any]) -> str:
    who, decision = record["agentIdentity"], record["decision"]
    by = move_now(decision)
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


@click.command("push-capable")
@pass_run
def push_capable(run: CommandContext) -> None:
    """List identities that other heartbeats should skip, one a line, each with the reason.

    Listed are identities that a push reaches, and while the daemon runs those that wake-bridge wakes or nudges: two drivers
    must never serve one identity.
    """
    from wake_bridge.offline.push_capable import driven_elsewhere

    for identity, driver in driven_elsewhere(run.settings).items():
        run.console.line({"agentIdentity": identity, "driver": driver}, f"{identity}  {_REASONS[driver]}")


_REASONS = {
    "push": "a push reaches it",
    "bridge": "wake-bridge wakes it",
    "heartbeat": "wake-bridge's own heartbeat nudges it",
}


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option("--explain", is_flag=True, help="Show every piece of evidence and the state it supports.")
@pass_run
def presence(run: CommandContext, identity: str, explain: bool) -> None:
    """Show the state of an identity's agent, with the evidence for it."""
    from wake_bridge.domain.delivery import HoldReason
    from wake_bridge.domain.names import Identity
    from wake_bridge.offline.looks import presence_now

    record = presence_now(run.settings, Identity(identity))
    # of one that has moved only the pane is known where its name leads, which is another one's
    leads = "; its name leads to" if record["holdReason"] == HoldReason.MOVED else " in"
    where = f"{leads} {record['where']}" if record["where"] else ""
    route = f" (route {record['route']})" if record["route"] else ""
    host = f" on {record['host']}" if record["host"] else ""
    lines = [f"{identity}{host} is {record['state']}{where}{route}"]
    if record["why"]:
        lines.append(f"because: {record['why']}")
    if record["remedy"]:
        lines.append(f"what to do: {record['remedy']}")
    lines += [f"waiting: {one}" for one in _waiting(run, identity)]
    if explain:
        lines += ["", "what was seen (* decides it):", *map(_piece, record["evidence"])]
    run.console.object(record, "\n".join(lines))


def _piece(one: dict[str, Any]) -> str:
    """One piece of evidence: what it speaks for, by which rule, where, and the bytes that were seen."""
    mark = "*" if one["decides"] else " "
    vote = one["vote"] if one["weighs"] else "(note)"
    region = f" in {one['region']}" if one["region"] else ""
    saw = f"  saw {one['saw']!r}" if one["saw"] else ""
    route = f"{one['route']}, " if one["route"] else ""
    return f" {mark} {vote:<18} {one['rule']}{region}{saw}  [{route}{one['source']}]"


def _waiting(run: CommandContext, identity: str) -> list[str]:
    """What waits for the identity, and why it does not wait any longer or still does."""
    from wake_bridge.domain.delivery import DeliveryState
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.reasons import held_because
    from wake_bridge.storage.ledger import LedgerStore

    def said_of(hold: Hold) -> str:
        return f"{held_because(hold, who)}; {hold.remedy(who)}"

    who = Identity(identity)
    ledger = LedgerStore.open(run.settings.state_dir, read_only=True)
    mine = [one for one in ledger.unsettled() if one.identity == who]
    ledger.close()
    if not mine:
        return []
    from wake_bridge.offline.holds import holds_of  # with the rules that hold a wake
    from wake_bridge.records import time_or_none

    holds = holds_of(run.settings, who)
    held = f", and held then: {said_of(holds[0])}" if holds else ""
    return [
        f"{one.id} is held: {said_of(one.hold)}"
        if one.hold is not None
        else f"{one.id} is due {time_or_none(one.due_at) if one.state is DeliveryState.PENDING else 'now'}{held}"
        for one in mine
    ]
