"""`notify`: put something from outside into an inbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, WordType, pass_run
from wake_bridge.domain.events import ItemMode, ItemPriority, ItemState, ItemTier

if TYPE_CHECKING:
    from wake_bridge.ports.items import TakenItem


@click.command()
@click.argument("recipient", metavar="TO", type=IDENTITY)
@click.argument("text", metavar="TEXT|-")
@click.option("--source", required=True, metavar="NAME", help="Who says it, such as build, cron or ci.")
@click.option(
    "--mode", type=WordType(ItemMode), help="passive: at the next turn; prompt: for you; active: wake at once."
)
@click.option("--tier", type=WordType(ItemTier), help="When it is worth reading: now, next or later.")
@click.option(
    "--priority", type=WordType(ItemPriority), default=ItemPriority.NORMAL, help="How it is ordered and labelled."
)
@click.option("--key", default="", help="What it is about: a later one under the same key takes its place.")
@click.option(
    "--conversation",
    "session_id",
    default="",
    metavar="ID",
    help="Show it to you only where this conversation is shown.",
)
@click.option("--state", type=WordType(ItemState), default=ItemState.NONE, help="open or resolved, with --key.")
@pass_run
def notify(run: CommandContext, /, text: str, **fields: Any) -> None:
    """Put something from outside into an agent's inbox, or into yours with @me.

    TEXT may have several lines; - reads it from stdin. What the source's table [sources.NAME] says holds where an option is
    missing; without either, the agent gets it at its next turn.
    """
    from wake_bridge.domain.items import ItemDraft
    from wake_bridge.offline.items import notify as put
    from wake_bridge.records import item_record

    said = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    taken = put(run, ItemDraft(text=said, **fields))
    record = {**item_record(taken.event), "was": taken.was.value, "isStorm": taken.is_storm}
    run.console.object(record, told(taken))


def told(taken: TakenItem) -> str:
    """What became of an item, one line."""
    from wake_bridge.domain.items import TakenAs
    from wake_bridge.domain.names import WakePolicy

    event = taken.event
    dropped = {
        TakenAs.SAME: "dropped: the same was said less than 5 minutes ago",
        TakenAs.REPEATED: "dropped: it is open, and was told less than 4 hours ago",
        TakenAs.OVER: "dropped: nothing is open under this key",
    }
    if taken.was in dropped:
        return dropped[taken.was]
    if taken.is_storm:
        return f"{event.id}: its source storms: it waits in the inbox of {event.identity}, and nobody is told"
    mode = getattr(event.detail, "mode", None)
    if mode is ItemMode.PROMPT:
        return f"{event.id}: in your inbox, and on its way to you"
    if event.policy is WakePolicy.IMMEDIATE:
        return f"{event.id}: wakes {event.identity} when that is safe"
    return f"{event.id}: {event.identity} gets it " + (
        "when it asks for what is later" if event.policy is WakePolicy.SILENT else "at its next turn"
    )
