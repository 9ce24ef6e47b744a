"""`deliveries`: what was, is and could not be delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run
from wake_bridge.domain.delivery import DeliveryState

if TYPE_CHECKING:
    from wake_bridge.domain.delivery import Delivery

HELD = "held"
"""Not a state of its own: whatever waits with a reason."""

STATES = click.Choice([*(state.value for state in DeliveryState), HELD], case_sensitive=False)


@click.group(invoke_without_command=True)
@click.option("--state", type=STATES, help="Only deliveries in this state; held: all that wait with a reason.")
@click.option("--target", type=IDENTITY, help="Only deliveries for this identity.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Show at most N entries.",
)
@click.pass_context
def deliveries(context: click.Context, state: str | None, target: str | None, limit: int) -> None:
    """List deliveries, newest first: what waits and why, what arrived, what failed."""
    if context.invoked_subcommand is not None:
        return
    from wake_bridge.domain.names import Identity
    from wake_bridge.records import delivery_record
    from wake_bridge.storage.ledger import LedgerStore

    run = context.ensure_object(CommandContext)
    ledger = LedgerStore.open(run.places.state_dir, read_only=True)
    whose = Identity(target) if target else None
    if state == HELD:
        waiting = [one for one in reversed(ledger.unsettled()) if one.hold and whose in {None, one.identity}]
        found = waiting[:limit]
    else:
        wanted = DeliveryState(state.upper()) if state else None
        found = ledger.deliveries(state=wanted, identity=whose, limit=limit)
    rows = []
    for one in found:
        record = delivery_record(one, ledger.events_of(one.id))
        if run.console.as_json:
            run.console.line(record)
        rows.append(
            [one.id, one.identity, record["pane"] or "-", one.state, _standing(one), str(record["event_count"])]
        )
    if rows:
        run.console.table(["delivery", "identity", "pane", "state", "standing", "events"], rows)
    else:
        run.console.say("no deliveries")
    ledger.close()


@deliveries.command("show")
@click.argument("delivery_id", metavar="ID")
@pass_run
def show(run: CommandContext, delivery_id: str) -> None:
    """Show one delivery with its digest and its journal."""
    from wake_bridge.offline.mail import find_delivery
    from wake_bridge.records import delivery_record, journal_record
    from wake_bridge.storage.ledger import LedgerStore

    ledger = LedgerStore.open(run.places.state_dir, read_only=True)
    delivery = find_delivery(ledger, delivery_id)
    record = delivery_record(delivery, ledger.events_of(delivery.id))
    record["journal"] = [journal_record(entry) for entry in ledger.journal_of(delivery.id)]
    ledger.close()
    run.console.object(record, _story(record, delivery))


@deliveries.command("retry")
@click.argument("delivery_id", metavar="ID")
@click.option("--i-looked", is_flag=True, help="I looked at the pane: this wake did not arrive.")
@pass_run
def retry(run: CommandContext, delivery_id: str, i_looked: bool) -> None:
    """Announce the events of a failed delivery again. If it may have arrived, `--i-looked` is required."""
    from wake_bridge.offline.mail import find_delivery
    from wake_bridge.records import delivery_record
    from wake_bridge.storage.ledger import LedgerStore
    from wake_bridge.system.clock import SteadyClock
    from wake_bridge.system.ulids import new_ulid

    ledger = LedgerStore.open(run.places.state_dir)
    delivery = find_delivery(ledger, delivery_id)
    again = ledger.retry(delivery.id, new_ulid, SteadyClock().now(), looked=i_looked)
    record = delivery_record(again, ledger.events_of(again.id))
    ledger.close()
    run.poke_daemon()
    run.console.object(record, f"{again.id} takes the events of {delivery.id}")


def _standing(delivery: Delivery) -> str:
    from wake_bridge.domain.reasons import ended_with

    if delivery.outcome is not None:
        return f"{ended_with(delivery)} (proof {int(delivery.proof)})"
    if delivery.hold is None:
        return "waiting for its window"
    return f"held: {delivery.hold.reason}" + (f" ({delivery.hold.detail})" if delivery.hold.detail else "")


def _story(record: dict[str, object], delivery: Delivery) -> str:
    lines = [
        f"{delivery.id}  {delivery.identity}  {record['pane'] or 'no pane yet'}  {delivery.state}",
        _standing(delivery),
    ]
    if record["remedy"]:
        lines.append(f"what to do: {record['remedy']}")
    if delivery.digest:
        lines += ["", *(f"    {line}" for line in delivery.digest.splitlines())]
    lines.append("")
    journal = record["journal"]
    assert isinstance(journal, list)  # noqa: S101 - made a few lines above
    for entry in journal:
        detail = "  ".join(f"{name}={value}" for name, value in entry["detail"].items())
        lines.append(f"{entry['at']}  {entry['step']:<14} {detail}".rstrip())
    return "\n".join(lines)
