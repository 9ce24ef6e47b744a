"""`sources`: who sends items from outside, and their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wake_bridge.cli.context import CommandContext, pass_run

if TYPE_CHECKING:
    from wake_bridge.config.fields import SourceTable
    from wake_bridge.config.source_tokens import SourceTokens


@click.group()
def sources() -> None:
    """List the sources of items, and make or replace their tokens.

    A source is who sends items from outside, such as ci. Over HTTP it needs a token (docs/intake.md).
    """


@sources.command("list")
@pass_run
def list_sources(run: CommandContext) -> None:
    """List the sources that are configured or have a token, and what each may do."""
    tables = run.settings.config.sources
    tokens = _tokens(run).known()
    names = sorted({*tables, *tokens})
    for name in names:
        table = tables[name] if name in tables else _with_defaults()
        record = {
            "source": name,
            "mode": table.mode,
            "threshold": table.threshold,
            "debounce": table.debounce,
            "identities": list(table.identities),
            "tiers": list(table.tiers),
            "hasToken": name in tokens,
        }
        whom = ", ".join(table.identities) or "everybody here"
        has = "has a token" if name in tokens else "no token"
        run.console.line(record, f"{name}  {table.mode}, wakes from {table.threshold}  {whom}  {has}")
    if not names:
        run.console.say("no sources; `wake-bridge sources token NAME` makes a token for one")


@sources.command("token")
@click.argument("name", metavar="NAME")
@click.option("--remove", "is_removed", is_flag=True, help="Take its token away instead.")
@pass_run
def token(run: CommandContext, name: str, is_removed: bool) -> None:
    """Make a token for a source, or replace the one that it has, and print it once. It counts at once."""
    from wake_bridge.domain.errors import NotFound, RefusedForSafety, UsageMistake
    from wake_bridge.domain.items import is_source
    from wake_bridge.offline.owner import invoker

    who = invoker(run)
    if not who.is_person:
        raise RefusedForSafety(
            "a token lets programs outside wake every agent",
            who.told,
            hint="a person can do this in their own shell, outside any agent",
        )
    if not is_source(name):
        raise UsageMistake("a source is named by 1 to 32 letters, digits, - and _", name, hint="such as ci")
    tokens = _tokens(run)
    if not is_removed:
        made = tokens.renew(name)
        run.console.object({"source": name, "token": made, "hasToken": True}, made)
        return
    if not tokens.forget(name):
        raise NotFound("this source has no token", name, hint="`wake-bridge sources list` shows who has one")
    run.console.object({"source": name, "token": None, "hasToken": False}, f"{name} has no token any more")


def _with_defaults() -> SourceTable:
    """What a source may do that the configuration does not name."""
    from wake_bridge.config.fields import SourceTable

    return SourceTable()


def _tokens(run: CommandContext) -> SourceTokens:
    from wake_bridge.config.source_tokens import SourceTokens

    return SourceTokens(run.places.state_dir)
