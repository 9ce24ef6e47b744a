"""`deliveries`, `pause`, `resume`, `ack`, `bind`, `unbind`, `resync`: what waits, what was sent, and changes to the ledger."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, limit_option, pass_run
from wake_bridge.domain.delivery import DeliveryState
from wake_bridge.domain.names import duration_of

if TYPE_CHECKING:
    from wake_bridge.domain.delivery import Delivery, HoldReason


LONGEST: Final = 100 * 365 * 86_400_000
"""Milliseconds: what lasts longer ends in no year that a calendar here knows."""


class DurationType(click.ParamType[int]):
    """`90s`, `30m`, `1h`, `2d`: milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The duration in milliseconds."""
        if isinstance(value, int):
            return value
        duration = duration_of(str(value))
        if duration is None:
            return self.fail(f"{value!r} is not a duration such as 90s, 30m, 1h or 2d", param, ctx)
        if duration > LONGEST:
            return self.fail(f"{value!r} is more than a hundred years", param, ctx)
        return duration


DURATION = DurationType()


def _who(run: CommandContext, identity: str | None, everyone: bool) -> str:
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.domain.names import Identity
    from wake_bridge.storage.graph.nodes import require_known

    if identity and everyone:
        raise UsageMistake(
            f"{identity} and --all contradict each other", hint=f"say {identity}, or --all for everybody"
        )
    if not (identity or everyone):
        raise UsageMistake("no identity is given", hint="name an identity such as @neo-gpt, or use --all")
    if everyone:
        return "*"
    require_known(run.settings, Identity(str(identity)))
    return str(identity)


@click.command()
@click.argument("identity", type=IDENTITY, required=False)
@click.option("--all", "everyone", is_flag=True, help="Pause every identity.")
@click.option("--for", "duration", type=DURATION, help="How long; without it, until `resume`.")
@pass_run
def pause(run: CommandContext, identity: str | None, everyone: bool, duration: int | None) -> None:
    """Pause wakes for one identity or for all. Events that arrive meanwhile wait."""
    from wake_bridge.domain.delivery import DeliveryState
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.domain.names import Instant
    from wake_bridge.records import time_or_none
    from wake_bridge.storage.ledger import LedgerStore
    from wake_bridge.system.clock import SteadyClock

    who = _who(run, identity, everyone)
    if duration == 0:
        raise UsageMistake("a pause of no length", "--for", hint="say how long, such as 30m; or leave --for out")
    now = SteadyClock().now()
    until = Instant(now + duration) if duration else None
    ledger = LedgerStore.open(run.settings.state_dir)
    ledger.pause(who, until, now)
    # one that waits with its text staged has a hold, and the pause keeps it there
    under_way = [one for one in ledger.unsettled() if one.state is DeliveryState.LOCKED and one.hold is None]
    ledger.close()
    run.poke_daemon()
    ends = f"until {time_or_none(until)}" if until else f"until `wake-bridge resume {identity or '--all'}`"
    run.console.object(
        {"paused": who, "until": time_or_none(until)}, f"{identity or 'every identity'} is paused {ends}"
    )
    for one in under_way:
        if who in {"*", one.identity}:
            run.console.warn(
                f"note: a wake for {one.identity} was already being sent to {one.where} and may still arrive:"
                f" `wake-bridge deliveries show {one.id}`"
            )


@click.command()
@click.argument("identity", type=IDENTITY, required=False)
@click.option("--all", "everyone", is_flag=True, help="Resume every identity.")
@pass_run
def resume(run: CommandContext, identity: str | None, everyone: bool) -> None:
    """Resume wakes, and lift a spent budget or the loop brake.

    Only `resume --all` ends a `pause --all`.
    """
    from wake_bridge.storage.ledger import LedgerStore
    from wake_bridge.system.clock import SteadyClock

    who = _who(run, identity, everyone)
    now = SteadyClock().now()
    ledger = LedgerStore.open(run.settings.state_dir)
    paused = [one.identity for one in ledger.pauses(now)]
    held = {one.hold.reason for one in ledger.unsettled() if one.hold and who in {"*", one.identity}}
    ledger.resume(who, now)
    left = [one.identity for one in ledger.pauses(now)]
    ledger.close()
    run.poke_daemon()
    run.console.object({"resumed": who}, _resumed(who, paused, held))
    if "*" in left:
        run.console.warn("note: every identity is still paused: `wake-bridge resume --all`")


def _resumed(who: str, paused: Collection[str], held: Collection[HoldReason]) -> str:
    """What `resume` ended, by its cause: a pause that was there, a limit that held something."""
    from wake_bridge.domain.delivery import HoldReason

    whom = "every identity" if who == "*" else who
    ended = [f"the pause of {whom} is over"] if who in paused else []
    if who == "*":
        ended += [f"the pause of {one} is over" for one in paused if one != who]
    ended += [f"the spent budget of {whom} is lifted"] if HoldReason.BUDGET in held else []
    ended += [f"the loop brake of {whom} is lifted"] if HoldReason.LOOP in held else []
    return "; ".join(ended) or ("nobody was paused" if who == "*" else f"{who} was not paused by itself")


@click.command()
@click.argument("delivery_id", metavar="DELIVERY|ITEM")
@click.option("--lease", type=click.IntRange(min=1), metavar="N", help="The lease that the wake names.")
@pass_run
def ack(run: CommandContext, delivery_id: str, lease: int | None) -> None:
    """Acknowledge a delivery: its wake was seen and understood. Or an item of an inbox: it was read.

    A delivery that still waits ends without being sent. If the wake names a lease, an agent must give it with --lease. A
    lease that is no longer in force ends with exit code 7 and changes nothing.
    """
    from wake_bridge.offline import items
    from wake_bridge.offline.mail import acknowledge
    from wake_bridge.records import item_record

    if lease is None and (item := items.acknowledge(run, delivery_id)) is not None:
        run.console.object(item_record(item), f"{item.id} is acknowledged")
        return
    done = acknowledge(run, delivery_id, lease)
    after = done.delivery
    ended = f": it was not delivered yet, and {after.identity} is not woken for it any more" if done.waited else ""
    run.console.object(done.record, f"{after.id} is acknowledged{ended}")


@click.command()
@click.argument("delivery_id", metavar="DELIVERY")
@click.option("--lease", type=click.IntRange(min=1), metavar="N", help="The lease that the wake names.")
@pass_run
def escalate(run: CommandContext, delivery_id: str, lease: int | None) -> None:
    """Pass a delivery to a person now, by the channels of [escalation]. Its agent is not woken for it any more."""
    from wake_bridge.offline.mail import call_person

    done = call_person(run, delivery_id, lease)
    run.console.object(done.record, f"{done.delivery.id} passes to a person within 10 s, if the daemon runs")


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option(
    "--pane", metavar="PANE", help="The pane, by %id or exact name; without it, the pane that this command runs in."
)
@pass_run
def bind(run: CommandContext, identity: str, pane: str | None) -> None:
    """Pin an identity to a tmux pane. The pin beats the pane that its subscriptions name while that pane lives.

    If [targets] names another pane, `bind` is refused (exit code 7) and prints the line to change. wake-bridge records a
    fence, so a pane that later gets the same id is not mistaken for this one. If an agent runs this command itself, its
    conversation is recorded as the identity's too.
    """
    import asyncio

    from wake_bridge.domain.names import Identity
    from wake_bridge.offline.actions import bind as bind_identity
    from wake_bridge.storage.graph.nodes import require_known

    who = Identity(identity)
    require_known(run.settings, who)
    bound = asyncio.run(bind_identity(run.settings, who, pane))
    place, session = bound.place, bound.session
    run.poke_daemon(moved=who)
    record: dict[str, Any] = {
        "agentIdentity": who,
        "pane": place.label if place else None,
        "socket": place.fence.socket if place and place.fence else None,
    }
    words = [f"lives in {place.label}"] if place else []
    if session is not None:
        record["session"] = session.session_id
        words.append(f"has the {session.harness} conversation {session.session_id}")
    if bound.beside:
        record["sharedWith"] = list(bound.beside)
    run.console.object(record, f"{who} {' and '.join(words)}")
    for other in bound.beside:
        run.console.warn(
            f"note: {other} is bound to that pane too: its agent is woken for both, and both share its limits;"
            f" if {other} is elsewhere, run `wake-bridge bind {other}` inside its own pane"
        )


@click.command()
@click.argument("identity", type=IDENTITY)
@pass_run
def unbind(run: CommandContext, identity: str) -> None:
    """Unpin an identity from its pane and its conversations. [targets], or its subscriptions, then name the pane."""
    import asyncio

    from wake_bridge.domain.names import Identity
    from wake_bridge.offline.actions import unbind as unbind_identity
    from wake_bridge.offline.inspection import Inspection
    from wake_bridge.storage.graph.nodes import require_known

    who = Identity(identity)
    require_known(run.settings, who)
    was_bound, said = asyncio.run(unbind_identity(run.settings, who))
    run.poke_daemon(moved=who)
    words = (
        f"{who} is no longer bound to {', '.join(said) or 'its pane'}" if was_bound or said else f"{who} was not bound"
    )
    run.console.object({"agentIdentity": who, "unbound": was_bound or bool(said), "panes": said}, words)
    reach = asyncio.run(Inspection(run.settings).reach([who]))[who]
    where = f"it lives in {reach.where}" if reach.hold is None else f"it cannot be reached now: {reach.hold.detail}"
    run.console.warn(f"note: {where}")


@click.command()
@click.argument("subscription_id", metavar="ID")
@click.option(
    "--since",
    "since",
    type=click.IntRange(min=0),
    required=True,
    help="Replay rows after this log id; 0 replays all.",
)
@pass_run
def resync(run: CommandContext, subscription_id: str, since: int) -> None:
    """Replay past log rows through one subscription, with its filters as they are now. What matches wakes again."""
    from wake_bridge.offline.subscriptions import resync as replay

    subscription_id, again = replay(run, subscription_id, since)
    record: dict[str, Any] = {
        "subscriptionId": subscription_id,
        "eventsReplayed": len(again.events),
        "lastLogId": again.last_log_id,
    }
    if again.first_available is not None:
        record["firstAvailableLogId"] = again.first_available
    run.console.object(record, f"{len(again.events)} events matched again, up to log id {again.last_log_id}")


HELD = "held"
"""Not a state of its own: whatever waits with a reason."""

STATES = click.Choice([*(state.value for state in DeliveryState), HELD], case_sensitive=False)


@click.group(invoke_without_command=True)
@click.option("--state", type=STATES, help="Only deliveries in this state; held: all that wait with a reason.")
@click.option("--target", type=IDENTITY, help="Only deliveries for this identity.")
@limit_option(10_000, 50)
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
    """Show one delivery with its digest, its journal, and the messages to you about it."""
    from wake_bridge.offline.mail import find_delivery
    from wake_bridge.records import delivery_record, journal_record, send_journal_record, send_record
    from wake_bridge.storage.ledger import LedgerStore

    ledger = LedgerStore.open(run.places.state_dir, read_only=True)
    delivery = find_delivery(ledger, delivery_id)
    record = delivery_record(delivery, ledger.events_of(delivery.id))
    record["journal"] = [journal_record(entry) for entry in ledger.journal_of(delivery.id)]
    record["messages"] = [
        send_record(one) | {"journal": [send_journal_record(line) for line in ledger.journal_of_send(one.id)]}
        for one in ledger.sends_about(delivery.id)
    ]
    ledger.close()
    run.console.object(record, _story(record, delivery))


@deliveries.command("retry")
@click.argument("delivery_id", metavar="ID")
@click.option("--i-looked", is_flag=True, help="Confirm that you looked at the pane and this wake did not arrive.")
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
    from wake_bridge.domain.reasons import ended_with, held_because

    if delivery.outcome is not None:
        return f"{ended_with(delivery)} (proof {int(delivery.proof)})"
    if delivery.state is DeliveryState.ESCALATED:
        return "not answered in time; a person is being told"
    if delivery.hold is not None:
        return f"held: {held_because(delivery.hold, delivery.identity)}"
    if delivery.state is DeliveryState.LOCKED:
        return "being announced right now"
    return "waiting for its window" if delivery.state is DeliveryState.PENDING else "about to be announced"


def _story(record: dict[str, object], delivery: Delivery) -> str:
    lines = [
        f"{delivery.id}  {delivery.identity}  {record['pane'] or 'no pane yet'}  {delivery.state}",
        _standing(delivery),
    ]
    if record["hold_detail"]:
        lines.append(f"because: {record['hold_detail']}")
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
    messages = record["messages"]
    assert isinstance(messages, list)  # noqa: S101 - as above
    for message in messages:
        lines += ["", f"message {message['messageId']} by {message['channel'] or 'no channel yet'}: {message['title']}"]
        lines += [f"{line['at']}  {line['step']:<14} {line['why'] or ''}".rstrip() for line in message["journal"]]
    return "\n".join(lines)
